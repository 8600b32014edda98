"""Maps of corresponding weights, for conversion in both directions."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.layers.run_layers import get_activation
from keras_albert.layers.transformer_block import DENSE_LAYERS

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

_NORMS = ("attention_layer_norm", "feedforward_layer_norm")


def pair(ours: str, theirs: str, weights: Iterable[str]) -> Mappings:
    """Map weights that have the same names in both layers."""
    return tuple(
        WeightMapping(f"{ours}/{weight}", f"{theirs}/{weight}") for weight in weights
    )


def name_blocks(
    scope: str,
    denses: Sequence[str],
    norms: Sequence[str],
    map_dense: Callable[[str, str], Mappings],
    map_norm: Callable[[str, str], Mappings],
) -> Block:
    """Return the function that maps a block, from `{group}`, `{inner}` and the names.

    The names of layers are in the order of `DENSE_LAYERS` and `_NORMS`.
    """

    def block(group: int, inner: int, num_heads: int) -> Mappings:
        ours = f"encoder/group_{group}_block_{inner}"
        theirs = scope.format(group=group, inner=inner)
        found: list[WeightMapping] = []
        for own, foreign in zip(DENSE_LAYERS, denses, strict=True):
            found += map_dense(f"{ours}/{own}", theirs + foreign)
        for own, foreign in zip(_NORMS, norms, strict=True):
            found += map_norm(f"{ours}/{own}", theirs + foreign)
        return tuple(found)

    return block


@dataclass(frozen=True)
class Head:
    """The head weights of a task."""

    task: str
    foreign: str
    # A checkpoint contains each part completely or not at all.
    parts: tuple[Mappings, ...] = ()
    has_pooler: bool = True
    # Where it is not that of the architecture.
    pooler: Mappings | None = None

    @property
    def mappings(self) -> Mappings:
        """Those of all parts."""
        return tuple(each for part in self.parts for each in part)


@dataclass(frozen=True, kw_only=True)
class WeightMap:
    """The names of an architecture's weights in one format."""

    embeddings: Mappings
    # Of the group, the block in it, and the number of heads.
    block: Block
    pooler: Mappings
    projection: Mappings = ()
    heads: tuple[Head, ...]
    # Names that begin so belong to a head, and are ignored without it.
    head_prefixes: tuple[str, ...]
    # The activation of a masked LM's head; `None` is the encoder's.
    head_activation: str | None = None


def variables_by_path(model: keras.Model) -> dict[str, keras.Variable]:
    """Return a model's weights by their paths within it, such as `pooler/kernel`.

    The weights of a nested model keep their paths in that model.
    """
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
    """Copy a foreign checkpoint's tensors into a model, all of them or none.

    Each weight and each tensor must be mapped once; `kept` weights, unmapped, stay.
    """
    table = _checked_table(model, mappings, kept)
    problems = [
        f"missing: {mapping.name}"
        for mapping, _ in table
        if mapping.name not in tensors
    ]
    known = {mapping.name for mapping, _ in table}
    problems += [f"unexpected: {name}" for name in sorted(set(tensors) - known)]
    values: list[tuple[keras.Variable, Array]] = []
    for mapping, variable in table:
        if mapping.name not in tensors:
            continue
        array = tensors[mapping.name]
        expected = _foreign_shape(mapping, variable)
        if tuple(array.shape) != expected:
            problems.append(
                f"wrong shape: {mapping.name} is {tuple(array.shape)}, and the model "
                f"needs {expected}"
            )
        elif problem := _unusable(array, variable.dtype):
            problems.append(f"{problem}: {mapping.name}")
        else:
            values.append((variable, mapping.transform.to_ours(array)))
    if problems:
        raise ValueError(
            f"The weights of {source} do not fit the model that its config "
            f"describes:\n  {_bullets(problems)}\nNothing was loaded. Use a checkpoint "
            "whose files belong together, and leave out arguments that change shapes."
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
            f"The weights of {model.name!r} cannot be exported:\n  "
            f"{_bullets(problems)}\nContinue from an earlier checkpoint with finite "
            "weights."
        )
    return tensors


def _checked_table(
    model: keras.Model, mappings: Iterable[WeightMapping], kept: Collection[str]
) -> list[tuple[WeightMapping, keras.Variable]]:
    """Pair each mapping with its variable, and check that none is missing."""
    mappings = list(mappings)
    variables = variables_by_path(model)
    covered = [mapping.variable for mapping in mappings] + list(kept)
    names = [mapping.name for mapping in mappings]
    problems = [
        *(
            f"the model has no weight: {path}"
            for path in covered
            if path not in variables
        ),
        *(f"no mapping names: {path}" for path in variables if path not in covered),
        *(f"named twice: {path}" for path in _repeated(covered)),
        *(f"named twice: {name}" for name in _repeated(names)),
    ]
    if problems:
        raise ValueError(
            f"The weights of {model.name!r} do not match the table:\n  "
            f"{_bullets(problems)}\nConvert the model in floating point, before it is "
            "quantized or given LoRA weights, and with an embedding projection."
        )
    return [(mapping, variables[mapping.variable]) for mapping in mappings]


def _foreign_shape(mapping: WeightMapping, variable: keras.Variable) -> tuple[int, ...]:
    # One byte for a variable of any size: only the shape matters.
    ours = np.broadcast_to(np.int8(0), tuple(variable.shape))
    return mapping.transform.to_foreign(ours).shape


def _unusable(array: Array, dtype: Any) -> str | None:
    """Return what is wrong with the values in a dtype, or `None`."""
    # For NumPy, bfloat16 of ml_dtypes is not a floating point type.
    if "float" not in str(array.dtype):
        return f"not floating point ({array.dtype})"
    with np.errstate(over="ignore"):
        held = array.astype("float16") if str(dtype) == "float16" else array
    if not np.isfinite(held.astype("float32", copy=False)).all():
        return "not finite (NaN or infinity)"
    return None


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _bullets(problems: list[str], limit: int = 20) -> str:
    shown = problems[:limit]
    if len(problems) > limit:
        shown.append(f"and {len(problems) - limit} more")
    return "\n  ".join(shown)


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


def check_head_activation(model: Any, library: str, activation: str | None) -> None:
    """Check that a masked LM's head has another library's activation."""
    layer = getattr(model, "masked_lm_head", None)
    expected = activation or backbone_of(model).activation
    if layer is not None and get_activation(layer.activation) != get_activation(
        expected
    ):
        raise ValueError(
            f"{library}'s masked LM has the activation {expected!r} in its head, and "
            f"this model has {layer.activation!r}. Save it as a preset of "
            "keras_albert instead."
        )


def check_head_epsilon(model: Any, library: str) -> None:
    """Check that a masked LM's head has the LayerNorm epsilon of its backbone."""
    layer = getattr(model, "masked_lm_head", None)
    own = backbone_of(model).layer_norm_epsilon
    if layer is not None and layer.layer_norm_epsilon != own:
        raise ValueError(
            f"{library} has one epsilon for LayerNorm in the encoder and in the head. "
            f"Received {own} and {layer.layer_norm_epsilon}. Build a new masked LM "
            "with head_layer_norm_epsilon=None, call its `set_weights`, and export "
            "it; scores will differ slightly."
        )
