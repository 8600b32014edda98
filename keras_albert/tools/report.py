"""The report, the plots and the model card of a fine-tuned model."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.classification.linear import SOLVED
from keras_albert.tasks.table import TASKS
from keras_albert.tasks.task import AlbertTask
from keras_albert.training.model_card import (
    CardMetadata,
    code,
    describe_size,
    list_of,
    plain_text,
    table_of,
    usage,
    write_card,
)
from keras_albert.training.run_folder import draw_curves
from keras_albert.utils.environment import new_figure, versions


@dataclass(frozen=True)
class Report:
    """The quality of a model on the dev file."""

    scores: dict[str, float]
    # The metrics of each class.
    classes: dict[str, dict[str, float]] = field(default_factory=dict)
    # Counts, true class by predicted class, and the names of the classes.
    confusion: npt.NDArray[Any] | None = None
    names: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        contents = {"scores": self.scores, "classes": self.classes}
        if self.confusion is None:
            return contents
        rows = {"names": self.names, "counts": self.confusion.tolist()}
        return contents | {"confusion": rows}


def draw(output: Path, report: Report, history: list[dict[str, float]]) -> list[Path]:
    """Draw the learning curve, and the confusion matrix if there is one."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    drawn = [output / "learning_curve.png"]
    epochs = [row | {"epoch": int(row["epoch"]) + 1} for row in history]
    draw_curves(drawn[0], epochs, "epoch", "dev")
    if report.confusion is not None:
        path = output / "confusion.png"
        drawn.append(draw_confusion(path, report.confusion, report.names))
    return drawn


def draw_confusion(
    path: Path, counts: npt.NDArray[Any], names: tuple[str, ...]
) -> Path:
    """Draw how often each class was taken for each."""
    side = max(4.0, 0.6 * len(names) + 2)
    figure = new_figure(side, side)
    axis = figure.subplots()
    axis.imshow(counts, cmap="Blues")
    for row, column in np.ndindex(counts.shape):
        dark = counts[row, column] > counts.max() / 2
        color = "white" if dark else "black"
        axis.text(column, row, counts[row, column], ha="center", va="center", c=color)
    # A name with two "$" is no formula.
    plain = {"parse_math": False}
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right", **plain)
    axis.set_yticks(range(len(names)), names, **plain)
    axis.set(xlabel="answer", ylabel="truth", title=f"{counts.sum()} examples")
    figure.savefig(path, dpi=120)
    return path


def model_card(
    name: str,
    report: Report,
    settings: dict[str, Any],
    task: AlbertTask,
    plots: Sequence[Path] = (),
) -> str:
    """Return the model card of a fine-tuned model."""
    row = TASKS[type(task).__name__]
    about = describe_size(task)
    if settings["exits"]:
        about += " Each layer has a head, so texts can exit early."
    scores = [
        (key.replace("_", " "), f"{value:.4f}") for key, value in report.scores.items()
    ]
    pictures = [f"![{path.stem.replace('_', ' ')}]({path.name})" for path in plots]
    chosen = ", on which the best epoch was chosen, so expect less on new texts:"
    if settings["method"] in SOLVED:
        chosen = ", which had no part in the training:"
    quality = [
        f"On the dev file {code(settings['dev'])}{chosen}",
        table_of(("metric", "value"), scores),
    ]
    if report.classes:
        columns = next(iter(report.classes.values()))
        rows = [
            (plain_text(label), *(f"{value:.4g}" for value in numbers.values()))
            for label, numbers in report.classes.items()
        ]
        quality.append(table_of(("class", *columns), rows))
    return write_card(
        f"ALBERT for {name}",
        about,
        usage(type(task).__name__, row.use),
        CardMetadata.of(settings),
        {
            "Evaluation": "\n\n".join(quality + pictures),
            "Training": list_of(settings) + "\n\n" + list_of(versions()),
        },
        name=f"albert-{name}",
        pipeline_tag=row.pipeline_tag,
        tags=[name],
        scores=report.scores,
        evaluated_on=settings["dev"].name,
        preset=settings.get("preset"),
    )
