"""Measures a trained model on labelled data, and shows where it errs."""

import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks import AlbertClassifier
from keras_albert.tasks.classification.explain import explain_texts
from keras_albert.tools.answer_file import to_json
from keras_albert.tools.datasets import Dataset
from keras_albert.tools.metrics import EvaluatedRows, Scores
from keras_albert.tools.report import Report, draw_confusion
from keras_albert.tools.tasks import file_task
from keras_albert.training.run_folder import write_report
from keras_albert.utils.arguments import argument_error
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.environment import new_figure

Rows = npt.NDArray[np.int64]

_CONFIDENCE = (2.5, 97.5)
_BINS = 10
_MAX_GROUPS = 20
_MAX_CHARACTERS = 300
# Of integrated gradients: one batch for each text, and parts differ by 0.01 or less.
_STEPS = 31


@dataclass(frozen=True)
class EvaluationReport:
    """The result of `evaluate`; `report` has the metrics.

    Example:
        >>> import keras_albert
        >>> from keras_albert.tools import Dataset, evaluate
        >>> model = keras_albert.AlbertClassifier.from_preset(
        ...     "albert_small_en_uncased_sst2")
        >>> data = Dataset(["a wonderful film", "boring and slow"], ["negative"] * 2)
        >>> found = evaluate(model, data)
        >>> found.scores["accuracy"]
        0.5
        >>> found.save("errors")
    """

    model: Any
    data: Dataset
    report: Report
    # The 95% intervals of metrics.
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    # The metrics of rows by length, and by the values of a column.
    groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    # How many answers of each probability are right.
    calibration: list[dict[str, float]] = field(default_factory=list)
    # The answers row by row, if the model gives them so.
    rows: EvaluatedRows | None = None

    @property
    def scores(self) -> dict[str, float]:
        """The metrics."""
        return self.report.scores

    def worst(self, count: int = 5, explain: bool = False) -> list[str]:
        """Describe the wrong answers with the largest errors.

        Args:
            count: int. How many to describe. Defaults to `5`.
            explain: bool. Name the words behind the answers, for classifiers of one
                label. Defaults to `False`.

        Returns:
            A list of strings.

        Example:
            >>> import keras_albert
            >>> from keras_albert.tools import Dataset, evaluate
            >>> model = keras_albert.AlbertClassifier.from_preset(
            ...     "albert_small_en_uncased_sst2")
            >>> found = evaluate(model, Dataset(["a wonderful film"], ["negative"]))
            >>> found.worst()[0].splitlines()[0]
            'row 0: a wonderful film'
        """
        if explain:
            check_explained(self.model)
        if self.rows is None:
            return []
        return worst_rows(self.model, self.data, self.rows, count, explain)

    def _contents(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        contents = self.report.to_dict()
        contents |= {"intervals": self.intervals, "groups": self.groups}
        return contents | (
            {"calibration": self.calibration} if self.calibration else {}
        )

    def save(self, path: str | Path, **facts: Any) -> None:
        """Write `report.json`, all rows by their errors in `rows.jsonl`, and plots.

        Args:
            path: path. A new directory.
            **facts: JSON values to add to `report.json`.
        """
        with atomic_directory(Path(path)) as folder:
            write_report(folder / "report.json", self._contents() | facts)
            self._write_rows(folder / "rows.jsonl")
            if importlib.util.find_spec("matplotlib") is None:
                return
            report = self.report
            if report.confusion is not None:
                draw_confusion(folder / "confusion.png", report.confusion, report.names)
            if self.calibration:
                _draw_calibration(folder / "calibration.png", self.calibration)

    def _write_rows(self, path: Path) -> None:
        rows, data = self.rows, self.data
        if rows is None:
            return
        inputs = list(data.rows())
        with path.open("w", encoding="utf-8") as file:
            for number in np.argsort(-rows.errors, kind="stable").tolist():
                row = {
                    "row": number,
                    "place": data.place(number),
                    "inputs": inputs[number],
                    "truth": rows.truth[number],
                    "answer": rows.answers[number],
                    "error": rows.errors[number],
                }
                if rows.probabilities is not None:
                    row["probability"] = rows.probabilities[number]
                file.write(json.dumps(to_json(row), ensure_ascii=False) + "\n")


def evaluate(
    model: Any,
    data: str | Path | Dataset,
    *,
    slice: str | None = None,  # noqa: A002
    resamples: int = 1000,
    seed: int = 0,
) -> EvaluationReport:
    """Measure a model on labelled data, with intervals and by groups of rows.

    The metrics of the model's task have 95% intervals, by the bootstrap over the rows,
    and are also given for rows of similar length and for each value of a column.

    Args:
        model: a task, such as `AlbertClassifier`, with a preprocessor.
        data: path or `Dataset`. Labelled rows: a file as `read_examples` reads it, or
            inputs and targets as `fit` takes them.
        slice: string or `None`. A column of the file; each of its values is a group of
            rows. Defaults to `None`.
        resamples: int. Draws for the intervals. Defaults to `1000`.
        seed: int. Determines the draws. Defaults to `0`.

    Returns:
        An `EvaluationReport` with `scores`, `intervals`, `groups`, `calibration` and
        the methods `worst` and `save`.

    Raises:
        ValueError: If the file cannot be read, or has no column `slice`.

    Example:
        >>> import keras_albert
        >>> from keras_albert.tools import Dataset, evaluate
        >>> model = keras_albert.AlbertClassifier.from_preset(
        ...     "albert_small_en_uncased_sst2")
        >>> found = evaluate(model, Dataset(
        ...     ["a wonderful film", "boring and slow"], ["positive", "negative"]))
        >>> found.scores["accuracy"]
        1.0
    """
    task = file_task(model)
    if not isinstance(data, Dataset):
        (data,) = task.read_all([Path(data)], {})
    groups = _groups(data, slice)
    found = task.evaluate(model, data)
    rows, report = found.rows, found.report
    if rows is None:
        return EvaluationReport(model, data, report)
    bins = []
    if rows.probabilities is not None and rows.is_right is not None:
        bins = calibration(rows.probabilities, rows.is_right)
        gaps = [row["rows"] * abs(row["accuracy"] - row["probability"]) for row in bins]
        error = {"calibration error": sum(gaps) / len(rows.errors)}
        report = replace(report, scores=report.scores | error)
    by_group = {
        name: [
            {"group": group, "rows": len(numbers)} | rows.score(numbers)
            for group, numbers in parts.items()
        ]
        for name, parts in groups.items()
    }
    bounds = intervals(rows.score, len(rows.errors), resamples, seed)
    return EvaluationReport(model, data, report, bounds, by_group, bins, rows)


def intervals(
    score: Callable[[Rows], Scores], count: int, resamples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the 95% intervals of metrics, by the bootstrap over rows."""
    # Percentiles, as in [Efron, 1979](https://doi.org/10.1214/aos/1176344552).
    draws = np.random.default_rng(seed)
    found = [score(draws.integers(count, size=count)) for _ in range(resamples)]
    names = dict.fromkeys(name for each in found for name in each)
    return {
        name: tuple(
            np.percentile([e[name] for e in found if name in e], _CONFIDENCE).tolist()
        )
        for name in names
    }


def calibration(
    probabilities: npt.NDArray[Any], is_right: npt.NDArray[Any]
) -> list[dict[str, float]]:
    """Compare the probabilities of answers with how many are right, in equal bins."""
    # [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    places = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    return [
        {
            "from": place / _BINS,
            "to": (place + 1) / _BINS,
            "rows": int(inside.sum()),
            "probability": float(probabilities[inside].mean()),
            "accuracy": float(is_right[inside].mean()),
        }
        for place in range(_BINS)
        if (inside := places == place).any()
    ]


def _groups(data: Dataset, column: str | None) -> dict[str, dict[str, Rows]]:
    """Return the rows of each quarter by length, and of each value of a column."""
    lengths = np.array([_num_words(row) for row in data.rows()])
    edges = np.unique(np.quantile(lengths, (0, 0.25, 0.5, 0.75, 1)).astype(int))
    places = np.searchsorted(edges[1:-1], lengths, side="left")
    found: dict[str, dict[str, Rows]] = {"words": {}}
    for place in np.unique(places):
        numbers = np.flatnonzero(places == place)
        least, most = lengths[numbers].min(), lengths[numbers].max()
        name = f"{least} to {most}" if least < most else f"{least}"
        found["words"][name] = numbers
    if column is not None:
        found[column] = _by_value(data, column)
    return found


def _by_value(data: Dataset, column: str) -> dict[str, Rows]:
    if column not in data.columns:
        known = ", ".join(data.columns) or "no columns"
        msg = f"{column!r} is not a column of the file, which has {known}."
        raise argument_error("slice", msg)
    values = np.array([str(value) for value in data.columns[column]])
    names, counts = np.unique(values, return_counts=True)
    if len(names) > _MAX_GROUPS:
        raise argument_error(
            "slice",
            f"The column {column!r} has {len(names):,} different values, but at most "
            f"{_MAX_GROUPS} can be shown. Choose a column with fewer.",
        )
    order = np.argsort(-counts, kind="stable")
    return {str(names[n]): np.flatnonzero(values == names[n]) for n in order}


def _num_words(row: tuple[Any, ...]) -> int:
    return sum(len(x.split()) if isinstance(x, str) else len(x) for x in row)


def is_explained(task: Any) -> bool:
    """Return whether `worst_rows` can name the words behind answers of a task."""
    return isinstance(task, AlbertClassifier) and not task.is_multi_label


def check_explained(task: Any) -> None:
    """Raise if the words behind answers of a task cannot be named."""
    if not is_explained(task):
        raise argument_error(
            "explain",
            "`explain=True` works for single-label classifiers and regressions. "
            f"Received: an {type(task).__name__}. Leave it out.",
        )


def worst_rows(
    task: Any, data: Dataset, rows: EvaluatedRows, count: int, explain: bool
) -> list[str]:
    """Describe the wrong answers with the largest errors, and the words behind them."""
    is_wrong = rows.errors > 0 if rows.is_right is None else ~rows.is_right
    order = np.argsort(-rows.errors, kind="stable")
    worst = order[is_wrong[order]][:count].tolist()
    reasons = [""] * len(worst)
    if explain and worst:
        inputs = list(data.rows())
        texts = [x if len(x := inputs[number]) > 1 else x[0] for number in worst]
        is_score = task.is_regression
        labels = [None if is_score else rows.answers[number] for number in worst]
        reasons = [
            "\n  because of "
            + ", ".join(f"{word.text!r} {word.part:+.2f}" for word in found.top())
            for found in explain_texts(task, texts, labels, _STEPS)
        ]
    return [
        _describe(data, rows, number) + reason
        for number, reason in zip(worst, reasons, strict=True)
    ]


def _describe(data: Dataset, rows: EvaluatedRows, number: int) -> str:
    truth, answer = map(_shown, (rows.truth[number], rows.answers[number]))
    score = ""
    if rows.probabilities is not None:
        score = f" ({rows.probabilities[number]:.3f})"
    text = shorten(data.row_text(number), _MAX_CHARACTERS)
    return f"{data.place(number)}: {text}\n  label {truth}, predicted {answer}{score}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _draw_calibration(path: Path, bins: Sequence[dict[str, float]]) -> None:
    figure = new_figure(4.5, 4.5)
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
    axis.bar(
        [row["from"] for row in bins],
        [row["accuracy"] for row in bins],
        1 / _BINS,
        align="edge",
        alpha=0.6,
    )
    axis.plot([r["probability"] for r in bins], [r["accuracy"] for r in bins], "o")
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="accuracy")
    figure.savefig(path, dpi=120)
