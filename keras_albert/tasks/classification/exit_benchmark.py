"""Quality against depth and time of a classifier with exits."""

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_albert.tasks.classification.early_exit import read_exit_rule
from keras_albert.types import Texts
from keras_albert.utils.arguments import check_positive
from keras_albert.utils.environment import new_figure

if TYPE_CHECKING:
    from keras_albert.tasks.classification.model import AlbertClassifier


def measure_exits(
    classifier: "AlbertClassifier",
    texts: Texts,
    y: Any,
    batch_size: int | None = None,
    patiences: Sequence[int] | None = None,
    thresholds: Sequence[float] | None = None,
    tolerances: Sequence[float] | None = None,
    rounds: int = 3,
) -> list[dict[str, Any]]:
    """Measure accuracy and time at each depth and with each exit rule.

    The settings take turns, so that a change in the load of the machine affects all of
    them. Times depend on the machine, the backend and `batch_size`.

    Args:
        classifier: An `AlbertClassifier` with exits.
        texts: Texts or pairs; see `AlbertClassifier.fit`.
        y: Their targets; see `AlbertClassifier.fit`.
        batch_size: int. Defaults to `None`, which means 32.
        patiences: Sequence of int. Those to try. Defaults to `None`, all with which a
            text can leave before the last layer.
        thresholds: Sequence of float. Those to try. Defaults to `None`: 0.7, 0.8, 0.9,
            0.95 and 0.99, and none for a regression.
        tolerances: Sequence of float. Those to try for a regression, each with every
            patience. Defaults to `None`: 0.05, 0.1 and 0.2.
        rounds: int. How often each setting is timed, after a first run that compiles.
            Defaults to `3`.

    Returns:
        For each setting a dict of its `arguments` of `predict`, the first default
        metric by its name, the mean `depth`, the `seconds` of `predict` (the median of
        the rounds), the `relative_time` compared with all layers, and `texts`, how many
        left after each layer.

    Raises:
        ValueError: If a rule is invalid, or the model has no exits.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> from keras_albert.tasks import describe_exits, measure_exits
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"], exits=True)
        >>> rows = measure_exits(
        ...     classifier, ["a joy", "a mess"], ["good", "bad"], thresholds=[0.9])
        >>> [row["arguments"] for row in rows][3:]
        [{'num_layers': 4}, {'patience': 1}, {'patience': 2}, {'threshold': 0.9}]
        >>> rows[3]["depth"], rows[3]["relative_time"], rows[3]["texts"]
        (4.0, 1.0, [0, 0, 0, 2])
        >>> print(describe_exits(rows).splitlines()[0])
        arguments       accuracy   depth  seconds    time  texts by layer
    """
    check_positive(rounds=rounds)
    num_layers = classifier.backbone.num_layers
    settings: list[dict[str, Any]]
    settings = [{"num_layers": n} for n in range(1, num_layers + 1)]
    settings += _rules(classifier, patiences, thresholds, tolerances)
    targets = classifier.encode_targets(y)

    def predict(arguments: dict[str, Any]) -> tuple[float, Any, Any]:
        start = time.perf_counter()
        found = classifier.predict(
            texts, batch_size, **arguments, return_depths=True, verbose=0
        )
        return time.perf_counter() - start, *found

    first = [predict(arguments) for arguments in settings]
    seconds = np.median(
        [[predict(arguments)[0] for arguments in settings] for _ in range(rounds)],
        axis=0,
    )
    rows = []
    for arguments, (_, outputs, depths), each in zip(
        settings, first, seconds, strict=True
    ):
        (metric,) = classifier.default_metrics()
        metric.update_state(targets, outputs)
        rows.append(
            {
                "arguments": arguments,
                metric.name: float(keras.ops.convert_to_numpy(metric.result())),
                "depth": float(depths.mean()),
                "seconds": float(each),
                "relative_time": float(each / seconds[num_layers - 1]),
                "texts": np.bincount(depths, minlength=num_layers + 1)[1:].tolist(),
            }
        )
    return rows


def _rules(
    classifier: "AlbertClassifier",
    patiences: Sequence[int] | None,
    thresholds: Sequence[float] | None,
    tolerances: Sequence[float] | None,
) -> list[dict[str, Any]]:
    """Return the arguments of each rule, after checking all of them."""
    is_regression = classifier.is_regression
    if patiences is None:
        patiences = range(1, classifier.backbone.num_layers - 1)
    if thresholds is None:
        thresholds = () if is_regression else (0.7, 0.8, 0.9, 0.95, 0.99)
    if tolerances is None:
        tolerances = (0.05, 0.1, 0.2) if is_regression else ()
    closeness: list[dict[str, Any]] = [{"tolerance": t} for t in tolerances] or [{}]
    rules = [{"patience": p} | close for close in closeness for p in patiences]
    rules += [{"threshold": p} for p in thresholds]
    for rule in rules:
        read_exit_rule(classifier, **rule)
    return rules


def describe_exits(rows: Sequence[dict[str, Any]]) -> str:
    """Return the result of `measure_exits` as a table.

    Args:
        rows: Sequence of dict. The result of `measure_exits`.

    Returns:
        A line for each row, after a header. The column `time` is relative to all
        layers.

    Example:
        >>> from keras_albert.tasks import describe_exits
        >>> print(describe_exits([{
        ...     "arguments": {"num_layers": 2}, "accuracy": 0.9, "depth": 2.0,
        ...     "seconds": 0.5,
        ...     "relative_time": 0.5, "texts": [0, 100]}]))
        arguments     accuracy   depth  seconds    time  texts by layer
        num_layers=2    0.9000    2.00    0.500     50%     0  100
    """
    metric = _metric(rows)
    names = ["arguments", *(_describe(row["arguments"]) for row in rows)]
    width = max(map(len, names))
    lines = [
        f"{names[0]:<{width}}{metric:>10}{'depth':>8}{'seconds':>9}{'time':>8}  "
        "texts by layer"
    ]
    for name, row in zip(names[1:], rows, strict=True):
        texts = " ".join(f"{count:>4}" for count in row["texts"])
        lines.append(
            f"{name:<{width}}{row[metric]:>10.4f}{row['depth']:>8.2f}"
            f"{row['seconds']:>9.3f}{row['relative_time']:>8.0%}  {texts}"
        )
    return "\n".join(lines)


def plot_exits(
    rows: Sequence[dict[str, Any]], path: str | os.PathLike[str] | None = None
) -> Any:
    """Plot the result of `measure_exits`.

    The metric against the mean depth and against the time, and for each rule the share
    of texts that left after each layer.

    Args:
        rows: Sequence of dict. The result of `measure_exits`.
        path: string or path. The file to write, whose suffix is its format. Defaults to
            `None`, no file.

    Returns:
        A `matplotlib.figure.Figure`, which a notebook shows at the end of a cell.

    Raises:
        ImportError: If matplotlib is not installed.

    Example:
        >>> from keras_albert.tasks import plot_exits
        >>> rows = [
        ...     {"arguments": {"threshold": 0.9}, "accuracy": 0.8, "depth": 1.5,
        ...      "seconds": 0.8, "relative_time": 0.8, "texts": [5, 5]}]
        >>> figure = plot_exits(rows)
        >>> [axis.get_xlabel() for axis in figure.axes]
        ['mean depth', 'time relative to all layers', 'layer']
    """
    metric = _metric(rows)
    # Without a rule, the histograms show the depths.
    rules = [row for row in rows if "num_layers" not in row["arguments"]] or rows
    figure = new_figure(12, max(3.6, 1.5 + 0.2 * len(rules)))
    *curves, histograms = figure.subplots(1, 3)
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        name, *others = row["arguments"].items()
        label = " ".join([name[0], _describe(dict(others))]).strip()
        series.setdefault(label, []).append(row)
    labels = {"depth": "mean depth", "relative_time": "time relative to all layers"}
    for axis, x in zip(curves, labels, strict=True):
        for label, points in series.items():
            values = [(row[x], row[metric]) for row in points]
            axis.plot(*zip(*values, strict=True), marker="o", label=label)
        axis.set(xlabel=labels[x], ylabel=metric)
        axis.grid(alpha=0.3)
    curves[0].legend()
    counts = np.array([row["texts"] for row in rules])
    shares = counts / counts.sum(axis=1, keepdims=True)
    histograms.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    histograms.set_yticks(
        range(len(rules)), [_describe(row["arguments"]) for row in rules]
    )
    histograms.set_xticks(range(counts.shape[1]), range(1, counts.shape[1] + 1))
    histograms.set(xlabel="layer", title="where texts leave")
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure


def _metric(rows: Sequence[dict[str, Any]]) -> str:
    others = {"arguments", "depth", "seconds", "relative_time", "texts"}
    (name,) = rows[0].keys() - others
    return name


def _describe(arguments: dict[str, Any]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in arguments.items())
