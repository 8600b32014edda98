"""The training of `finetune`."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rich.console import Console

from keras_albert.commands.finetune.tasks import Data, Kind
from keras_albert.tasks.inputs.length_batches import LengthBatches
from keras_albert.tasks.inputs.model_input import read_model_input
from keras_albert.tasks.optimizers.default_optimizer import (
    default_learning_rate,
    default_optimizer,
)
from keras_albert.tasks.recipes import recipe
from keras_albert.training.one_device import OneDevice
from keras_albert.training.resumable_fit import resumable_fit
from keras_albert.training.run_folder import RunFolder
from keras_albert.training.training_checkpoint import TrainingCheckpoint
from keras_albert.training.training_recorder import StopSignals, TrainingRecorder
from keras_albert.types import Batch

_BATCH_SIZE = 32
_EPOCHS = 3

# Epochs may last hours.
_SECONDS_PER_CHECKPOINT = 300.0


def train_task(
    kind: Kind,
    task: Any,
    train: Data,
    dev: Data,
    arguments: argparse.Namespace,
    folder: RunFolder,
    identity: dict[str, Any],
    checkpoint: TrainingCheckpoint | None,
    console: Console,
) -> TrainingRecorder:
    """Train to the end, from the checkpoint if there is one."""
    width = task.backbone.hidden_dim
    how = None if arguments.recipe is None else recipe(arguments.recipe)
    batch_size = arguments.batch_size or (how.batch_size if how else _BATCH_SIZE)
    batches: Any
    _, batches = read_model_input(
        task,
        train.x,
        train.y,
        batch_size=batch_size,
        shuffle=True,
        purpose="training",
    )
    held_out, _ = read_model_input(task, dev.x, dev.y, batch_size=batch_size)
    epochs = arguments.epochs
    if epochs is None:
        epochs = how.epochs(len(batches.examples)) if how else _EPOCHS
    steps = epochs * len(batches)
    if how is not None:
        rate = arguments.learning_rate or how.for_width(width).learning_rate
        optimizer = replace(how, learning_rate=rate).optimizer(steps)
    else:
        rate = arguments.learning_rate or default_learning_rate(
            width, task.backbone.pretrained
        )
        optimizer = default_optimizer(rate, steps)
    task.compile(optimizer=optimizer)
    optimizer.build(task.trainable_variables)
    read = _reader(batches)
    with StopSignals() as stop:
        recorder = TrainingRecorder(
            folder,
            OneDevice(),
            stop,
            identity,
            seed=arguments.seed,
            num_batches=steps,
            batches_per_row=len(batches),
            batches_per_checkpoint=len(batches),
            seconds_per_checkpoint=_SECONDS_PER_CHECKPOINT,
            monitor=kind.monitor,
            remedy=f"Begin anew with a lower --learning-rate than {rate:g}, in another "
            "--output.",
        )
        recorder.devices.prepare(task, read(0))
        recorder.begin(checkpoint, task)
        if checkpoint is not None:
            console.print(
                f"going on after {len(recorder.rows)} epochs, at step "
                f"{recorder.done:,} of {steps:,}"
            )
        resumable_fit(
            task,
            recorder,
            read,
            validation_data=held_out,
        )
    return recorder


def _reader(batches: LengthBatches) -> Callable[[int], Batch]:
    """Return a function from the number of a batch in the run to the batch."""
    # A thread reads ahead, possibly into the next epoch.
    of_epoch = lru_cache(maxsize=2)(batches.of_epoch)

    def read(number: int) -> Batch:
        epoch, index = divmod(number, len(batches))
        return of_epoch(epoch)[index]

    return read
