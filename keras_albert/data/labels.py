"""The reader of `y`: labels by name or number become the numbers of a loss."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from numbers import Real
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data.tables import column_names
from keras_albert.text.reading import plain_column
from keras_albert.types import FloatArray, Task


def encode_classes(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> npt.NDArray[np.int32]:
    """Return class names or numbers as class numbers."""
    values = _flat(y)
    if values.dtype.kind not in "iubf":
        rows = values.tolist()
        if not rows or any(isinstance(value, str | bytes) for value in rows):
            return _encode_names(rows, labels)
        is_wrong = [not isinstance(value, Real) for value in rows]
        _refuse(values, is_wrong, "Pass the number or name of a class.")
        values = np.array(rows)
    if values.dtype.kind == "f":
        _refuse(values, ~np.isfinite(values), "Drop the row or label it.")
        _refuse(values, values % 1 != 0, "Classes are integers.")
    if are_integer_names(labels):
        return _encode_names([str(int(value)) for value in values], labels)
    outside = (values < 0) | (values >= num_classes)
    _refuse(
        values,
        outside,
        f"The model has {num_classes} classes, 0 to {num_classes - 1}. Correct the "
        "label, or build the model with more classes.",
    )
    return values.astype(np.int32)


def are_integer_names(labels: Sequence[str] | None) -> bool:
    """Return whether integers are names: all are, and one differs from its number."""
    names = list(labels or ())
    are_integers = all(name.removeprefix("-").isdecimal() for name in names)
    return bool(names) and are_integers and names != [str(n) for n in range(len(names))]


def encode_scores(y: Any) -> npt.NDArray[np.float32]:
    """Return the targets of a regression, float32 `(examples, 1)`."""
    values = _flat(y)
    if values.dtype.kind not in "iubf":
        remedy = "A regression (`num_classes=1`) learns numbers. Convert the label."
        _refuse(values, [not isinstance(x, Real) for x in values.tolist()], remedy)
    scores = values.astype(np.float32)
    _refuse(scores, ~np.isfinite(scores), "Drop the row or correct it.")
    return scores[:, None]


def class_names(y: Any) -> tuple[str, ...]:
    """Return the distinct names among labels, sorted; empty if labels are numbers."""
    values = _array(y)
    if values.dtype.kind not in "USO" or values.ndim != 1:
        return ()
    names = [_name(value) for value in values.tolist()]
    _refuse(values, [name == "" for name in names], "Drop the row or label it.")
    spaced = [x for x in values if isinstance(x, str) and x != x.strip()]
    if spaced:
        warnings.warn(f"Spaces around labels are removed: {spaced[0]!r}.", stacklevel=2)
    return tuple(sorted({name for name in names if name is not None}))


def _array(y: Any) -> npt.NDArray[Any]:
    """Convert labels, without the axis of a single column."""
    y = plain_column(y)
    # NumPy would convert a NaN among names to the name "nan".
    is_named = isinstance(y, list | tuple) and any(
        isinstance(value, str | bytes) for value in y
    )
    try:
        values = np.asarray(y, object if is_named else None)
    except ValueError:
        # Lists of different lengths.
        values = np.empty((len(y), 0))
    if values.dtype.kind == "T":
        values = values.astype(object)
    is_column = values.ndim == 2 and values.shape[1] == 1
    return values[:, 0] if is_column else values


def _flat(y: Any) -> npt.NDArray[Any]:
    values = _array(y)
    if not values.ndim:
        raise ValueError(
            f"Labels must be a list, one for each text. Received: {y!r:.80}. To name "
            "the column of a table, pass `label=`."
        )
    if values.ndim != 1:
        raise ValueError(
            "Labels must be one number or name for each text. Received: "
            f"{str(y)[:80]}. For one-hot labels pass `y.argmax(axis=-1)`, or compile "
            "with `keras.losses.CategoricalCrossentropy(...)`."
        )
    return values


def _name(value: Any) -> str | None:
    """Return the name of a class, without spaces around it."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value.strip() if isinstance(value, str) else None


def _encode_names(
    values: list[Any], labels: Sequence[str] | None
) -> npt.NDArray[np.int32]:
    numbers = {str(_name(name)): number for number, name in enumerate(labels or ())}
    encoded = np.empty(len(values), np.int32)
    for row, value in enumerate(values):
        name = _name(value)
        if name is None or name not in numbers:
            known = ", ".join(map(repr, numbers)) or "none: pass `labels=[...]`"
            near = get_close_matches(str(name), numbers, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else "Correct or drop it."
            if are_integer_names(labels):
                remedy = "Integers are names if all names are integers. " + remedy
            raise ValueError(
                f"Row {row} has the label {value!r}, which is not a class of the "
                f"model. Its classes are: {known}. {remedy}"
            )
        encoded[row] = numbers[name]
    return encoded


def _refuse(values: npt.NDArray[Any], wrong: Any, remedy: str) -> None:
    """Raise if some rows are wrong; name the first one."""
    if rows := np.flatnonzero(wrong).tolist():
        value, more = values[rows[0]], len(rows) - 1
        shown = repr(value.item() if isinstance(value, np.generic) else value)
        others = f" There are {more} more such rows." if more else ""
        raise ValueError(f"Row {rows[0]} has the label {shown}. {remedy}{others}")


def encode_class_weights(
    class_weight: Any, num_classes: int, labels: Sequence[str] | None
) -> dict[int, float]:
    """Return a weight for each class, 1 by default."""
    # Keras handles missing classes differently on each backend, and ignores unknown
    # ones.
    if not isinstance(class_weight, Mapping):
        raise TypeError(
            "`class_weight` must be a dict of classes and their weights, for example "
            f"`{{0: 1.0, 1: 3.0}}`. Received: class_weight={class_weight!r:.80}"
        )
    weights = dict.fromkeys(range(num_classes), 1.0)
    keys: dict[int, Any] = {}
    for key, weight in class_weight.items():
        number = _class_number(key, num_classes, labels)
        if number in keys:
            raise ValueError(
                f"`class_weight` has {keys[number]!r} and {key!r}, which are the same "
                "class. Leave out one of them."
            )
        keys[number] = key
        # Losses are computed in float32, in which larger numbers are infinite.
        most = float(np.finfo(np.float32).max)
        if not (isinstance(weight, Real) and 0 <= float(weight) <= most):
            raise ValueError(
                "The weights of classes must be finite numbers of at least 0. "
                f"Received: {weight!r} for the class {key!r}"
            )
        weights[number] = float(weight)
    return weights


def _class_number(key: Any, num_classes: int, labels: Sequence[str] | None) -> int:
    if not isinstance(key, bool | tuple):
        with suppress(ValueError):
            return int(encode_classes([key], num_classes, labels)[0])
    known = ", ".join(map(repr, labels or range(num_classes)))
    raise ValueError(
        f"`class_weight` has {key!r}, which is not a class of the model. Its classes "
        f"are: {known}. To name them, pass `labels=[...]` to the model."
    )


def learn_labels(
    names: tuple[str, ...], num_classes: int, labels: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Return the names of the classes, by sorted targets if there are none yet."""
    if labels is not None or not names or num_classes == 1:
        return labels
    if len(names) != num_classes:
        remedy = "or correct the targets"
        if len(names) < num_classes:
            remedy = "since a batch or a small set may lack some"
        raise ValueError(
            f"The targets have {len(names)} names ({', '.join(names[:9])}), but "
            f"the model has {num_classes} classes. Pass `labels=[...]` to the "
            f"model, {remedy}."
        )
    return names


@contextmanager
def unchanged_on_error(task: Any) -> Iterator[None]:
    """Restore what a task has learned from targets if the block raises."""
    kept = {name: getattr(task, name) for name in task.traits.set_by_targets}
    try:
        yield
    except BaseException:
        for name, value in kept.items():
            setattr(task, name, value)
        raise


def encode_label_sets(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> FloatArray:
    """Encode the labels of examples as zeros and ones `(examples, num_classes)`."""
    rows = list(indicators(y, labels) if indicator_names(y) else plain_column(y))
    encoded = np.zeros((len(rows), num_classes), np.float32)
    numbers = {name: number for number, name in enumerate(labels or ())}
    for row, value in enumerate(rows):
        if _holds_names(value):
            for name in value:
                if name not in numbers:
                    known = ", ".join(map(repr, numbers)) or "none: pass `labels=[...]`"
                    raise ValueError(
                        f"Row {row} has the label {name!r}, which the model does not "
                        f"have. Its labels are: {known}. Correct or drop it."
                    )
                encoded[row, numbers[name]] = 1
            continue
        try:
            flags = np.asarray(value, np.float32)
        except (TypeError, ValueError):
            flags = np.empty(0, np.float32)
        if flags.shape != (num_classes,) or not np.isin(flags, (0, 1)).all():
            raise ValueError(
                f"Row {row} has the labels {value!r}. Where a text may have several "
                "(`activation='sigmoid'`), pass the list of their names, or "
                f"{num_classes} zeros and ones."
            )
        encoded[row] = flags
    return encoded


def indicator_names(y: Any) -> tuple[str, ...]:
    """Return the names of a table with a column for each class, `()` for others."""
    names = column_names(y) or []
    is_named = len(names) > 1 and all(isinstance(name, str) for name in names)
    return tuple(names) if is_named else ()


def indicators(y: Any, labels: Sequence[str] | None) -> npt.NDArray[Any]:
    """Return the columns of a table, `indicator_names`, in the order of the labels."""
    names = indicator_names(y)
    if set(labels or names) != set(names):
        raise ValueError(
            f"The targets have the columns {', '.join(map(repr, names))}, and the "
            f"labels of the model are {', '.join(map(repr, labels or ()))}. Pass one "
            "column for each label."
        )
    columns = [np.asarray(plain_column(y[name])) for name in labels or names]
    return np.stack(columns, axis=1)


def set_names(y: Any) -> tuple[str, ...]:
    """Return the distinct names in sets of labels, sorted, or the names of columns."""
    if columns := indicator_names(y):
        return columns
    names = {name for row in y if _holds_names(row) for name in row}
    return tuple(sorted(names))


def _holds_names(row: Any) -> bool:
    is_set = isinstance(row, list | tuple | set | frozenset)
    return is_set and all(isinstance(name, str) for name in row)


# How far the sum of a row may be from 1, with probabilities in float16.
_TOLERANCE = 1e-2


def encode_probabilities(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> FloatArray:
    """Return probabilities `(examples, num_classes)`, or classes as ones and zeros."""
    y = indicators(y, labels) if indicator_names(y) else plain_column(y)
    rows: npt.NDArray[Any] = np.asarray(y)
    if rows.ndim != 2 or rows.shape[1] != num_classes or rows.dtype.kind not in "biuf":
        classes = encode_classes(y, num_classes, labels)
        return np.eye(num_classes, dtype=np.float32)[classes]
    rows = rows.astype(np.float32)
    # NaN is not within the tolerance.
    is_one = np.abs(rows.sum(axis=1) - 1) <= _TOLERANCE
    wrong = np.flatnonzero(~(is_one & (rows >= 0).all(axis=1)))
    if len(wrong):
        row, count = int(wrong[0]), len(wrong)
        raise ValueError(
            f"Row {row} has the probabilities {rows[row].tolist()}, which must be at "
            "least 0 and sum to 1. Pass the softmax of a model's logits, as "
            f"`probabilities(outputs)` returns ({count} such row{'s' * (count > 1)})."
        )
    return rows


def loss_name(loss: Any) -> str:
    """Return the name of a loss without underscores, the same for all its forms."""
    if isinstance(loss, str) and loss != "auto":
        loss = keras.losses.get(loss)
    name: str = getattr(loss, "__name__", type(loss).__name__)
    return name.replace("_", "").lower()


# Losses that take a probability of each class, as `loss_name` returns them.
_OF_EACH_CLASS = {
    "binarycrossentropy",
    "binaryfocalcrossentropy",
    "categoricalcrossentropy",
    "categoricalfocalcrossentropy",
    "categoricalgeneralizedcrossentropy",
    "categoricalhinge",
    "kldivergence",
}


class TargetKind(NamedTuple):
    """How targets are read, and how predictions are compared to them."""

    loss: Callable[[bool], keras.losses.Loss]
    metric: Callable[[], keras.metrics.Metric]
    encode: Callable[[Any, int, Any], Any]
    names: Callable[[Any], tuple[str, ...]]
    is_class: bool = False


_CLASS = TargetKind(
    keras.losses.SparseCategoricalCrossentropy,
    lambda: keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
    encode_classes,
    class_names,
    is_class=True,
)
_PROBABILITIES = TargetKind(
    keras.losses.CategoricalCrossentropy,
    lambda: keras.metrics.CategoricalAccuracy(name="accuracy"),
    encode_probabilities,
    lambda y: indicator_names(y) or class_names(y),
)
_LABEL_SETS = TargetKind(
    keras.losses.BinaryCrossentropy,
    lambda: keras.metrics.BinaryAccuracy(name="accuracy"),
    encode_label_sets,
    set_names,
)
_SCORE = TargetKind(
    lambda is_logits: keras.losses.MeanSquaredError(),
    lambda: keras.metrics.RootMeanSquaredError(name="rmse"),
    lambda y, num_classes, labels: encode_scores(y),
    lambda y: (),
)


def target_kind(classifier: Task) -> TargetKind:
    """Return what an `AlbertClassifier` learns."""
    if classifier.is_regression:
        return _SCORE
    if classifier.is_multi_label:
        return _LABEL_SETS
    return _PROBABILITIES if loss_name(classifier.loss) in _OF_EACH_CLASS else _CLASS
