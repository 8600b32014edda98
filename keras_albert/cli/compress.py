"""`keras-albert compress`: makes a small model of a large one."""

import importlib.util
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import keras
import numpy as np
from rich.table import Table

from keras_albert import tasks
from keras_albert.backbone import AlbertBackbone
from keras_albert.checkpoints.convert import class_of, load_task
from keras_albert.cli.commands import Compress
from keras_albert.cli.console import plain_console, print_results, resumable_run
from keras_albert.compression import compress, distill
from keras_albert.compression.distill import check_models
from keras_albert.compression.text_spans import split_texts
from keras_albert.devices.processes import refuse_processes
from keras_albert.preprocessors import AlbertTextEmbedderPreprocessor
from keras_albert.presets.checkpoint import open_checkpoint
from keras_albert.presets.handles import local_directory
from keras_albert.tasks.cloning import with_backbone
from keras_albert.tasks.table import TASKS
from keras_albert.tasks.task import AlbertTask
from keras_albert.tools.datasets import Asked, read_texts
from keras_albert.tools.tasks import file_task
from keras_albert.training import model_card
from keras_albert.training.run_folder import Row, RunFolder
from keras_albert.utils.environment import new_figure, versions

# The options of `distill`.
_TRAINING = (
    *("hours", "steps", "batch_size", "max_length", "learning_rate"),
    *("seed", "workers"),
)

_TIMED_TOKENS, _TIMED_CALLS = 32, 20

_READS_TEXTS = (tasks.AlbertTextEmbedder, tasks.AlbertMaskedLM)

Scores = dict[str, float]


def run(options: Compress) -> None:
    """Run the command."""
    refuse_processes("`keras-albert compress`")
    with resumable_run(options.output) as folder:
        _run(options, folder)


def _run(options: Compress, folder: RunFolder) -> None:
    folder.check_unfinished()
    console = plain_console()
    texts = read_passages(options.texts or (), options.columns, options.limit)
    keras.utils.set_random_seed(options.seed)
    teacher = load_task(options.preset, options.task, dtype=options.precision)
    reads_texts = isinstance(teacher, _READS_TEXTS)
    if options.train if reads_texts else options.texts:
        needed = "--texts" if reads_texts else "--train and --dev"
        raise ValueError(f"An {type(teacher).__name__} learns from {needed}.")
    if options.student is None:
        student = compress(teacher, **options.sizes, seed=options.seed)
    else:
        directory, dtype = local_directory(options.student), options.precision
        if directory and class_of(open_checkpoint(directory)) is type(teacher):
            student = load_task(options.student, dtype=dtype)
        else:
            # With the teacher's head, since it has no matching one.
            backbone = AlbertBackbone.from_preset(options.student, dtype=dtype)
            student = with_backbone(teacher, backbone)
    score: Any = None
    data: dict[str, Any] = {}
    if texts:
        rest, held_out = split_texts(texts, options.seed)
        data = {"x": rest, "validation_data": held_out}
        console.print(f"{len(texts):,} texts, {len(held_out):,} of them held out")
        score = lambda model: agreement(model, teacher, held_out)  # noqa: E731
    elif options.train and options.dev:
        kind = file_task(teacher)
        paths = [options.train, options.dev]
        train, dev = kind.read_all(paths, options.columns, options.limit)
        for each in (train, dev):
            console.print(each.description, highlight=False)
        data = {"x": train.x, "y": train.y, "validation_data": (dev.x, dev.y)}
        score = lambda model: kind.evaluate_tuned(model, dev).report.scores  # noqa: E731
    rows: list[Row] = []
    if data:
        check_models(student, teacher)
    measured = {"original": measure(teacher, score), "start": measure(student, score)}
    if data:
        how = {name: getattr(options, name) for name in _TRAINING}
        rows = distill(student, teacher, **data, **how, output=folder)
        measured["compressed"] = measure(student, score)
    _finish(options, folder, student, measured, rows)


def read_passages(
    paths: Sequence[Path], asked: Asked, limit: int | None = None
) -> list[str]:
    """Read the texts of files."""
    files = [read_texts(path, asked, limit) for path in paths]
    texts = [text for file in files for text in file.x if text.strip()]
    if files and len(texts) < 2:
        raise ValueError(f"{files[0].description}. Pass two texts or more.")
    return texts


def agreement(model: AlbertTask, teacher: AlbertTask, texts: Sequence[str]) -> Scores:
    """Compare the vectors of two models."""
    from scipy.stats import spearmanr  # noqa: PLC0415  (slow to import)

    vectors = [_embedder(each).embed(list(texts)) for each in (model, teacher)]
    pairs = np.triu_indices(len(texts), 1)
    cosines = [(each @ each.T)[pairs] for each in vectors]
    return {
        "cosine": float(np.mean(np.sum(vectors[0] * vectors[1], axis=1))),
        "Spearman": float(spearmanr(*cosines).statistic),
    }


def _embedder(task: AlbertTask) -> Any:
    if isinstance(task, tasks.AlbertTextEmbedder):
        return task
    preprocessor = AlbertTextEmbedderPreprocessor(
        task.preprocessor.tokenizer, max_sequence_length=task.preprocessor.max_length
    )
    return tasks.AlbertTextEmbedder(task.backbone, preprocessor)


def measure(task: AlbertTask, score: Any) -> Scores:
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
    return numbers | (score(task) if score else {})


def _finish(
    options: Compress,
    folder: RunFolder,
    student: AlbertTask,
    measured: dict[str, Scores],
    rows: list[Row],
) -> None:
    """Write the reports and the model; the preset last."""
    settings = {name: x for name, x in asdict(options).items() if name != "output"}
    contents = {"models": measured, "curve": rows, "settings": settings}
    folder.path.mkdir(parents=True, exist_ok=True)
    plots = _draw(folder.path / "compression.png", measured, rows)
    card = _card(options, student, measured, settings, plots)
    folder.finish(contents, rows, student.save_to_preset, card, plots)
    folder.tidy_up()
    names = list(next(reversed(measured.values())))
    table = Table("model", *names)
    for name, scores in measured.items():
        table.add_row(name, *(_shown(scores[each]) for each in names))
    plain_console().print(table)
    print_results(folder, plots)


def _draw(path: Path, measured: dict[str, Scores], rows: list[Row]) -> list[Path]:
    """Draw the quality against the size, the time, and the steps of the training."""
    quality = [name for name in measured["original"] if name not in _NUMBERS]
    if not quality or importlib.util.find_spec("matplotlib") is None:
        return []
    figure = new_figure(12.6, 3.4)
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
    return [path]


_NUMBERS = {
    "parameters": "parameters",
    "MB": "megabytes in float32",
    "ms": f"milliseconds for {_TIMED_TOKENS} tokens",
}


def _card(
    options: Compress,
    student: AlbertTask,
    measured: dict[str, Scores],
    settings: dict[str, Any],
    plots: list[Path],
) -> str:
    row = TASKS[type(student).__name__]
    last = next(reversed(measured.values()))
    held_out = options.dev.name if options.dev else "held-out texts"
    rows = [(name, *map(_shown, scores.values())) for name, scores in measured.items()]
    pictures = [f"![quality, size and time]({plot.name})" for plot in plots]
    quality = [
        f"On {model_card.code(held_out)}; the time is for a row of "
        f"{_TIMED_TOKENS} tokens:",
        model_card.table_of(("model", *last), rows),
    ]
    return model_card.write_card(
        "A compressed ALBERT",
        f"{model_card.describe_size(student)} Its weights started from "
        f"{model_card.code(options.preset)}, whose licence applies as well.",
        model_card.usage(type(student).__name__, row.use),
        model_card.CardMetadata.of(settings),
        {
            "Evaluation": "\n\n".join(quality + pictures),
            "Training": "By `keras-albert compress` with:\n\n"
            + "\n\n".join(map(model_card.list_of, (settings, versions()))),
        },
        name=f"albert-{row.pipeline_tag}",
        pipeline_tag=row.pipeline_tag,
        tags=["compressed"],
        scores={name: last[name] for name in last if name not in _NUMBERS},
        evaluated_on=held_out,
        preset=options.preset,
    )


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
