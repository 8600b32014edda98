"""The model card of a run."""

from typing import Any

import numpy as np

from keras_albert.training.model_card import (
    Declared,
    code,
    front_matter,
    unknowns,
    usage,
)
from keras_albert.training.training_curve import Row
from keras_albert.utils.hardware import describe_hardware

# Locations of files are private, and the metadata are at the beginning.
_PRIVATE = ("data", "output", "preset", "license", "dataset")
_TASKS = {"sentence_order": "sentence order", "next_sentence": "next sentence"}


def model_card(
    report: dict[str, Any],
    rows: list[Row],
    task: Any,
    language: str | None = None,
    has_plot: bool = True,
) -> str:
    """Return the model card of a pretrained model."""
    settings, backbone = report["settings"], task.backbone
    # A model that started from a preset has the size of the preset.
    private = (*_PRIVATE, "size") if settings["preset"] else _PRIVATE
    second = _TASKS.get(settings["second_task"])
    objective = "masked tokens" + (f" and {second}" if second else "")
    count = sum(int(np.prod(weight.shape)) for weight in task.weights)
    declared = Declared(language, settings["license"], settings["dataset"])
    metadata = front_matter(
        *("albert-pretrained", "fill-mask", ["pretraining"], report["scores"]),
        evaluated_on="documents that were not trained on",
        declared=declared,
        preset=settings["preset"],
    )
    how = usage(
        "AlbertClassifier",
        arguments=", num_classes=2",
        purpose=", for instance to fine-tune a classifier",
    )
    plot = "\n![losses and accuracies](curve.png)\n" if has_plot else ""
    return f"""{metadata}

# ALBERT, pretrained on {objective}

{count:,} parameters: {backbone.num_layers} layers of width {backbone.hidden_dim} that
share their weights, {backbone.vocabulary_size:,} tokens, up to \
{backbone.max_sequence_length} in a row.

{how}

## How good it is

On {report["data"]["masked held-out tokens"]:,} masked tokens of documents that were not
trained on{_choice(report)}: 15%
of the tokens, each replaced by `[MASK]`, whatever was masked in training.

{_score_table(report)}

## How it was trained

{_lines(report["cost"])}

{_lines(report["data"])}

{_lines({name: settings[name] for name in settings if name not in private})}

{_lines(report["versions"])}

{_curve_table(rows)}
{plot}
## What is not known

{unknowns(declared)}
"""


def training_cost(rows: list[Row]) -> dict[str, Any]:
    """Return what a run took, without evaluation."""
    return {
        "tokens read": round(sum(row["tokens"] for row in rows)),
        "hours": f"{sum(row['seconds'] for row in rows) / 3600:.2f}",
        "hardware": describe_hardware(),
    }


def _choice(report: dict[str, Any]) -> str:
    if "best step" not in report:
        return ""
    return f", by which the best checkpoint (step {report['best step']:,}) was chosen"


def _score_table(report: dict[str, Any]) -> str:
    lines = ["| metric | held out | without reading |", "|---|---|---|"]
    for name, value in report["scores"].items():
        baseline = report["baselines"].get(name)
        # Of the most frequent token, or the more frequent label.
        beside = "" if baseline is None else f"{baseline:.4f}"
        lines.append(f"| {name.replace('_', ' ')} | {value:.4f} | {beside} |")
    return "\n".join(lines)


def _curve_table(rows: list[Row], most: int = 12) -> str:
    """Return a table of some evaluated rows, including the first and the last."""
    held_out = [row for row in rows if "val_loss" in row]
    chosen = np.unique(np.linspace(0, len(held_out) - 1, most).round().astype(int))
    names = ["step", *(name for name in held_out[0] if name.startswith("val_"))]
    lines = [
        f"| {' | '.join(name.replace('_', ' ') for name in names)} |",
        "|" + "---|" * len(names),
    ]
    for index in chosen:
        cells = (f"{held_out[index][name]:.5g}" for name in names)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _lines(values: dict[str, Any]) -> str:
    return "\n".join(
        f"- {name.replace('_', ' ')}: {code(value)}"
        for name, value in values.items()
        if value not in (None, {}, [])
    )
