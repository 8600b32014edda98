"""Maps of corresponding weights, for conversion in both directions."""

import abc
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.layers.base_layer import DENSE_LAYERS, get_activation
from keras_albert.presets.checkpoint import Checkpoint, CheckpointFormat
from keras_albert.text.tokenizer.read_word_piece import has_word_piece, read_word_piece
from keras_albert.text.tokenizer.vocabularies import read_any_vocabulary

Array: TypeAlias = npt.NDArray[Any]
Tensors: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class Transform:
    """The conversion of an array between two layouts."""

    to_ours: Callable[[Array], Array]
    to_foreign: Callable[[Array], Array]


IDENTITY = Transform(to_ours=lambda array: array, to_foreign=lambda array: array)

# Dense kernels are (in, out) in Keras and (out, in) in PyTorch.
TRANSPOSED = Transform(to_ours=np.transpose, to_foreign=np.transpose)


def split_last(parts: int) -> Transform:
    """Lay the last axis out as `(parts, rest)` in the foreign array."""
    return Transform(
        to_ours=lambda array: array.reshape(*array.shape[:-2], -1),
        to_foreign=lambda array: array.reshape(*array.shape[:-1], parts, -1),
    )


def split_first(parts: int) -> Transform:
    """Lay the first axis out as `(parts, rest)` in the foreign array."""
    return Transform(
        to_ours=lambda array: array.reshape(-1, *array.shape[2:]),
        to_foreign=lambda array: array.reshape(parts, -1, *array.shape[1:]),
    )


@dataclass(frozen=True)
class WeightMapping:
    """One weight, with both of its names."""

    variable: str
    name: str
    transform: Transform = IDENTITY


Mappings: TypeAlias = tuple[WeightMapping, ...]
Block: TypeAlias = Callable[[int, int, int], Mappings]

_TABLES = ("token_embedding", "position_embedding", "segment_embedding")
_NORMS = ("attention_layer_norm", "feedforward_layer_norm")


@dataclass(frozen=True)
class Naming:
    """How a format names the weights of a layer, after the name of the layer."""

    kernel: str
    bias: str
    gamma: str
    beta: str
    table: str
    # The transform of the kernels of dense layers.
    transform: Transform = IDENTITY

    def dense(self, ours: str, theirs: str) -> Mappings:
        """Map a dense layer."""
        return (
            WeightMapping(f"{ours}/kernel", theirs + self.kernel, self.transform),
            WeightMapping(f"{ours}/bias", theirs + self.bias),
        )

    def norm(self, ours: str, theirs: str) -> Mappings:
        """Map a layer normalization."""
        return (
            WeightMapping(f"{ours}/gamma", theirs + self.gamma),
            WeightMapping(f"{ours}/beta", theirs + self.beta),
        )

    def embeddings(self, tables: Sequence[str], norm: str) -> Mappings:
        """Map the embeddings of tokens, positions and segments, and their norm."""
        found = [
            # KerasHub names the variable of position embeddings `embeddings` as well.
            WeightMapping(f"embedding/{ours}/embeddings", theirs + self.table)
            for ours, theirs in zip(_TABLES, tables, strict=True)
        ]
        return (*found, *self.norm("embedding/layer_norm", norm))

    def masked_lm(self, dense: str, norm: str, bias: str) -> Mappings:
        """Map the head of a masked LM; its last layer is tied to the embeddings."""
        return (
            *self.dense("masked_lm_head/transform", dense),
            *self.norm("masked_lm_head/layer_norm", norm),
            WeightMapping("masked_lm_head/output_bias", bias),
        )

    def block(self, scope: str, denses: Sequence[str], norms: Sequence[str]) -> Block:
        """Return the function that maps a block; `scope` has `{group}`, `{inner}`.

        The names of layers are in the order of `DENSE_LAYERS` and `_NORMS`.
        """

        def block(group: int, inner: int, num_heads: int) -> Mappings:
            ours = f"encoder/group_{group}_block_{inner}"
            theirs = scope.format(group=group, inner=inner)
            found: list[WeightMapping] = []
            for own, foreign in zip(DENSE_LAYERS, denses, strict=True):
                found += self.dense(f"{ours}/{own}", theirs + foreign)
            for own, foreign in zip(_NORMS, norms, strict=True):
                found += self.norm(f"{ours}/{own}", theirs + foreign)
            return tuple(found)

        return block


# The names of Keras.
KERAS_NAMING = Naming("/kernel", "/bias", "/gamma", "/beta", "/embeddings")


@dataclass(frozen=True)
class Head:
    """The head weights of a task."""

    task: str
    foreign: str
    # A checkpoint contains each part completely or not at all.
    parts: tuple[Mappings, ...] = ()
    has_pooler: bool = True
    # Where it is not the architecture's.
    pooler: Mappings | None = None

    @property
    def mappings(self) -> Mappings:
        """The mappings of all parts."""
        return tuple(each for part in self.parts for each in part)


@dataclass(frozen=True, kw_only=True)
class WeightMap:
    """The names of an architecture's weights in one format."""

    embeddings: Mappings
    # A function of the group, the block in it, and the number of heads.
    block: Block
    pooler: Mappings
    projection: Mappings = ()
    heads: tuple[Head, ...]
    # Names with these prefixes belong to a head, and are ignored without it.
    head_prefixes: tuple[str, ...]
    # The activation and the epsilon of a masked LM's head; `None` are the encoder's.
    head_activation: str | None = None
    head_epsilon: float | None = None
    pooler_activation: str = "tanh"
    # Whether embeddings that are as wide as the encoder are projected as well.
    always_projects: bool = False


def variables_by_path(model: keras.Model) -> dict[str, keras.Variable]:
    """Return a model's weights by their paths within it, such as `pooler/kernel`."""
    # The weights of a nested model keep their paths in that model.
    inner = [layer for layer in model.layers if isinstance(layer, keras.Model)]
    found = {path: w for part in inner for path, w in variables_by_path(part).items()}
    inside = {id(weight) for weight in found.values()}
    own = [weight for weight in model.weights if id(weight) not in inside]
    scope = _scope([layer for layer in model.layers if layer not in inner], own)
    return found | {weight.path.removeprefix(scope): weight for weight in own}


def _scope(layers: list[keras.Layer], weights: list[keras.Variable]) -> str:
    """Return the prefix of all paths of a model created while another was built."""
    own = {id(weight) for weight in weights}
    for layer in layers:
        for weight in layer.weights:
            before, name, _ = f"/{weight.path}".partition(f"/{layer.name}/")
            if name and id(weight) in own:
                return f"{before}/".removeprefix("/")
    return ""


def load_weights(
    model: keras.Model,
    tensors: Tensors,
    mappings: Iterable[WeightMapping],
    kept: Collection[str] = (),
    source: str = "the checkpoint",
) -> None:
    """Copy a foreign checkpoint's tensors into a model, all of them or none."""
    # Each weight and each tensor must be mapped once; `kept` weights, unmapped, stay.
    table = _checked_table(model, mappings, kept)
    names = [mapping.name for mapping, _ in table]
    problems = [f"missing: {name}" for name in names if name not in tensors]
    known = set(names)
    problems += [f"unexpected: {name}" for name in sorted(set(tensors) - known)]
    values: list[tuple[keras.Variable, Array]] = []
    for mapping, variable in table:
        if mapping.name not in tensors:
            continue
        array = tensors[mapping.name]
        # One byte for a variable of any size: only the shape matters.
        ours = np.broadcast_to(np.int8(0), tuple(variable.shape))
        expected = mapping.transform.to_foreign(ours).shape
        if tuple(array.shape) != expected:
            wrong = f"{tuple(array.shape)} instead of {expected}"
            problems.append(f"wrong shape: {mapping.name} is {wrong}")
        elif problem := _unusable(array, variable.dtype):
            problems.append(f"{problem}: {mapping.name}")
        else:
            values.append((variable, mapping.transform.to_ours(array)))
    if problems:
        raise ValueError(
            f"The weights of {source} do not fit its config, or an argument changes "
            f"shapes:\n  {_bullets(problems)}\nNothing was loaded."
        )
    for variable, value in values:
        variable.assign(value)


def dump_weights(
    model: keras.Model, mappings: Iterable[WeightMapping], kept: Collection[str] = ()
) -> dict[str, Array]:
    """Return copies of a model's weights, by foreign names and in foreign layouts."""
    tensors: dict[str, Array] = {}
    problems = []
    for mapping, variable in _checked_table(model, mappings, kept):
        array = np.asarray(keras.ops.convert_to_numpy(variable.value))
        if problem := _unusable(array, array.dtype):
            problems.append(f"{problem}: {mapping.variable}")
        tensors[mapping.name] = np.ascontiguousarray(
            mapping.transform.to_foreign(array)
        )
    if problems:
        raise ValueError(
            f"The weights of {model.name!r} cannot be exported:\n  {_bullets(problems)}"
        )
    return tensors


def _checked_table(
    model: keras.Model, mappings: Iterable[WeightMapping], kept: Collection[str]
) -> list[tuple[WeightMapping, keras.Variable]]:
    """Pair each mapping with its variable, and check that none is missing."""
    mappings = list(mappings)
    variables = variables_by_path(model)
    covered = {mapping.variable for mapping in mappings}.union(kept)
    if odd := sorted(covered ^ variables.keys()):
        raise ValueError(
            f"The model has other weights than the format:\n  {_bullets(odd)}\nConvert "
            "it in floating point, before it is quantized or given LoRA weights."
        )
    return [(mapping, variables[mapping.variable]) for mapping in mappings]


def _unusable(array: Array, dtype: Any) -> str | None:
    """Return what is wrong with the values in a dtype, or `None`."""
    # For NumPy, bfloat16 of ml_dtypes is not a floating point type.
    if "float" not in str(array.dtype):
        return f"not floating point ({array.dtype})"
    with np.errstate(over="ignore"):
        array = array.astype("float16") if str(dtype) == "float16" else array
    if not np.isfinite(array.astype("float32", copy=False)).all():
        return "not finite (NaN or infinity)"
    return None


def _bullets(problems: list[str]) -> str:
    return "\n  ".join([*problems[:20], "..."] if len(problems) > 20 else problems)


def backbone_of(model: Any) -> Any:
    """Return the backbone of a task, or a backbone itself."""
    return getattr(model, "backbone", model)


def has_bert_dials(backbone: Any) -> bool:
    """Return whether a backbone is a BERT of several layers."""
    own_layers: bool = backbone.num_groups == backbone.num_layers > 1
    return (
        own_layers
        and backbone.num_inner_repetitions == 1
        and backbone.embedding.projection is None
    )


def head_variables(model: keras.Model) -> list[str]:
    """Return the paths of a model's weights that are not its backbone's."""
    inside = variables_by_path(backbone_of(model))
    return [path for path in variables_by_path(model) if path not in inside]


def find_head(heads: Iterable[Head], model: keras.Model) -> Head | None:
    """Find the head with a model's weights, of its class or the nearest base class."""
    own = set(head_variables(model))
    names = [cls.__name__ for cls in type(model).__mro__]
    fitting = [
        head
        for head in heads
        if head.task in names and {mapping.variable for mapping in head.mappings} == own
    ]
    return min(fitting, key=lambda head: names.index(head.task), default=None)


def check_same(library: str, owner: Any, **expected: Any) -> None:
    """Raise if a model or a layer differs from another library's fixed settings."""

    def plain(name: str, value: Any) -> Any:
        # A name and a function may be the same activation.
        return get_activation(value) if "activation" in name else value

    found = {name: getattr(owner, name) for name in expected}
    for name, value in expected.items():
        if plain(name, found[name]) != plain(name, value):
            raise ValueError(
                f"{library} has no model with {name}={found[name]!r}, only with "
                f"{value!r}. Save it as a preset of keras_albert, or `export` it."
            )


class WeightMapCheckpoint(Checkpoint):
    """A checkpoint defined by its names, and by how tensors are read."""

    format: "WeightMapFormat"

    # The file of the vocabulary, and other files to read it from.
    vocabulary_files: ClassVar[tuple[str, ...]]

    @property
    def weight_map(self) -> Any:
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
        if path is None and has_word_piece(self.directory):
            return read_word_piece(self.directory)
        if path is None:
            raise ValueError(
                f"{self.directory} has no {' or '.join(self.vocabulary_files)}. Copy "
                "the vocabulary there, or pass a `tokenizer` or `preprocessor`."
            )
        return read_any_vocabulary(path, "keep")

    def find_vocabulary(self) -> Path | None:
        """Return the file to read the vocabulary from, or `None`."""
        paths = (self.directory / name for name in self.vocabulary_files)
        return next((path for path in paths if path.is_file()), None)

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

    def __init__(self, key: str, weight_map: Any) -> None:
        self.key, self.weight_map = key, weight_map

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
        head, backbone = find_head(self.weight_map.heads, model), backbone_of(model)
        if head is None:
            known = sorted({head.task for head in self.weight_map.heads})
            raise ValueError(
                f"{self.name} has no model with the head of {type(model).__name__}, "
                f"{head_variables(model)}. Supported heads: {', '.join(known)}. Save "
                "it as a preset of keras_albert, or export its `backbone`."
            )
        if head.has_pooler and getattr(model, "uses_pooler", True):
            activation = self.weight_map.pooler_activation
            check_same(
                self.name, backbone, pooler_input="cls", pooler_activation=activation
            )
        if head.task == "AlbertClassifier":
            check_same(self.name, model, pooling_mode="pooler")
        if (layer := getattr(model, "masked_lm_head", None)) is not None:
            activation = self.weight_map.head_activation or backbone.activation
            check_same(self.name, layer, activation=activation)
            if self.weight_map.head_epsilon is None:
                epsilon = backbone.layer_norm_epsilon
                check_same(self.name, layer, layer_norm_epsilon=epsilon)
        return head

    def dump(self, model: keras.Model) -> dict[str, Array]:
        """Return copies of a model's weights, by the format's names."""
        head, backbone = self.head_for(model), backbone_of(model)
        pooler = () if head.has_pooler else self.pooler_of(head)
        kept = [each.variable for each in pooler]
        tensors = dump_weights(model, self.mappings(model), kept=kept)
        projects = backbone.embedding.projection is not None
        widths = backbone.embedding_dim, backbone.hidden_dim
        if self.weight_map.always_projects and not projects:
            tensors |= self._identity(widths[0])
        if not self.weight_map.always_projects and projects and widths[0] == widths[1]:
            for name, identity in self._identity(widths[0]).items():
                if not np.array_equal(tensors.pop(name), identity):
                    raise ValueError(
                        f"{self.name} does not project embeddings that are as wide as "
                        "the encoder, and this model does. Choose another format."
                    )
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

    def mappings(self, model: keras.Model) -> list[WeightMapping]:
        """Return the weight map of a model."""
        head = find_head(self.weight_map.heads, model)
        mappings = self.backbone_mappings(backbone_of(model))
        if head is None or head.has_pooler:
            mappings += self.pooler_of(head)
        return mappings + list(head.mappings if head is not None else ())

    def names(self, model: keras.Model) -> dict[str, str]:
        return {each.variable: each.name for each in self.mappings(model)}
