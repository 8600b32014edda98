"""The console, the report, the plots and the model card of a run."""

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from keras_albert.training.model_card import (
    CardMetadata,
    code,
    front_matter,
    needs_base,
    plain_text,
    unknowns,
    usage,
)
from keras_albert.training.run_folder import draw_curves
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.environment import new_figure, versions


def plain_console() -> Console:
    """Return a console that prints names of files and classes as they are."""
    # Rich would read "[red]" as a style, and ":cat:" as an emoji.
    return Console(markup=False, emoji=False)


# Settings that are part of a card's metadata, and of nothing else.
ON_CARD = tuple(each.name for each in fields(CardMetadata))


@dataclass(frozen=True)
class Report:
    """The quality of a model on the dev file."""

    scores: dict[str, float]
    # The metrics of each class.
    classes: dict[str, dict[str, float]] = field(default_factory=dict)
    # Counts, true class by predicted class, and the names of the classes.
    confusion: npt.NDArray[Any] | None = None
    names: tuple[str, ...] = ()


def write_report(
    output: Path,
    report: Report,
    history: list[dict[str, float]],
    settings: dict[str, Any],
) -> None:
    """Write `report.json` atomically."""
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
    """Draw the learning curve, and the confusion matrix if there is one."""
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
    # A name with two "$" is no formula.
    plain = {"parse_math": False}
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right", **plain)
    axis.set_yticks(range(len(names)), names, **plain)
    axis.set(xlabel="answer", ylabel="truth", title=f"{counts.sum()} dev examples")
    figure.savefig(path, dpi=120)
    return path


def model_card(
    kind: str,
    pipeline_tag: str,
    use: str,
    report: Report,
    settings: dict[str, Any],
    task: Any,
    plots: Sequence[Path] = (),
) -> str:
    """Return the model card of a fine-tuned model; see `CommandTask`."""
    scores = "\n".join(
        f"| {key} | {value:.4f} |" for key, value in report.scores.items()
    )
    backbone = task.backbone
    weights = [w for w in task.weights if not w.name.startswith("lora_")]
    count = sum(int(np.prod(w.shape)) for w in weights)
    rows = "\n".join(
        f"- {key.replace('_', ' ')}: {code(value)}"
        for key, value in settings.items()
        if value is not None and key not in ON_CARD
    )
    made_with = ", ".join(f"{key} {value}" for key, value in versions().items())
    declared = CardMetadata(**{key: settings.get(key) for key in ON_CARD})
    metadata = front_matter(
        *(f"albert-{kind}", pipeline_tag, [kind], report.scores),
        evaluated_on=settings["dev"].name,
        declared=declared,
        preset=settings.get("preset"),
    )
    pictures = "".join(
        f"\n![{path.stem.replace('_', ' ')}]({path.name})\n" for path in plots
    )
    exits = (
        "\nEach layer has a head, so that texts can leave early; `keras-albert exits` "
        "compares the rules."
        if settings["exits"]
        else ""
    )
    base = ""
    if settings["difference"]:
        base = f"\n{needs_base(str(settings['preset']))}\n"
    return f"""{metadata}

# ALBERT for {kind}

{count:,} parameters: {backbone.num_layers} layers of width {backbone.hidden_dim} that
share their weights, {backbone.vocabulary_size:,} tokens, up to \
{task.preprocessor.max_length} in a row.{exits}
{base}
{usage(type(task).__name__, use)}

## How good it is

On the dev file {code(settings["dev"])}, of which the best epoch was
chosen, so that new texts may fare worse:

| metric | value |
|---|---|
{scores}
{_class_table(report)}{pictures}
## How it was made

{rows}
- {made_with}

## What is not known

{unknowns(declared)}
"""


def _class_table(report: Report) -> str:
    if not report.classes:
        return ""
    columns = next(iter(report.classes.values()))
    lines = [f"| class | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for label, row in report.classes.items():
        cells = " | ".join(f"{value:.4g}" for value in row.values())
        lines.append(f"| {plain_text(label)} | {cells} |")
    return "\n" + "\n".join(lines) + "\n"
