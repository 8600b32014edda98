"""The records of a run: its curve, the report and the model card."""

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.pretraining.dataset import HeldOut, PretrainingData, Stage
from keras_albert.pretraining.model import build_pretrainer
from keras_albert.tasks.task import AlbertTask
from keras_albert.training.devices import OneDevice
from keras_albert.training.model_card import (
    CardMetadata,
    describe_size,
    list_of,
    table_of,
    usage,
    write_card,
)
from keras_albert.training.recorder import StopSignals, TrainingRecorder
from keras_albert.training.run_folder import Row, RunFolder, draw_curves
from keras_albert.utils.environment import describe_hardware, versions


class PretrainingRecorder(TrainingRecorder):
    """A `TrainingRecorder` that counts updates and measures speed."""

    def __init__(
        self,
        config: PretrainingConfig,
        folder: RunFolder,
        devices: OneDevice,
        stop: StopSignals,
        identity: dict[str, Any],
    ) -> None:
        parts = config.accumulation_steps
        super().__init__(
            folder,
            devices,
            stop,
            identity,
            seed=config.seed,
            num_batches=config.steps * parts,
            batches_per_row=config.log_every * parts,
            batches_per_checkpoint=config.checkpoint_every * parts,
            batches_per_update=parts,
            remedy=(
                f"Resume with a learning rate below {config.peak_learning_rate:g} or a "
                f"clip_norm below {config.clip_norm:g}."
            ),
        )
        self.examples_per_batch = config.micro_batch_size
        self.tokens_per_example = 0.0
        self._started = (0.0, 0)
        self._ended = (0.0, -1)

    def start_stage(self, stage: Stage) -> None:
        """Start or resume a stage."""
        self.examples_per_batch = stage.config.micro_batch_size
        self.tokens_per_example = stage.tokens_per_example
        # Scores of rows of different lengths are not comparable.
        if self.done == stage.start:
            self.forget_best()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start or resume a row."""
        super().on_epoch_begin(epoch, logs)
        self._started = (time.perf_counter(), self.done)

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        """Count a batch, and show the speed."""
        super().on_train_batch_end(batch, logs)
        logs.update(self._speed())

    def make_row(self, epoch: int, logs: dict[str, float]) -> Row:
        """Add the step, the rate and the speed; write the row for TensorBoard."""
        logs.update(self._speed())
        rate = float(self.model.optimizer.learning_rate)
        step = self.done // self.batches_per_update
        row = {"step": step, "learning_rate": rate, **self._cost(), **logs}
        if self.devices.is_chief:
            write_tensorboard_row(self.folder.path / "tensorboard", row)
        return row

    def _cost(self) -> dict[str, float]:
        """Return the tokens and the seconds of a row, also if it was interrupted."""
        start = self.rows[-1]["step"] * self.batches_per_update if self.rows else 0
        examples = (self.done - start) * self.examples_per_batch
        tokens = round(examples * self.tokens_per_example)
        return {"tokens": tokens, "seconds": examples / self._examples_per_second()}

    def _speed(self) -> dict[str, float]:
        rate = self._examples_per_second()
        tokens = rate * self.tokens_per_example
        return {"examples/s": round(rate, 1), "tokens/s": round(tokens)}

    def _examples_per_second(self) -> float:
        started, done = self._started
        # Measured up to the last batch, without the time of evaluation.
        if self._ended[1] != self.done:
            self._ended = (time.perf_counter(), self.done)
        examples = (self.done - done) * self.examples_per_batch
        return examples / max(self._ended[0] - started, 1e-9)


def write_tensorboard_row(directory: Path, row: Mapping[str, float]) -> None:
    """Append a row to TensorBoard's files, if `tensorboard` is installed."""
    # Keras' callback requires TensorFlow. Scores on held-out documents have the same
    # names in another folder, so that both appear in one chart.
    if importlib.util.find_spec("tensorboard") is None:
        return
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  (an extra)
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
    from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

    for folder, is_held_out in (("train", False), ("held_out", True)):
        values = [
            Summary.Value(tag=name.removeprefix("val_"), simple_value=value)
            for name, value in row.items()
            if name != "step" and name.startswith("val_") == is_held_out
        ]
        if not values:
            continue
        now, step = time.time(), int(row["step"])
        events = [Event(wall_time=now, step=step, summary=Summary(value=values))]
        path = directory / folder / "events.out.tfevents"
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            events.insert(0, Event(wall_time=now, file_version="brain.Event:2"))
        with path.open("ab") as file:
            writer = RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())


def judge_best(
    task: AlbertTask,
    config: PretrainingConfig,
    recorder: TrainingRecorder,
    held_out: HeldOut,
) -> dict[str, float]:
    """Evaluate the best weights, on all devices."""
    recorder.load_best(task)
    x, y, weights = held_out.arrays
    size, how = config.micro_batch_size, {"verbose": 0, "return_dict": True}
    scores: dict[str, float] = keras.Model.evaluate(
        task, x, y, sample_weight=weights, batch_size=size, **how
    )
    bits = held_out.bits_per_character(scores.get("masked_lm_loss", scores["loss"]))
    return scores | {"masked_lm_bits_per_character": bits}


def finish_run(
    task: AlbertTask,
    weights: list[npt.NDArray[Any]],
    scores: dict[str, float],
    config: PretrainingConfig,
    recorder: TrainingRecorder,
    data: PretrainingData,
    held_out: HeldOut,
) -> None:
    """Save the best weights and the reports, in one process and on one device."""
    folder, rows = recorder.folder, recorder.rows
    report = {
        "scores": scores,
        "baselines": held_out.baselines,
        "best step": recorder.best_done // config.accumulation_steps,
        "settings": config.to_dict(),
        # Without evaluation.
        "cost": {
            "tokens read": round(sum(row["tokens"] for row in rows)),
            "hours": f"{sum(row['seconds'] for row in rows) / 3600:.2f}",
            "hardware": describe_hardware(),
        },
        "data": {
            **data.metadata.counters,
            "training examples": len(data),
            "training tokens": data.num_tokens,
            "masked held-out tokens": held_out.num_masked,
        },
        "versions": versions(),
    }
    plot = folder.path / "curve.png"
    draw_curves(plot, rows, baselines=held_out.baselines)
    language = data.metadata.settings.get("language")
    card = model_card(report, rows, task, language, plot.is_file())
    # With the usual arguments: how it was trained, in what precision and with what
    # seed, is not part of the model.
    finished = build_pretrainer(
        config.stage_settings[-1],
        data.tokenizer,
        task.backbone.max_sequence_length,
        **{"dtype": "float32", "remat": False, "unroll": None, "seed": None},
    )
    finished.set_weights(weights)
    plots = [plot] if plot.is_file() else []
    folder.finish(report, rows, finished.save_to_preset, card, plots)


# Locations of files are private.
_PRIVATE = ("data", "output", "preset")
_TASKS = {"sentence_order": "sentence order", "next_sentence": "next sentence"}


def model_card(
    report: dict[str, Any],
    rows: list[Row],
    task: AlbertTask,
    language: str | None = None,
    has_plot: bool = True,
) -> str:
    """Return the model card of a pretrained model."""
    settings = report["settings"]
    # A model that started from a preset has the size of the preset.
    private = (*_PRIVATE, "size") if settings["preset"] else _PRIVATE
    shown = {name: settings[name] for name in settings if name not in private}
    second = _TASKS.get(settings["second_task"])
    chosen = ""
    if "best step" in report:
        step = report["best step"]
        chosen = f", by which the best checkpoint (step {step:,}) was chosen"
    # The accuracies of the most frequent token, and of the more frequent label.
    baselines = {name: f"{value:.4f}" for name, value in report["baselines"].items()}
    scores = [
        [name.replace("_", " "), f"{value:.4f}", baselines.get(name, "")]
        for name, value in report["scores"].items()
    ]
    tables = [report["cost"], report["data"], shown, report["versions"]]
    plot = "![losses and accuracies](curve.png)" if has_plot else ""
    how = [*map(list_of, tables), _curve_table(rows), plot]
    return write_card(
        "ALBERT, pretrained on masked tokens" + (f" and {second}" if second else ""),
        describe_size(task),
        usage(
            "AlbertClassifier",
            arguments=", num_classes=2",
            purpose=", for instance to fine-tune a classifier",
        ),
        CardMetadata(language, settings["license"], settings["dataset"]),
        {
            "Evaluation": f"On {report['data']['masked held-out tokens']:,} masked "
            f"tokens of documents that were not trained on{chosen}: 15% of the tokens, "
            "each replaced by `[MASK]`, whatever was masked in training.\n\n"
            + table_of(("metric", "held out", "baseline"), scores),
            "How it was trained": "\n\n".join(filter(None, how)),
        },
        name="albert-pretrained",
        pipeline_tag="fill-mask",
        tags=["pretraining"],
        scores=report["scores"],
        evaluated_on="documents that were not trained on",
        preset=settings["preset"],
    )


def _curve_table(rows: list[Row], most: int = 12) -> str:
    """Return a table of some evaluated rows, including the first and the last."""
    held_out = [row for row in rows if "val_loss" in row]
    chosen = np.unique(np.linspace(0, len(held_out) - 1, most).round().astype(int))
    names = ["step", *(name for name in held_out[0] if name.startswith("val_"))]
    cells = [[f"{held_out[index][name]:.5g}" for name in names] for index in chosen]
    return table_of([name.replace("_", " ") for name in names], cells)
