"""What a run leaves when it is over."""

import json
import shutil
from typing import Any

import keras
import numpy.typing as npt

from keras_albert.presets.atomic_directory import atomic_directory
from keras_albert.presets.atomic_file import atomic_file
from keras_albert.presets.versions import versions
from keras_albert.pretraining.build_pretrainer import build_pretrainer
from keras_albert.pretraining.held_out import HeldOut
from keras_albert.pretraining.pretraining_config import PretrainingConfig
from keras_albert.pretraining.pretraining_data import PretrainingData
from keras_albert.pretraining.run_folder import RunFolder
from keras_albert.pretraining.run_story import draw_curve, model_card
from keras_albert.pretraining.training_checkpoint import TrainingCheckpoint


def judge_best(
    task: Any,
    config: PretrainingConfig,
    folder: RunFolder,
    devices: Any,
    held_out: HeldOut,
) -> tuple[dict[str, float], int]:
    """Evaluate the best weights, on all devices.

    Args:
        task: The trained model, which keeps these weights.
        config: `PretrainingConfig`.
        folder: `RunFolder`.
        devices: An object with the members of `OneDevice`.
        held_out: `HeldOut`.

    Returns:
        The scores, and the step that the weights are of.
    """
    best = TrainingCheckpoint.read(folder.best)
    devices.assign(task.variables, best.groups["model"])
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
    return scores, best.step // config.accumulation_steps


def finish_run(
    task: Any,
    weights: list[npt.NDArray[Any]],
    scores: dict[str, float],
    best_step: int,
    config: PretrainingConfig,
    folder: RunFolder,
    data: PretrainingData,
    held_out: HeldOut,
) -> None:
    """Save the best weights with their story, in one process and on one device.

    Args:
        task: The trained model.
        weights: list of arrays. Its best weights, which may be spread over processes
            in the model itself.
        scores: dict of float. How they did on held-out documents.
        best_step: int. The step that they are of.
        config: `PretrainingConfig`.
        folder: `RunFolder`.
        data: `PretrainingData` that was trained on.
        held_out: `HeldOut`.
    """
    report = {
        "scores": scores,
        "baselines": held_out.baselines,
        "best step": best_step,
        "settings": config.to_dict(),
        "data": {
            **data.metadata.counters,
            "training examples": len(data),
            "training tokens": data.num_tokens,
            "masked held-out tokens": held_out.num_masked,
        },
        "versions": versions(),
    }
    rows = folder.curve.rows()
    with atomic_file(folder.path / "report.json") as partial:
        partial.write_text(json.dumps(report, indent=2), encoding="utf-8")
    folder.curve.write_csv(folder.path / "curve.csv")
    draw_curve(folder.path / "curve.png", rows, held_out.baselines)
    _save(task, weights, config, folder, model_card(report, rows, task), data)


def _save(
    task: Any,
    weights: list[npt.NDArray[Any]],
    config: PretrainingConfig,
    folder: RunFolder,
    card: str,
    data: PretrainingData,
) -> None:
    """Save with the card, and move into place what is whole."""
    # As users want it: how it was trained, in what precision and with what seed, is
    # no part of the model.
    length = task.backbone.max_sequence_length
    usual = {"dtype": "float32", "remat": False, "unroll": None, "seed": None}
    finished = build_pretrainer(config, data.tokenizer, length, **usual)
    finished.set_weights(weights)
    plot = folder.path / "curve.png"
    with atomic_directory(folder.preset) as preset:
        finished.save_to_preset(preset)
        (preset / "README.md").write_text(card, encoding="utf-8")
        if plot.is_file():
            shutil.copy(plot, preset)
