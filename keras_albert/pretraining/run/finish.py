"""The final evaluation and the results of a run."""

import json
import shutil
from typing import Any

import keras
import numpy.typing as npt

from keras_albert.presets.preset_files import preset_directory
from keras_albert.pretraining.data.dataset import PretrainingData
from keras_albert.pretraining.data.held_out import HeldOut
from keras_albert.pretraining.model.build import build_pretrainer
from keras_albert.pretraining.run.report import model_card, training_cost
from keras_albert.pretraining.settings.config import PretrainingConfig
from keras_albert.training.run_folder import RunFolder
from keras_albert.training.training_curve import draw_curves, write_table
from keras_albert.training.training_recorder import TrainingRecorder
from keras_albert.utils.atomic_file import atomic_file
from keras_albert.utils.packages import versions


def judge_best(
    task: Any,
    config: PretrainingConfig,
    recorder: TrainingRecorder,
    held_out: HeldOut,
) -> dict[str, float]:
    """Evaluate the best weights, on all devices."""
    recorder.load_best(task)
    x, y, weights = held_out.arrays
    scores: dict[str, float] = keras.Model.evaluate(
        task,
        x,
        y,
        sample_weight=weights,
        batch_size=config.micro_batch_size,
        verbose=0,
        return_dict=True,
    )
    return scores | {
        "masked_lm_bits_per_character": held_out.bits_per_character(
            scores.get("masked_lm_loss", scores["loss"])
        )
    }


def finish_run(
    task: Any,
    weights: list[npt.NDArray[Any]],
    scores: dict[str, float],
    config: PretrainingConfig,
    recorder: TrainingRecorder,
    data: PretrainingData,
    held_out: HeldOut,
) -> None:
    """Save the best weights and the reports, in one process and on one device."""
    report = {
        "scores": scores,
        "baselines": held_out.baselines,
        "best step": recorder.best_done // config.accumulation_steps,
        "settings": config.to_dict(),
        "cost": training_cost(recorder.rows),
        "data": {
            **data.metadata.counters,
            "training examples": len(data),
            "training tokens": data.num_tokens,
            "masked held-out tokens": held_out.num_masked,
        },
        "versions": versions(),
    }
    folder, rows = recorder.folder, recorder.rows
    with atomic_file(folder.path / "report.json") as partial:
        partial.write_text(json.dumps(report, indent=2), encoding="utf-8")
    write_table(folder.path / "curve.csv", rows)
    plot = folder.path / "curve.png"
    draw_curves(plot, rows, baselines=held_out.baselines)
    last = config.stage_settings[-1]
    language = data.metadata.settings.get("language")
    card = model_card(report, rows, task, language, plot.is_file())
    _save(task, weights, last, folder, card, data)


def _save(
    task: Any,
    weights: list[npt.NDArray[Any]],
    config: PretrainingConfig,
    folder: RunFolder,
    card: str,
    data: PretrainingData,
) -> None:
    """Save the preset with its card, atomically."""
    # With the usual arguments: how it was trained, in what precision and with what
    # seed, is not part of the model.
    length = task.backbone.max_sequence_length
    usual = {"dtype": "float32", "remat": False, "unroll": None, "seed": None}
    finished = build_pretrainer(config, data.tokenizer, length, **usual)
    finished.set_weights(weights)
    plot = folder.path / "curve.png"
    with preset_directory(folder.preset) as preset:
        finished.save_to_preset(preset)
        (preset / "README.md").write_text(card, encoding="utf-8")
        if plot.is_file():
            shutil.copy(plot, preset)
