"""Checkpoints whose weights are a table: one row read both ways."""

import abc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import keras
import numpy as np

from keras_albert.backbone import AlbertBackbone
from keras_albert.conversion.heads import (
    Head,
    backbone_of,
    find_head,
    head_variables,
)
from keras_albert.conversion.weight_table import (
    Array,
    Row,
    dump_weights,
    load_weights,
)
from keras_albert.presets.checkpoint_formats import CheckpointFormat


class TabledFormat(CheckpointFormat):
    """A format that says its names, and how tensors get into files and out."""

    # The heads that it has, by our classes.
    heads: ClassVar[tuple[Head, ...]]

    # How the names begin that belong to a head, and are passed over without it.
    head_prefixes: ClassVar[tuple[str, ...]]

    # The projection from the embeddings' width, and the pooler.
    projection_rows: ClassVar[tuple[Row, ...]]
    pooler_rows: ClassVar[tuple[Row, ...]]

    # Whether it projects embeddings that are as wide as the encoder.
    always_projects: ClassVar[bool] = True

    @abc.abstractmethod
    def backbone_rows(self, backbone: AlbertBackbone) -> list[Row]:
        """Give the rows of a backbone but for its projection and its pooler."""

    @abc.abstractmethod
    def read_tensors(
        self, directory: Path, wanted: Callable[[str], bool]
    ) -> dict[str, Array]:
        """Read the tensors that are wanted, under the names of the rows."""

    def has_head(self, directory: Path, head: Head) -> bool:
        """Say whether a checkpoint's head may be the one that is looked for.

        Args:
            directory: Path. The checkpoint.
            head: A head that has the model's weights.

        Returns:
            `False` if it is of another kind, although its names are the same.
        """
        return True

    def load_weights(
        self, model: keras.Model, directory: Path, keep_head: bool = False
    ) -> None:
        """Fill a model; see `CheckpointFormat.load_weights`.

        Args:
            model: A backbone or a task.
            directory: Path. The checkpoint.
            keep_head: bool. Leave a task's head as it is. Defaults to `False`.

        Raises:
            ValueError: If a tensor is missing, left over, of another shape or not
                finite. Nothing is loaded then.
        """
        backbone = backbone_of(model)
        head = None if keep_head else find_head(self.heads, model)
        found = head is not None and self.has_head(directory, head)
        parts = head.parts if head is not None and found else ()
        passed_over = self._prefixes_beside(parts)
        tensors = self.read_tensors(
            directory, lambda name: not name.startswith(passed_over)
        )
        rows = self._rows(backbone)
        pooler = self.pooler_rows
        for part in (pooler, *parts):
            if any(row.name in tensors for row in part):
                rows += part
        named = {row.variable for row in rows}
        may_be_new = [*(row.variable for row in pooler), *head_variables(model)]
        new = [path for path in may_be_new if path not in named]
        load_weights(model, tensors, rows, kept=new, source=str(directory))
        if not getattr(model, "uses_pooler", True):
            new = [path for path in new if path in head_variables(model)]
        _warn_of_new(new, str(directory))

    def _prefixes_beside(self, parts: tuple[tuple[Row, ...], ...]) -> tuple[str, ...]:
        names = [row.name for part in parts for row in part]
        return tuple(
            prefix
            for prefix in self.head_prefixes
            if not any(name.startswith(prefix) for name in names)
        )

    def _rows(self, backbone: AlbertBackbone) -> list[Row]:
        rows = self.backbone_rows(backbone)
        if backbone.embedding.projection is not None:
            rows += self.projection_rows
        return rows

    def head_for(self, model: keras.Model) -> Head:
        """Give the head under which a model is written.

        Args:
            model: A backbone or a task.

        Returns:
            The head.

        Raises:
            ValueError: If the format has none.
        """
        head = find_head(self.heads, model)
        if head is None:
            known = sorted({head.task for head in self.heads})
            msg = (
                f"{self.name} has no model with the head of this {type(model).__name__}"
                f" ({', '.join(head_variables(model)) or 'no weights'}). It has those "
                f"of: {', '.join(known)}. Save the model as a preset of keras_albert, "
                "or export its `backbone`."
            )
            raise ValueError(msg)
        return head

    def dump(self, model: keras.Model) -> dict[str, Array]:
        """Copy a model's weights out, under the format's names.

        Args:
            model: A backbone or a task.

        Returns:
            float32 arrays by name.

        Raises:
            ValueError: If the format has no such head, the weights are quantized or
                have LoRA weights beside them, or one is not finite.
        """
        head, backbone = self.head_for(model), backbone_of(model)
        rows, pooler = self._rows(backbone), self.pooler_rows
        rows += head.rows
        kept = [] if head.has_pooler else [row.variable for row in pooler]
        rows += pooler if head.has_pooler else ()
        tensors = dump_weights(model, rows, kept=kept)
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
        kernel, bias = self.projection_rows
        identity = {kernel: np.eye(width, dtype="f"), bias: np.zeros(width, "f")}
        return {row.name: row.layout.to_foreign(identity[row]) for row in identity}

    def _drop_identity(self, tensors: dict[str, Array], width: int) -> None:
        for name, identity in self._identity(width).items():
            if not np.array_equal(tensors.pop(name), identity):
                msg = (
                    f"{self.name} does not project embeddings that are as wide as the "
                    f"encoder ({width}), and this model does, with weights that are "
                    "not the identity. Choose another format."
                )
                raise ValueError(msg)

    def rows(self, model: keras.Model) -> list[Row]:
        """Give the table of a model.

        Args:
            model: A backbone or a task.

        Returns:
            The rows. A weight that the format has not is in none.
        """
        head = find_head(self.heads, model)
        rows = self._rows(backbone_of(model))
        if head is None or head.has_pooler:
            rows += self.pooler_rows
        return rows + list(head.rows if head is not None else ())

    def names(self, model: keras.Model) -> dict[str, str]:
        """Give the foreign name of each of a model's weights, by our paths."""
        return {row.variable: row.name for row in self.rows(model)}


def _warn_of_new(paths: list[str], source: str) -> None:
    layers = dict.fromkeys(path.rpartition("/")[0] or path for path in paths)
    if layers:
        warnings.warn(
            f"{source} gives no weights to {', '.join(layers)}: they start from "
            "random numbers. Train the model before you use what they compute.",
            stacklevel=2,
        )
