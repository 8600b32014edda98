"""`keras-albert compress`: makes a small model of a large one."""

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.table import Table

from keras_albert import tasks
from keras_albert.backbone import AlbertBackbone
from keras_albert.commands.files import FileRows
from keras_albert.commands.report import ON_CARD, plain_console
from keras_albert.commands.tasks import known_task, on_one_scale
from keras_albert.compression import compress, distill
from keras_albert.compression.text_spans import split_texts
from keras_albert.conversion.task_classes import class_of, load_task
from keras_albert.presets.handles import local_directory
from keras_albert.presets.preset_files import preset_directory
from keras_albert.tasks.base.other_backbone import with_backbone
from keras_albert.tasks.distribution.strategy import check_processes
from keras_albert.text import AlbertTextEmbedderPreprocessor
from keras_albert.training.model_card import (
    CardMetadata,
    code,
    front_matter,
    unknowns,
    usage,
)
from keras_albert.training.run_folder import Row, RunFolder, write_table
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.environment import new_figure, versions

# The sizes that options choose.
_SIZES = ("num_groups", "num_layers", "embedding_dim", "adapter_rank", "vocabulary")

_TIMED_TOKENS, _TIMED_CALLS = 32, 20

_READS_TEXTS = (tasks.AlbertTextEmbedder, tasks.AlbertMaskedLM)

Scores = dict[str, float]


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    check_processes("training")
    folder = RunFolder(arguments.output)
    try:
        with folder.locked():
            _run(arguments, folder)
    except KeyboardInterrupt as stop:
        stop.add_note("the same command goes on")
        raise


def _run(arguments: argparse.Namespace, folder: RunFolder) -> None:
    folder.check_unfinished()
    console = plain_console()
    sizes = {name: getattr(arguments, name) for name in _SIZES}
    texts = read_texts(arguments.texts) if arguments.texts else []
    keras.utils.set_random_seed(arguments.seed)
    teacher = load_task(arguments.preset, arguments.task, dtype=arguments.precision)
    reads_texts = isinstance(teacher, _READS_TEXTS)
    if arguments.train if reads_texts else arguments.texts:
        needed = "--texts" if reads_texts else "--train and --dev"
        raise ValueError(f"An {type(teacher).__name__} learns from {needed}.")
    if arguments.student is None:
        student = compress(teacher, **sizes, seed=arguments.seed)
    else:
        student = _load_student(arguments.student, teacher, arguments.precision)
    judge: Any = None
    data: dict[str, Any] = {}
    if texts:
        rest, held_out = split_texts(texts, arguments.seed)
        data = {"x": rest, "validation_data": held_out}
        console.print(f"{len(texts):,} texts, of which {len(held_out):,} are held out")
        judge = lambda model: agreement(model, teacher, held_out)  # noqa: E731
    elif arguments.train:
        kind = known_task(teacher)
        files = [
            kind.read(path, arguments) for path in (arguments.train, arguments.dev)
        ]
        train, dev = on_one_scale(files)
        for each in (train, dev):
            console.print(each.description, highlight=False)
        data = {"x": train.x, "y": train.y, "validation_data": (dev.x, dev.y)}
        judge = lambda model: kind.report(model, dev).scores  # noqa: E731
    rows: list[Row] = []
    measured = {"original": measure(teacher, judge), "start": measure(student, judge)}
    if data:
        rows = distill(
            student,
            teacher,
            **data,
            hours=arguments.hours,
            steps=arguments.steps,
            output=folder,
            batch_tokens=arguments.batch_tokens,
            batch_size=arguments.batch_size,
            max_length=arguments.max_length,
            learning_rate=arguments.learning_rate,
            seed=arguments.seed,
        )
        measured["compressed"] = measure(student, judge)
    _finish(arguments, folder, student, measured, rows, console)


def _load_student(preset: str, teacher: Any, dtype: Any) -> Any:
    """Load a small model, with the head of the teacher if it has none of its kind."""
    directory = local_directory(preset)
    if directory is not None and class_of(directory) is type(teacher):
        return load_task(preset, dtype=dtype)
    return with_backbone(teacher, AlbertBackbone.from_preset(preset, dtype=dtype))


def read_texts(paths: Sequence[Path]) -> list[str]:
    """Read the texts of files: lines, or a column `text`."""
    texts: list[str] = []
    for path in paths:
        rows = FileRows(path)
        if "text" not in rows.columns:
            columns = ", ".join(rows.columns)
            raise ValueError(f"{path} has no column `text`. Its columns: {columns}.")
        texts += (row["text"] for row in rows if row["text"].strip())
    if len(texts) < 2:
        raise ValueError(f"{paths[0]} has no texts. Pass a file with some.")
    return texts


def agreement(model: Any, teacher: Any, texts: Sequence[str]) -> Scores:
    """Compare the vectors of two models."""
    from scipy.stats import spearmanr  # noqa: PLC0415  (slow to import)

    vectors = [_embedder(each).embed(list(texts)) for each in (model, teacher)]
    pairs = np.triu_indices(len(texts), 1)
    cosines = [(each @ each.T)[pairs] for each in vectors]
    return {
        "cosine": float(np.mean(np.sum(vectors[0] * vectors[1], axis=1))),
        "Spearman": float(spearmanr(*cosines).statistic),
    }


def _embedder(task: Any) -> Any:
    if isinstance(task, tasks.AlbertTextEmbedder):
        return task
    preprocessor = AlbertTextEmbedderPreprocessor(
        task.preprocessor.tokenizer, max_sequence_length=task.preprocessor.max_length
    )
    return tasks.AlbertTextEmbedder(task.backbone, preprocessor)


def measure(task: Any, judge: Any) -> Scores:
    """Return a model's scores, its size, and the time of a short row."""
    backbone = task.backbone
    shape = (1, min(_TIMED_TOKENS, backbone.max_sequence_length))
    row = {name: np.ones(shape, "int32") for name in backbone.input}
    row["segment_ids"] *= 0
    times = []
    for _ in range(_TIMED_CALLS):
        clock = time.perf_counter()
        keras.Model.predict_on_batch(backbone, row)
        times.append(time.perf_counter() - clock)
    numbers = {
        "parameters": float(task.count_params()),
        "MB": task.count_params() * 4 / 1e6,
        "ms": statistics.median(times) * 1000,
    }
    return numbers | (judge(task) if judge else {})


def _finish(
    arguments: argparse.Namespace,
    folder: RunFolder,
    student: Any,
    measured: dict[str, Scores],
    rows: list[Row],
    console: Any,
) -> None:
    """Write the reports and the model; the preset last."""
    settings = {
        name: [str(each) for each in value] if isinstance(value, list) else value
        for name, value in vars(arguments).items()
        if name != "output" and value is not None
    }
    contents = {
        "models": measured,
        "curve": rows,
        "settings": settings,
        "versions": versions(),
    }
    folder.path.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder.path / "report.json") as partial:
        text = json.dumps(contents, indent=2, default=str)
        partial.write_text(text, encoding="utf-8")
    write_table(folder.path / "curve.csv", rows)
    plot = _draw(folder.path / "compression.png", measured, rows)
    with preset_directory(folder.preset) as finished:
        student.save_to_preset(finished)
        if plot is not None:
            shutil.copy(plot, finished)
        card = _card(arguments, student, measured, settings, plot)
        (finished / "README.md").write_text(card, encoding="utf-8")
    folder.tidy_up()
    names = list(next(reversed(measured.values())))
    table = Table("model", *names)
    for name, scores in measured.items():
        table.add_row(name, *(_shown(scores[each]) for each in names))
    console.print(table)
    console.print(f"model: {folder.preset}\nreport: {folder.path / 'report.json'}")
    if plot is not None:
        console.print(f"plot: {plot}")


def _draw(path: Path, measured: dict[str, Scores], rows: list[Row]) -> Path | None:
    """Draw the quality against the size, the time, and the steps of the training."""
    quality = [name for name in measured["original"] if name not in _NUMBERS]
    try:
        figure = new_figure(12.6, 3.4)
    except ImportError:
        return None
    if not quality:
        return None
    score = quality[-1]
    size, speed, curve = figure.subplots(1, 3)
    for axis, name in ((size, "MB"), (speed, "ms")):
        for label, scores in measured.items():
            axis.plot(scores[name], scores[score], "o", label=label)
        axis.set(xlabel=_NUMBERS[name], ylabel=score, xlim=(0, None))
        axis.grid(alpha=0.3)
    size.legend()
    for name in ("loss", "val_loss"):
        points = [(row["epoch"] + 1, row[name]) for row in rows if name in row]
        if points:
            curve.plot(*zip(*points, strict=True), marker=".", label=name)
    curve.set(xlabel="row of the curve", title="training")
    curve.grid(alpha=0.3)
    curve.legend()
    figure.savefig(path, dpi=120)
    return path


_NUMBERS = {
    "parameters": "parameters",
    "MB": "megabytes in float32",
    "ms": f"milliseconds for {_TIMED_TOKENS} tokens",
}


def _card(
    arguments: argparse.Namespace,
    student: Any,
    measured: dict[str, Scores],
    settings: dict[str, Any],
    plot: Path | None,
) -> str:
    """Return the model card."""
    row = known_task(student).row
    declared = CardMetadata(**{name: getattr(arguments, name) for name in ON_CARD})
    last = next(reversed(measured.values()))
    names = list(last)
    held_out = arguments.dev.name if arguments.dev else "held-out texts"
    metadata = front_matter(
        *(f"albert-{row.pipeline_tag}", row.pipeline_tag, ["compressed"]),
        {name: last[name] for name in names if name not in _NUMBERS},
        evaluated_on=held_out,
        declared=declared,
        preset=arguments.preset,
    )
    rows = "\n".join(
        f"| {name} | " + " | ".join(_shown(scores[each]) for each in names) + " |"
        for name, scores in measured.items()
    )
    made = "\n".join(
        f"- {key.replace('_', ' ')}: {_codes(value)}"
        for key, value in settings.items()
        if key not in ON_CARD
    )
    backbone = student.backbone
    picture = "" if plot is None else f"\n![quality, size and time]({plot.name})\n"
    return f"""{metadata}

# A compressed ALBERT

{student.count_params():,} parameters: {backbone.num_layers} layers of width \
{backbone.hidden_dim} in {backbone.num_groups} groups, embeddings of width \
{backbone.embedding_dim}, {backbone.vocabulary_size:,} tokens. Its weights started from
those of {code(arguments.preset)}, whose licence applies, too.

{usage(type(student).__name__, row.use)}

## How good it is

On {code(held_out)}; the time is that of a row of {_TIMED_TOKENS} tokens:

| model | {" | ".join(names)} |
|{"---|" * (len(names) + 1)}
{rows}
{picture}
## How it was made

By `keras-albert compress` with:

{made}
- {", ".join(f"{key} {value}" for key, value in versions().items())}

## What is not known

{unknowns(declared)}
"""


def _codes(value: Any) -> str:
    values = value if isinstance(value, list) else [value]
    return ", ".join(code(Path(each) if value is values else each) for each in values)


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
