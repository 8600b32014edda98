"""Columns of tables by name: dicts, data frames, Arrow tables, `datasets`, batches."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_albert.data.datasets import is_dataset
from keras_albert.data.preprocessed_inputs import holds_ids
from keras_albert.text.reading import plain_column

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask


class Columns(NamedTuple):
    """Which columns to read; `None` is `task.default_columns`."""

    text: Any = None
    label: Any = None
    weight: str | None = None
    class_names: tuple[str, ...] = ()


class RawData(NamedTuple):
    """Raw input or a data set of it, targets, weights, and the columns of batches."""

    x: Any
    y: Any = None
    sample_weight: Any = None
    columns: Columns = Columns()
    # Whether `y` was encoded and checked, so that it is not read again.
    is_encoded: bool = False


def column_names(table: Any) -> list[str] | None:
    """Return the names of the columns of a table, `None` if it is not one."""
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, tuple):
        return None
    for attribute in ("column_names", "columns"):
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def is_table(data: Any) -> bool:
    """Return whether data are columns with names in memory, or rows that are dicts."""
    if isinstance(data, list):
        return bool(data) and isinstance(data[0], Mapping)
    return column_names(data) is not None and hasattr(data, "__len__")


def has_columns(data: Any) -> bool:
    """Return whether data, or batches of them, may have columns with names."""
    return is_table(data) or is_dataset(data)


def read_table(
    task: "AlbertTask",
    x: Any,
    y: Any,
    sample_weight: Any,
    columns: Columns,
    batch_size: Any,
) -> RawData:
    """Read the columns of `x` if it is a table."""
    if isinstance(sample_weight, str):
        columns, sample_weight = columns._replace(weight=sample_weight), None
    is_named = any(name is not None for name in columns[:3])
    default_text, default_label = task.default_columns
    # Some tasks read rows that are dicts.
    reads_rows = default_text is None and not is_named
    is_rows = isinstance(x, list) and is_table(x)
    if is_rows and not (reads_rows and (y is not None or default_label not in x[0])):
        x = {name: [row.get(name) for row in x] for name in x[0]}
    if type(x).__name__.endswith("DatasetDict"):
        splits = ", ".join(f"data[{name!r}]" for name in x)
        raise ValueError(f"The data set has several splits. Pass one of: {splits}.")
    if holds_ids(task, x) or not has_columns(x):
        if is_named:
            raise ValueError(
                "`text`, `label` and the name of a weight are columns of a table or a "
                f"data set. Received: x={type(x).__name__}. Leave them out."
            )
        return RawData(x, y, sample_weight, columns)
    if y is None:
        columns = columns._replace(class_names=_class_names(task, x, columns.label))
    if not is_table(x):
        if type(x).__module__.startswith("datasets."):
            x = x.batch(batch_size or 32)
        return RawData(x, y, sample_weight, columns)
    if y is not None and columns.label is not None:
        msg = "Pass the targets as `y`, or the name of their column as `label`."
        raise ValueError(msg)
    names = column_names(x) or []
    has_default = default_text in names or (y is None and default_label in names)
    # A frame of two columns is one of pairs.
    is_frame = hasattr(x, "__array__") and len(names) <= 2
    if not (is_named or has_default) and (is_frame or default_text is None):
        return RawData(x, y, sample_weight, columns)
    x, target, weight = pick_columns(task, x, columns, y is None)
    y = target if y is None else y
    sample_weight = weight if sample_weight is None else sample_weight
    return RawData(x, y, sample_weight, columns)


def pick_columns(
    task: "AlbertTask", table: Any, columns: Columns, wants_targets: bool
) -> tuple[Any, Any, Any]:
    """Read a table, or one batch that is a dict, as `x`, `y` and `sample_weight`."""
    names = column_names(table) or []
    default_text, default_label = task.default_columns
    text = default_text if columns.text is None else columns.text
    label = columns.label
    if label is None and default_label in names and not task.is_self_supervised:
        label = default_label

    def read(name: Any, option: str) -> Any:
        if name not in names:
            raise _missing(name, option, names)
        if (count := names.count(name)) > 1:
            raise ValueError(
                f"The data have {count} columns {name!r}. Rename or drop the others."
            )
        return plain_column(table[name])

    def read_all(chosen: Any, option: str) -> Any:
        if not isinstance(chosen, list | tuple):
            return read(chosen, option)
        return tuple(read(name, option) for name in chosen)

    if text is None:
        # The task reads dicts.
        x: Any = {name: plain_column(table[name]) for name in names if name != label}
    else:
        x = read_all(text, "text")
    y = weight = None
    if wants_targets and label is not None:
        y = read_all(label, "label")
        if isinstance(label, list | tuple):
            y = dict(zip(label, y, strict=True))
        elif columns.class_names:
            y = _name_classes(y, columns.class_names)
    if columns.weight is not None:
        weight = read(columns.weight, "sample_weight")
    return x, y, weight


def _missing(name: Any, option: str, names: list[str]) -> ValueError:
    near = get_close_matches(str(name), names, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else f'Pass `{option}="COLUMN"`.'
    return ValueError(
        f"The data have no column {name!r}; they have {', '.join(map(repr, names))}. "
        + remedy
    )


def _class_names(task: "AlbertTask", data: Any, label: Any) -> tuple[str, ...]:
    """Return the names of the classes of `datasets`, if there are any."""
    features = getattr(data, "features", None)
    label = task.default_columns[1] if label is None else label
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
