"""Keras' `fit`, from where a run was stopped."""

from collections.abc import Callable
from typing import Any

import keras

from keras_albert.training.prefetched_batches import PrefetchedBatches
from keras_albert.training.training_recorder import TrainingRecorder
from keras_albert.types import Batch


def resumable_fit(
    task: Any,
    recorder: TrainingRecorder,
    read: Callable[[int], Batch],
    until: int | None = None,
    **kwargs: Any,
) -> None:
    """Train to the end, from where the recorder stands.

    Args:
        task: The compiled model.
        recorder: `TrainingRecorder`, which has begun.
        read: Callable of the number of a batch, counted over the whole run. It
            returns the batch, always the same one.
        until: int or `None`. The number of batches to stop at, which ends a row.
            Defaults to `None`, all of the run.
        **kwargs: What else `keras.Model.fit` takes, for instance `validation_data`.
    """
    row = recorder.batches_per_row
    total = recorder.num_batches if until is None else until
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
                recorder.devices.batches(prefetched, read(recorder.done)),
                initial_epoch=epoch,
                epochs=epoch + max(1, whole),
                steps_per_epoch=steps,
                shuffle=False,
                callbacks=[recorder],
                **kwargs,
            )
