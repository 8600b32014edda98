"""The report, plots and model card of a run."""

import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.training.training_curve import draw_curves, new_figure
from keras_albert.utils.atomic_file import atomic_file
from keras_albert.utils.packages import versions


@dataclass(frozen=True)
class Report:
    """The quality of a model on the dev file.

    Args:
        scores: dict of string to float. The metrics of the task.
        classes: dict of string to dict. The metrics of each class, if there are
            classes. Defaults to none.
        confusion: int array `(classes, classes)`, true class by predicted class, or
            `None`.
        names: The names of its rows. Defaults to none.
    """

    scores: dict[str, float]
    classes: dict[str, dict[str, float]] = field(default_factory=dict)
    confusion: npt.NDArray[Any] | None = None
    names: tuple[str, ...] = ()


def write_report(
    output: Path,
    report: Report,
    history: list[dict[str, float]],
    settings: dict[str, Any],
) -> None:
    """Write `report.json` atomically.

    Args:
        output: Path. The directory.
        report: `Report`.
        history: The metrics of each epoch.
        settings: dict. The settings of the run.
    """
    contents = {
        "scores": report.scores,
        "classes": report.classes,
        "epochs": history,
        "settings": settings,
        "versions": versions(),
    }
    if report.confusion is not None:
        rows = {"names": report.names, "counts": report.confusion.tolist()}
        contents["confusion"] = rows
    with atomic_file(output / "report.json") as partial:
        partial.write_text(json.dumps(contents, indent=2), encoding="utf-8")


def draw(output: Path, report: Report, history: list[dict[str, float]]) -> list[Path]:
    """Draw the learning curve, and the confusion matrix if there is one.

    Args:
        output: Path. The directory for the PNG files.
        report: `Report`.
        history: The metrics of each epoch.

    Returns:
        The files that were drawn; none if matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return []
    drawn = [output / "learning_curve.png"]
    epochs = [row | {"epoch": int(row["epoch"]) + 1} for row in history]
    draw_curves(drawn[0], epochs, "epoch", "dev")
    if report.confusion is not None:
        path = output / "confusion.png"
        drawn.append(_draw_confusion(path, report.confusion, report.names))
    return drawn


def _draw_confusion(
    path: Path, counts: npt.NDArray[Any], names: tuple[str, ...]
) -> Path:
    side = max(4.0, 0.6 * len(names) + 2)
    figure = new_figure(side, side)
    axis = figure.subplots()
    axis.imshow(counts, cmap="Blues")
    for row, column in np.ndindex(counts.shape):
        dark = counts[row, column] > counts.max() / 2
        color = "white" if dark else "black"
        axis.text(column, row, counts[row, column], ha="center", va="center", c=color)
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axis.set_yticks(range(len(names)), names)
    axis.set(xlabel="answer", ylabel="truth", title=f"{counts.sum()} dev examples")
    figure.savefig(path, dpi=120)
    return path


def model_card(
    name: str,
    use: str,
    report: Report,
    settings: dict[str, Any],
    task: Any,
) -> str:
    """Return the model card of a fine-tuned model.

    Args:
        name: string. The kind of task.
        use: string. A line of Python that uses `model`.
        report: `Report`.
        settings: dict. The settings of the run.
        task: The model.

    Returns:
        Markdown, with the front matter that model hubs read.
    """
    scores = "\n".join(
        f"| {key} | {value:.4f} |" for key, value in report.scores.items()
    )
    classes = "\n".join(
        f"| {label} | " + " | ".join(f"{v:.4g}" for v in row.values()) + " |"
        for label, row in report.classes.items()
    )
    if classes:
        columns = next(iter(report.classes.values()))
        head = f"| class | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}\n"
        classes = f"\n{head}{classes}\n"
    backbone = task.backbone
    count = sum(int(np.prod(v.shape)) for v in task.weights)
    rows = "\n".join(
        f"- {key.replace('_', ' ')}: `{value}`"
        for key, value in settings.items()
        if value is not None
    )
    made_with = ", ".join(f"{key} {value}" for key, value in versions().items())
    return f"""---
library_name: keras
tags: [albert, keras_albert, {name}]
---

# ALBERT for {name}

{count:,} parameters: {backbone.num_layers} layers of width {backbone.hidden_dim} that
share their weights, {backbone.vocabulary_size:,} tokens, up to \
{task.preprocessor.max_length} in a row.

```python
from keras_albert import {type(task).__name__}

model = {type(task).__name__}.from_preset("path/to/this/directory")
{use}
```

## How good it is

On the dev file, of which the best epoch was chosen, so that new texts may fare worse:

| metric | value |
|---|---|
{scores}
{classes}
## How it was made

{rows}
- {made_with}

## Before you use it

Not yet documented: training data, bias and fairness, and data licences. Describe them
here.
"""
