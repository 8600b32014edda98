"""Pretraining, from prepared examples to a preset."""

import math
from contextlib import nullcontext
from functools import partial
from typing import Any

import keras

from keras_albert.pretraining import dataset
from keras_albert.pretraining.config import PretrainingConfig, settings_that
from keras_albert.pretraining.model import (
    build_pretrainer,
    compile_pretrainer,
    draw_depth,
    load_starting_weights,
    train_at_depths,
)
from keras_albert.pretraining.run import PretrainingRecorder, finish_run, judge_best
from keras_albert.tasks.task import AlbertTask
from keras_albert.training.devices import OneDevice, choose_devices
from keras_albert.training.recorder import StopSignals, resumable_fit
from keras_albert.training.run_folder import RunFolder, content_of
from keras_albert.types import Batch
from keras_albert.utils.environment import versions


def pretrain(config: PretrainingConfig, verbose: Any = "auto") -> dict[str, float]:
    r"""Pretrain a model, or resume an interrupted run.

    `config.output` receives checkpoints and the curve in `training/` during the run,
    and at the end `preset/` with a model card, `report.json`, `curve.csv` and, if
    matplotlib is installed, `curve.png`. If `tensorboard` is installed, the curve is
    also written to `tensorboard/`.

    After any interruption, the same call resumes from the last checkpoint, with the
    same result as without the interruption. Ctrl-C and SIGTERM write a checkpoint
    first.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942).

    Args:
        config: `PretrainingConfig`.
        verbose: As in `keras.Model.fit`. Defaults to `"auto"`.

    Returns:
        Losses and accuracies of the best weights on held-out documents.

    Raises:
        FloatingPointError: If the loss or a weight becomes infinite or NaN. The last
            good checkpoint is kept.
        KeyboardInterrupt: After Ctrl-C or SIGTERM.
        ValueError: If `config.output` has a finished run or one with other settings,
            if another process writes to it, or if the data do not fit the settings.

    Example:
        >>> from pathlib import Path
        >>> from keras_albert.pretraining import (
        ...     PretrainingConfig, prepare_examples, pretrain)
        >>> document = "A fine film.\nIt was {} minutes long.\nThe end was dull.\n\n"
        >>> _ = Path("a.txt").write_text("".join(map(document.format, range(50))))
        >>> preset = "albert_tiny_en_uncased"
        >>> prepared = prepare_examples(
        ...     "a.txt", "prepared", preset, sequence_length=32, held_out=0.2)
        >>> config = PretrainingConfig(
        ...     data="prepared", output="run", preset=preset, steps=2, batch_size=4)
        >>> scores = pretrain(config, verbose=0)
        >>> Path("run/preset/config.json").exists()
        True
    """
    with RunFolder.at(config.output) as folder:
        folder.check_unfinished()
        stop = StopSignals()
        with (
            stop.while_connected(
                partial(choose_devices, config.distribution)
            ) as devices,
            # Other processes of the same run do not write.
            folder.locked() if devices.is_chief else nullcontext(),
        ):
            return _pretrain(config, folder, devices, stop, verbose)


_SAME = (
    "Start the same command on all hosts, with copies of the same data, and an output "
    "directory that all of them see."
)


def _pretrain(
    config: PretrainingConfig,
    folder: RunFolder,
    devices: OneDevice,
    stop: StopSignals,
    verbose: Any,
) -> dict[str, float]:
    # Another process may have finished the run before this one got the lock.
    folder.check_unfinished()
    same = {"versions": versions(), "settings": config.to_dict()}
    if devices.num_processes > 1:
        same["preset"] = content_of(config.preset)
    devices.check_same(same, _SAME)
    keras.utils.set_random_seed(config.seed)
    stages = devices.on_all(lambda: dataset.read_stages(config))
    devices.check_same(
        {"prepared data": [stage.data.metadata.to_json() for stage in stages]}, _SAME
    )
    data = stages[-1].data
    identity = config.to_dict() | {
        "training examples": len(data),
        "training tokens": data.num_tokens,
        "vocabulary": data.tokenizer.vocabulary_size(),
    }
    checkpoint = folder.open(identity, settings_that("changes"))
    length = max(stage.sequence_length for stage in stages)
    with devices.scope(), stop:
        recorder = PretrainingRecorder(config, folder, devices, stop, identity)
        done = 0 if checkpoint is None else checkpoint.step
        devices.check_same({"output": done}, _SAME)
        task: Any = None
        for stage in stages:
            if stage.end <= done and stage is not stages[-1]:
                continue
            before, task = task, build_pretrainer(stage.config, data.tokenizer, length)
            if config.preset is not None and before is None and checkpoint is None:
                load_starting_weights(task, config.preset)
            # The rate and the other settings of updates belong to the whole run.
            compile_pretrainer(task, config)
            batches = stage.batches()
            first = partial(batches.batch, 0, devices.shard, devices.num_shards)
            devices.prepare(task, devices.on_all(first))
            if before is None:
                recorder.start(checkpoint, task)
            else:
                recorder.copy_state_to(before, task)
            held_out = stage.held_out()
            recorder.start_stage(stage)
            _fit(task, config, stage, batches, held_out, recorder, verbose)
        last = stages[-1].config
        scores = judge_best(task, last, recorder, held_out)
        weights = devices.values(task.weights)
    # Outside the scope, as a single process builds the finished model.
    devices.on_chief(
        lambda: finish_run(task, weights, scores, config, recorder, data, held_out)
    )
    return scores


def _fit(
    task: AlbertTask,
    config: PretrainingConfig,
    stage: dataset.Stage,
    batches: dataset.PretrainingBatches,
    held_out: dataset.HeldOut,
    recorder: PretrainingRecorder,
    verbose: Any,
) -> None:
    devices = recorder.devices
    if stage.config.min_layers is not None:
        depths = range(stage.config.min_layers, task.backbone.num_layers + 1)
        parts = config.accumulation_steps
        train_at_depths(
            task, depths, lambda: draw_depth(stage.config, recorder.done // parts)
        )
    row, every = recorder.batches_per_row, config.evaluate_every // config.log_every
    last = math.ceil(stage.end / row)

    def read(step: int) -> Batch:
        return batches.batch(step - stage.start, devices.shard, devices.num_shards)

    resumable_fit(
        *(task, recorder, read),
        until=stage.end,
        validation_data=held_out.arrays,
        validation_batch_size=stage.config.micro_batch_size,
        validation_freq=[*range(every, last, every), last],
        verbose=verbose if devices.is_chief else 0,
    )
