"""Formats defined by a map of weights, which serves reading and writing."""

import abc
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import keras
import numpy as np

from keras_albert.conversion.weight_map import (
    Array,
    Head,
    Mappings,
    WeightMap,
    WeightMapping,
    backbone_of,
    check_head_activation,
    dump_weights,
    find_head,
    head_variables,
    load_weights,
)
from keras_albert.presets.checkpoint import Checkpoint, CheckpointFormat
from keras_albert.text.tokenizer.read_word_piece import (
    holds_word_piece,
    read_word_piece,
)
from keras_albert.text.tokenizer.vocabularies import read_any_vocabulary


class WeightMapCheckpoint(Checkpoint):
    """A checkpoint defined by its names, and by how tensors are read."""

    format: "WeightMapFormat"

    # The file of the vocabulary, and other files to read it from.
    vocabulary_files: ClassVar[tuple[str, ...]]

    @property
    def weight_map(self) -> WeightMap:
        """The names of the format."""
        return self.format.weight_map

    @abc.abstractmethod
    def read_tensors(self, wanted: Callable[[str], bool]) -> dict[str, Array]:
        """Return the wanted tensors, by the names of the mappings."""

    def has_head(self, head: Head) -> bool:
        """Return whether a head with the same names is of the same kind."""
        return True

    def read_vocabulary(self) -> bytes:
        path = self.find_vocabulary()
        if path is None and holds_word_piece(self.directory):
            return read_word_piece(self.directory)
        if path is None:
            first, *others = (f"`{name}`" for name in self.vocabulary_files)
            raise ValueError(
                f"{self.directory} has no {first}, the vocabulary"
                f"{''.join(f', and no {name}' for name in others)}. Copy it from the "
                "source of the checkpoint, or pass a `tokenizer` or `preprocessor`."
            )
        return read_any_vocabulary(path, "keep")

    def find_vocabulary(self) -> Path | None:
        """Return the file to read the vocabulary from, or `None`."""
        paths = (self.directory / name for name in self.vocabulary_files)
        return next((path for path in paths if path.is_file()), None)

    def backbone_values(self, backbone: Any) -> dict[str, Array]:
        sizes: dict[str, Any] = {"num_groups": 1, "num_inner_repetitions": 1}
        sizes |= self.backbone_arguments()
        projects = sizes["use_embedding_projection"]
        if projects is None:
            projects = sizes["embedding_dim"] != sizes["hidden_dim"]
        embedding = SimpleNamespace(projection=projects or None)
        stored = SimpleNamespace(**sizes, embedding=embedding)
        mappings = [*self.format.backbone_mappings(stored), *self.weight_map.pooler]
        tensors = self.read_tensors({each.name for each in mappings}.__contains__)
        return {
            each.variable: each.transform.to_ours(tensors[each.name])
            for each in mappings
            if each.name in tensors
        }

    def load_weights(
        self, model: Any, keep_head: bool = False, keep_backbone: bool = False
    ) -> None:
        if keep_backbone:
            return
        written = self.format
        head = None if keep_head else find_head(self.weight_map.heads, model)
        found = head is not None and self.has_head(head)
        parts = head.parts if head is not None and found else ()
        pooler = written.pooler_of(head if found else None)
        names = [each.name for part in (pooler, *parts) for each in part]
        passed_over = tuple(
            prefix
            for prefix in self.weight_map.head_prefixes
            if not any(name.startswith(prefix) for name in names)
        )
        tensors = self.read_tensors(lambda name: not name.startswith(passed_over))
        mappings = written.backbone_mappings(backbone_of(model))
        for part in (pooler, *parts):
            if any(each.name in tensors for each in part):
                mappings += part
        named = {each.variable for each in mappings}
        may_be_new = [*(each.variable for each in pooler), *head_variables(model)]
        new = [path for path in may_be_new if path not in named]
        load_weights(model, tensors, mappings, kept=new, source=str(self))
        if not getattr(model, "uses_pooler", True):
            new = [path for path in new if path in head_variables(model)]
        layers = dict.fromkeys(path.rpartition("/")[0] or path for path in new)
        if layers:
            warnings.warn(
                f"{self} has no weights for {', '.join(layers)}, which are initialized "
                "at random. Train the model before using its predictions.",
                stacklevel=2,
            )


class WeightMapFormat(CheckpointFormat):
    """A format defined by its names, and by how tensors are written."""

    weight_map: WeightMap

    # Whether embeddings that are as wide as the encoder are projected, too.
    always_projects: bool = True

    # The activation of the pooler.
    pooler_activation: str = "tanh"

    @property
    def head_activation(self) -> str | None:
        """The activation of a masked LM's head; `None` is the encoder's."""
        return self.weight_map.head_activation

    def pooler_of(self, head: Head | None) -> Mappings:
        """Return the mappings of the pooler, of a head or of the architecture."""
        if head is not None and head.pooler is not None:
            return head.pooler
        return self.weight_map.pooler

    def backbone_mappings(self, backbone: Any) -> list[WeightMapping]:
        """Return the mappings of a backbone, without its pooler."""
        mappings = list(self.weight_map.embeddings)
        for group in range(backbone.num_groups):
            for inner in range(backbone.num_inner_repetitions):
                mappings += self.weight_map.block(group, inner, backbone.num_heads)
        if backbone.embedding.projection is not None:
            mappings += self.weight_map.projection
        return mappings

    def head_for(self, model: keras.Model) -> Head:
        """Return the head that a model is written with."""
        pooler_input = backbone_of(model).pooler_input
        uses_pooler = getattr(model, "uses_pooler", True)
        if uses_pooler and pooler_input != "cls":
            raise ValueError(
                f"The pooler of {self.name}'s ALBERT reads the vector of `[CLS]`. "
                f"Received a model with pooler_input={pooler_input!r}. Load its preset "
                'with `pooler_input="cls"`, fine-tune, and export that model.'
            )
        check_head_activation(model, self.name, self.head_activation)
        head = find_head(self.weight_map.heads, model)
        activation = backbone_of(model).pooler_activation
        if (
            uses_pooler
            and (head is None or head.has_pooler)
            and activation != self.pooler_activation
        ):
            raise ValueError(
                f"The pooler of {self.name}'s model has the activation "
                f"{self.pooler_activation!r}, and this model's has {activation!r}. "
                "Export it in the format that it came from, or save it as a preset of "
                "keras_albert."
            )
        if head is None:
            known = sorted({head.task for head in self.weight_map.heads})
            raise ValueError(
                f"{self.name} has no model with the head of {type(model).__name__} "
                f"({', '.join(head_variables(model)) or 'no weights'}). Supported "
                f"heads: {', '.join(known)}. Save the model as a preset of "
                "keras_albert, or export its `backbone`."
            )
        return head

    def dump(self, model: keras.Model) -> dict[str, Array]:
        """Return copies of a model's weights, by the format's names."""
        head, backbone = self.head_for(model), backbone_of(model)
        mappings, pooler = self.backbone_mappings(backbone), self.pooler_of(head)
        mappings += head.mappings
        kept = [] if head.has_pooler else [each.variable for each in pooler]
        mappings += pooler if head.has_pooler else ()
        tensors = dump_weights(model, mappings, kept=kept)
        projects = backbone.embedding.projection is not None
        widths = backbone.embedding_dim, backbone.hidden_dim
        if self.always_projects and not projects:
            tensors |= self._identity(widths[0])
        if not self.always_projects and projects and widths[0] == widths[1]:
            self._drop_identity(tensors, widths[0])
        return {
            name: np.ascontiguousarray(tensor, "float32")
            for name, tensor in tensors.items()
        }

    def _identity(self, width: int) -> dict[str, Array]:
        kernel, bias = self.weight_map.projection
        identity = {kernel: np.eye(width, dtype="f"), bias: np.zeros(width, "f")}
        return {
            each.name: each.transform.to_foreign(value)
            for each, value in identity.items()
        }

    def _drop_identity(self, tensors: dict[str, Array], width: int) -> None:
        for name, identity in self._identity(width).items():
            if not np.array_equal(tensors.pop(name), identity):
                raise ValueError(
                    f"{self.name} does not project embeddings that are as wide as the "
                    f"encoder ({width}), and this model does, with weights that are "
                    "not the identity. Choose another format."
                )

    def mappings(self, model: keras.Model) -> list[WeightMapping]:
        """Return the weight map of a model."""
        head = find_head(self.weight_map.heads, model)
        mappings = self.backbone_mappings(backbone_of(model))
        if head is None or head.has_pooler:
            mappings += self.pooler_of(head)
        return mappings + list(head.mappings if head is not None else ())

    def names(self, model: keras.Model) -> dict[str, str]:
        return {each.variable: each.name for each in self.mappings(model)}
