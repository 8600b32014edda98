"""Tables of corresponding weights, for conversion in both directions."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Tensors: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class Layout:
    """The conversion of an array between two layouts."""

    to_ours: Callable[[Array], Array]
    to_foreign: Callable[[Array], Array]


IDENTITY = Layout(to_ours=lambda array: array, to_foreign=lambda array: array)

# Dense kernels are (in, out) in Keras and (out, in) in PyTorch.
TRANSPOSED = Layout(to_ours=np.transpose, to_foreign=np.transpose)


def split_last(parts: int) -> Layout:
    """Lay the last axis out as `(parts, rest)` in the foreign array."""
    return Layout(
        to_ours=lambda array: array.reshape(*array.shape[:-2], -1),
        to_foreign=lambda array: array.reshape(*array.shape[:-1], parts, -1),
    )


def split_first(parts: int) -> Layout:
    """Lay the first axis out as `(parts, rest)` in the foreign array."""
    return Layout(
        to_ours=lambda array: array.reshape(-1, *array.shape[2:]),
        to_foreign=lambda array: array.reshape(parts, -1, *array.shape[1:]),
    )


@dataclass(frozen=True)
class Row:
    """One weight, with both of its names."""

    variable: str
    name: str
    layout: Layout = IDENTITY


def paired_rows(ours: str, theirs: str, weights: Iterable[str]) -> tuple[Row, ...]:
    """Return the rows of weights that have the same names in both layers."""
    return tuple(Row(f"{ours}/{weight}", f"{theirs}/{weight}") for weight in weights)


def variables_by_path(model: keras.Model) -> dict[str, keras.Variable]:
    """Return a model's weights by their paths within it."""
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
    rows: Iterable[Row],
    kept: Collection[str] = (),
    source: str = "the checkpoint",
) -> None:
    """Copy a foreign checkpoint's tensors into a model, all of them or none."""
    table = _checked_table(model, rows, kept)
    problems = [f"missing: {row.name}" for row, _ in table if row.name not in tensors]
    known = {row.name for row, _ in table}
    problems += [f"unexpected: {name}" for name in sorted(set(tensors) - known)]
    values: list[tuple[keras.Variable, Array]] = []
    for row, variable in table:
        if row.name not in tensors:
            continue
        array = tensors[row.name]
        expected = _foreign_shape(row, variable)
        if tuple(array.shape) != expected:
            problems.append(
                f"wrong shape: {row.name} is {tuple(array.shape)}, and the model "
                f"needs {expected}"
            )
        elif problem := _unusable(array, variable.dtype):
            problems.append(f"{problem}: {row.name}")
        else:
            values.append((variable, row.layout.to_ours(array)))
    if problems:
        msg = (
            f"The weights of {source} do not fit the model that its config "
            f"describes:\n  {_bullets(problems)}\nNothing was loaded. Use a checkpoint "
            "whose files belong together, and leave out arguments that change shapes."
        )
        raise ValueError(msg)
    for variable, value in values:
        variable.assign(value)


def dump_weights(
    model: keras.Model, rows: Iterable[Row], kept: Collection[str] = ()
) -> dict[str, Array]:
    """Return copies of a model's weights, by foreign names and in foreign layouts."""
    tensors: dict[str, Array] = {}
    problems = []
    for row, variable in _checked_table(model, rows, kept):
        array = np.asarray(keras.ops.convert_to_numpy(variable.value))
        if problem := _unusable(array, array.dtype):
            problems.append(f"{problem}: {row.variable}")
        tensors[row.name] = np.ascontiguousarray(row.layout.to_foreign(array))
    if problems:
        msg = (
            f"The weights of {model.name!r} cannot be exported:\n  "
            f"{_bullets(problems)}\nContinue from an earlier checkpoint with finite "
            "weights."
        )
        raise ValueError(msg)
    return tensors


def _checked_table(
    model: keras.Model, rows: Iterable[Row], kept: Collection[str]
) -> list[tuple[Row, keras.Variable]]:
    """Pair each row with its variable, and check that none is missing."""
    rows = list(rows)
    variables = variables_by_path(model)
    covered = [row.variable for row in rows] + list(kept)
    names = [row.name for row in rows]
    problems = [
        *(
            f"the model has no weight: {path}"
            for path in covered
            if path not in variables
        ),
        *(f"no row names: {path}" for path in variables if path not in covered),
        *(f"named twice: {path}" for path in _repeated(covered)),
        *(f"named twice: {name}" for name in _repeated(names)),
    ]
    if problems:
        msg = (
            f"The weights of {model.name!r} do not match the table:\n  "
            f"{_bullets(problems)}\nConvert the model in floating point, before it is "
            "quantized or given LoRA weights, and with an embedding projection."
        )
        raise ValueError(msg)
    return [(row, variables[row.variable]) for row in rows]


def _foreign_shape(row: Row, variable: keras.Variable) -> tuple[int, ...]:
    # One byte for a variable of any size: only the shape matters.
    ours = np.broadcast_to(np.int8(0), tuple(variable.shape))
    return row.layout.to_foreign(ours).shape


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
