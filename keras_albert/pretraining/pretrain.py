"""Pretraining, from prepared examples to a preset."""

import math
from pathlib import Path
from typing import Any

import keras

from keras_albert.pretraining.build_pretrainer import (
    build_pretrainer,
    compile_pretrainer,
)
from keras_albert.pretraining.choose_devices import choose_devices
from keras_albert.pretraining.finish_run import finish_run, judge_best
from keras_albert.pretraining.held_out import HeldOut
from keras_albert.pretraining.prefetched_batches import PrefetchedBatches
from keras_albert.pretraining.pretraining_batches import PretrainingBatches
from keras_albert.pretraining.pretraining_config import PretrainingConfig
from keras_albert.pretraining.pretraining_data import PretrainingData
from keras_albert.pretraining.run_folder import RunFolder
from keras_albert.pretraining.starting_preset import load_starting_weights
from keras_albert.pretraining.stop_signals import StopSignals
from keras_albert.pretraining.training_recorder import TrainingRecorder


def pretrain(config: PretrainingConfig, verbose: Any = "auto") -> dict[str, float]:
    """Pretrain a model, or go on with a run that was stopped.

    `config.output` gets checkpoints and the curve in `training/` while it runs, and at
    the end `preset/` with a model card, `report.json`, `curve.csv` and, where
    matplotlib is installed, `curve.png`. Where the package `tensorboard` is installed,
    `tensorboard/` holds the curve too.

    Whatever ends the process, the same call goes on from the last checkpoint, and
    nothing comes out otherwise than without the stop. Ctrl-C and SIGTERM write a
    checkpoint first.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942).

    Args:
        config: `PretrainingConfig`.
        verbose: As of `keras.Model.fit`. Defaults to `"auto"`.

    Returns:
        The best weights' losses and accuracies on held-out documents.

    Raises:
        FloatingPointError: If the loss or a weight becomes infinite or no number. The
            last good checkpoint stays.
        KeyboardInterrupt: After Ctrl-C or SIGTERM.
        ValueError: If `config.output` holds a finished run or another one, or the
            data are not what the settings need.
    """
    folder = RunFolder(Path(config.output))
    devices = choose_devices(config.distribution)
    keras.utils.set_random_seed(config.seed)
    data = read_data(config, "train")
    length = config.sequence_length or data.sequence_length
    identity = config.to_dict() | {
        "training examples": len(data),
        "training tokens": data.num_tokens,
        "vocabulary": data.tokenizer.vocabulary_size(),
    }
    checkpoint = folder.open(identity)
    held_out = HeldOut.read(
        read_data(config, "held_out"),
        config.evaluation_examples,
        config.micro_batch_size,
        length,
    )
    batches = data.batches(
        config.micro_batch_size, length, accumulation_steps=config.accumulation_steps
    )
    per_example = min(length, data.num_tokens / len(data) + 3)
    with devices.scope(), StopSignals() as stop:
        task = build_pretrainer(config, data.tokenizer, length)
        if config.preset is not None and checkpoint is None:
            load_starting_weights(task, config.preset)
        compile_pretrainer(task, config)
        devices.prepare(task)
        recorder = TrainingRecorder(
            config, folder, devices, stop, identity, per_example
        )
        if checkpoint is not None:
            recorder.restore(checkpoint, task)
        if devices.is_chief:
            folder.last.parent.mkdir(parents=True, exist_ok=True)
            folder.curve.cut(recorder.done // config.accumulation_steps)
        _fit(task, config, batches, held_out, recorder, verbose)
        scores, step = judge_best(task, config, folder, devices, held_out)
        weights = devices.values(task.weights)
    # Outside the scope: the finished model is of one process.
    if devices.is_chief:
        finish_run(task, weights, scores, step, config, folder, data, held_out)
    devices.barrier()
    return scores


def read_data(config: PretrainingConfig, split: Any) -> PretrainingData:
    """Open a split of the data of a run.

    Args:
        config: `PretrainingConfig`.
        split: string. `"train"` or `"held_out"`.

    Returns:
        The data.
    """
    second_task: Any = None if config.second_task == "none" else config.second_task
    return PretrainingData(
        config.data, split, second_task, config.masking_rates, config.seed
    )


def _fit(
    task: Any,
    config: PretrainingConfig,
    batches: PretrainingBatches,
    held_out: HeldOut,
    recorder: TrainingRecorder,
    verbose: Any,
) -> None:
    """Train to the end, from where the recorder stands."""
    devices = recorder.devices
    row = config.log_every * config.accumulation_steps
    total = config.steps * config.accumulation_steps
    rows = math.ceil(total / row)
    every = config.evaluate_every // config.log_every

    def read(step: int) -> Any:
        return batches.batch(step, devices.shard, devices.num_shards)

    # Keras' epochs are all as long: one that is not, at either end, is a call of its
    # own.
    while recorder.done < total:
        epoch, within = divmod(recorder.done, row)
        steps = min(row - within, total - recorder.done)
        whole = (total - recorder.done) // row if not within else 0
        with PrefetchedBatches(read, recorder.done) as prefetched:
            # Not the task's own `fit`, which reads and checks what users bring.
            keras.Model.fit(
                task,
                devices.batches(prefetched, read(recorder.done)),
                initial_epoch=epoch,
                epochs=epoch + max(1, whole),
                steps_per_epoch=steps,
                shuffle=False,
                validation_data=held_out.arrays,
                validation_batch_size=config.micro_batch_size,
                validation_freq=[*range(every, rows, every), rows],
                callbacks=[recorder],
                verbose=verbose if devices.is_chief else 0,
            )
