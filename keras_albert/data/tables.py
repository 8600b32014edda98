"""What is `x`: texts, tables whose columns have names, ids, and elements of data sets.

`x` is texts, a list of texts, or a tuple of columns, which are pairs; a table, which is
read by the names of its columns; or a dict of ids. An element of a data set is `(x, y)`
or `(x, y, sample_weight)`; without a tuple it is `x`.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from numbers import Real
from typing import Any, NamedTuple, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.text.packing import check_counts
from keras_albert.text.reading import TextBatch, is_column, plain_column
from keras_albert.utils.arguments import check_shape

# The inputs of the model, in this order.
ID_NAMES = ("token_ids", "segment_ids", "padding_mask")


class Columns(NamedTuple):
    """The names of the columns that a task reads in a table."""

    texts: tuple[Any, ...] = ("text", "text_pair")
    label: Any = "label"
    weight: Any = None
    # Columns of `texts` that a table need not have.
    optional: tuple[Any, ...] = ("text_pair",)
    # The names of the classes if labels are their numbers, as in `datasets`.
    class_names: tuple[str, ...] = ()
    # The arguments that name columns.
    named: frozenset[str] = frozenset()

    def choose(
        self,
        text: Any = None,
        text_pair: Any = None,
        label: Any = None,
        is_self_supervised: bool = False,
    ) -> Self:
        """Return the columns that a caller names, by default these."""
        given = {"text": text, "text_pair": text_pair, "label": label}
        first, *rest = self.texts
        pairs: list[Any] | tuple[Any, ...] = rest
        if text_pair is not None:
            pairs = text_pair if isinstance(text_pair, list | tuple) else [text_pair]
        if label is None and not is_self_supervised:
            label = self.label
        return self._replace(
            texts=(first if text is None else text, *pairs),
            label=label,
            optional=self.optional if text_pair is None else (),
            named=frozenset(name for name, value in given.items() if value is not None),
        )


class RawData(NamedTuple):
    """Raw input or a data set of it, targets, weights, and the columns of batches."""

    x: Any
    y: Any = None
    sample_weight: Any = None
    columns: Columns = Columns()
    # Whether `y` was encoded and checked, so that it is not read again.
    is_encoded: bool = False


def column_names(table: Any) -> list[Any] | None:
    """Return the names of the columns of a table, `None` if it is not one."""
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, tuple) or hasattr(type(table), "pack"):
        return None
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def is_dataset(x: Any) -> bool:
    """Return whether `x` yields batches, and is neither an array nor texts."""
    is_array = hasattr(x, "__array__") or is_column(x)
    if is_array or isinstance(x, str | bytes | list | tuple | Mapping):
        return False
    return isinstance(x, keras.utils.PyDataset) or hasattr(x, "__iter__")


def is_table(x: Any) -> bool:
    """Return whether `x` has columns with names, or is a list of dicts."""
    if isinstance(x, list):
        return bool(x) and isinstance(x[0], Mapping)
    is_ids = isinstance(x, Mapping) and "token_ids" in x
    return not is_ids and column_names(x) is not None and hasattr(x, "__len__")


def read_data(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    columns: Columns = Columns(),  # noqa: B008  (it is immutable)
    batch_size: int | None = None,
) -> RawData:
    """Read the columns of a table; batches of a data set are read one by one."""
    if isinstance(sample_weight, str):
        named = columns.named | {"sample_weight"}
        columns = columns._replace(weight=sample_weight, named=named)
        sample_weight = None
    if type(x).__name__.endswith("DatasetDict"):
        splits = ", ".join(f"data[{name!r}]" for name in x)
        raise ValueError(f"The data set has several splits. Pass one of: {splits}.")
    if y is None:
        columns = columns._replace(class_names=_class_names(x, columns.label))
    if is_table(x):
        return RawData(*read_columns(x, y, sample_weight, columns), columns)
    if columns.named and not is_dataset(x):
        names = ", ".join(f"`{name}`" for name in sorted(columns.named))
        raise ValueError(
            f"{names}: only a table or a data set of tables has columns. Leave the "
            f"names out. Received: x={type(x).__name__}"
        )
    if is_dataset(x) and type(x).__module__.startswith("datasets."):
        x = x.batch(batch_size or 32)
    return RawData(x, y, sample_weight, columns)


def read_element(element: Any, columns: Columns) -> tuple[Any, Any, Any]:
    """Read an element of a data set: `x`, `(x, y)` or `(x, y, sample_weight)`."""
    x, y, sample_weight = unpack(element, "An element of a data set")
    if is_table(x):
        return read_columns(x, y, sample_weight, columns)
    return x, y, sample_weight


def unpack(element: Any, name: str) -> tuple[Any, Any, Any]:
    """Split `(x, y, sample_weight)`, of which all but `x` may be left out."""
    parts = element if isinstance(element, tuple) else (element,)
    if not 1 <= len(parts) <= 3:
        raise ValueError(
            f"{name} must be (x, y) or (x, y, sample_weight), for pairs "
            f"((first, second), y). Received: a tuple of {len(parts)}"
        )
    x, y, sample_weight = (*parts, None, None)[:3]
    return x, y, sample_weight


def read_columns(
    table: Any, y: Any, sample_weight: Any, columns: Columns
) -> tuple[Any, Any, Any]:
    """Read a table, or one batch that is a table, as `x`, `y` and `sample_weight`."""
    if isinstance(table, list):
        table = {name: [row.get(name) for row in table] for name in table[0]}
    names = column_names(table) or []
    label = columns.label
    if y is not None and "label" in columns.named:
        msg = "Pass the targets as `y`, or the name of their column as `label`."
        raise ValueError(msg)

    def read(name: Any, option: str) -> Any:
        if name not in names:
            near = get_close_matches(str(name), map(str, names), n=1)
            remedy = (
                f"Did you mean {near[0]!r}?" if near else f'Pass `{option}="COLUMN"`.'
            )
            raise ValueError(
                f"The data have no column {name!r}; they have "
                f"{', '.join(map(repr, names))}. {remedy}"
            )
        if (count := names.count(name)) > 1:
            raise ValueError(
                f"The data have {count} columns {name!r}. Rename or drop the others."
            )
        return plain_column(table[name])

    x = tuple(
        read(name, "text_pair" if number else "text")
        for number, name in enumerate(columns.texts)
        if name in names or name not in columns.optional
    )
    if isinstance(label, list | tuple):
        y = {name: read(name, "label") for name in label}
    elif y is None and (label in names or "label" in columns.named):
        y = read(label, "label")
        if columns.class_names:
            y = _name_classes(y, columns.class_names)
    if columns.weight is not None:
        sample_weight = read(columns.weight, "sample_weight")
    return x[0] if len(x) == 1 else x, y, sample_weight


def _class_names(data: Any, label: Any) -> tuple[str, ...]:
    """Return the names of the classes of `datasets`, if there are any."""
    features = getattr(data, "features", None)
    if not isinstance(features, Mapping) or not isinstance(label, str):
        return ()
    feature = features.get(label)
    # Of the elements of a list.
    feature = getattr(feature, "feature", feature)
    return tuple(getattr(feature, "names", None) or ())


def _name_classes(values: Any, names: tuple[str, ...]) -> Any:
    """Return names for numbers of classes, also nested; -1, without a label, stays."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, list):
        return [_name_classes(value, names) for value in values]
    is_number = isinstance(values, int) and 0 <= values < len(names)
    return names[values] if is_number else values


def split_validation(
    data: RawData, fraction: Any, columns_of: Any
) -> tuple[RawData, RawData]:
    """Split examples in memory; the last ones are the validation set, as in Keras."""
    x = data.x
    is_fraction = isinstance(fraction, Real) and 0 < float(fraction) < 1
    if not is_fraction or is_dataset(x):
        raise ValueError(
            "`validation_split` must be a fraction between 0 and 1 of data in memory. "
            f"Received: validation_split={fraction!r}, x={type(x).__name__}. Pass "
            "`validation_data` instead."
        )
    if isinstance(x, Mapping):
        columns: Any = {name: np.asarray(column) for name, column in x.items()}
        count = len(columns["token_ids"])
    else:
        columns, _ = columns_of(x)
        count = len(columns[0])
    check_counts(count, data.y, data.sample_weight)
    cut = int(count * (1 - fraction))
    if cut in (0, count):
        raise ValueError(
            f"`validation_split={fraction}` of {count} examples leaves one side empty. "
            "Use more data, or another fraction."
        )

    def part(rows: slice) -> RawData:
        if isinstance(columns, Mapping):
            x: Any = _rows_of(columns, rows)
        else:
            x = TextBatch(tuple(column[rows] for column in columns), True)
        y, weights = (_rows_of(each, rows) for each in data[1:3])
        return data._replace(x=x, y=y, sample_weight=weights)

    return part(slice(0, cut)), part(slice(cut, count))


def _rows_of(values: Any, rows: slice) -> Any:
    """Take some rows of a list or an array, or of each in a dict."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _rows_of(part, rows) for name, part in values.items()}
    is_sequence = isinstance(values, list | tuple)
    return values[rows] if is_sequence else np.asarray(values)[rows]


def are_ids(preprocessor: Any, x: Any) -> bool:
    """Return whether `x` is preprocessed already."""
    return preprocessor is None or (isinstance(x, Mapping) and "token_ids" in x)


def read_ids(
    backbone: Any, inputs: Any, axes: str = "examples, tokens"
) -> dict[str, npt.NDArray[Any]]:
    """Read ids, and find those without an embedding before a backend looks them up."""
    if not isinstance(inputs, Mapping) or not set(ID_NAMES) <= set(inputs):
        keys = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
        raise TypeError(
            "The model takes texts, for which it needs a preprocessor, or a dict of "
            f"{', '.join(ID_NAMES)}. Received: {keys}"
        )
    ids = {name: _to_numpy(inputs[name]) for name in ID_NAMES}
    for name, array in ids.items():
        check_shape(array, axes, "iub", name)
    shape = ids["token_ids"].shape
    if any(array.shape != shape for array in ids.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in ids.items())
        raise ValueError(f"Ids must have one shape. Received: {shapes}")
    for name, limit, what in (
        ("token_ids", backbone.vocabulary_size, "vocabulary_size"),
        # With one segment, both texts of a pair have it.
        ("segment_ids", max(2, backbone.num_segments), "num_segments"),
    ):
        if (row := first_outside(ids[name], limit)) is not None:
            raise ValueError(
                f"Row {row} of `{name}` contains an id outside 0 to {limit - 1}: the "
                f"model's `{what}` is {limit}. Use the vocabulary that the model was "
                "made with."
            )
    if not 1 <= shape[-1] <= backbone.max_sequence_length:
        raise ValueError(
            f"The rows of `token_ids` have {shape[-1]} tokens, but the model reads 1 "
            f"to {backbone.max_sequence_length}. Truncate them."
        )
    return ids


def read_positions(
    ids: dict[str, npt.NDArray[Any]], inputs: Any
) -> dict[str, npt.NDArray[Any]]:
    """Return `ids` with `mask_positions`, which must be inside their rows."""
    if "mask_positions" not in inputs:
        raise TypeError(
            "A masked language model also takes `mask_positions`, integers (examples, "
            f"slots): where to predict. Received: {sorted(inputs)}"
        )
    positions = _to_numpy(inputs["mask_positions"])
    check_shape(positions, "examples, slots", "iu", "mask_positions")
    count, length = ids["token_ids"].shape
    if len(positions) != count:
        msg = (
            f"{count} rows of ids need as many `mask_positions`, not {len(positions)}."
        )
        raise ValueError(msg)
    if (row := first_outside(positions, length)) is not None:
        raise ValueError(
            f"Row {row} of `mask_positions` points outside of its "
            f"{length} tokens. Count positions from 0."
        )
    return ids | {"mask_positions": positions}


def first_outside(numbers: npt.NDArray[Any], limit: int, least: int = 0) -> int | None:
    """Return the first row with a number outside `least` to `limit - 1`, or `None`."""
    wrong = (numbers < least) | (numbers >= limit)
    rows = np.asarray(wrong.any(axis=tuple(range(1, numbers.ndim))))
    return int(rows.argmax()) if rows.any() else None


def _to_numpy(array: Any) -> npt.NDArray[Any]:
    if isinstance(array, list | tuple):
        return np.asarray(array)
    return np.asarray(keras.ops.convert_to_numpy(array))
