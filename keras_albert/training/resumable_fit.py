"""Keras' `fit` for runs that can be resumed."""

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
    """Train to the end, from the position of the recorder.

    Args:
        task: The compiled model.
        recorder: `TrainingRecorder`, after its `begin`.
        read: Callable from the number of a batch, counted over the whole run, to the
            batch, which is always the same one.
        until: int or `None`. The number of batches to stop at, which ends a row.
            Defaults to `None`, the whole run.
        **kwargs: Other arguments of `keras.Model.fit`, such as `validation_data`.
    """
    row = recorder.batches_per_row
    total = recorder.num_batches if until is None else until
    # All epochs of a call have the same length: a shorter one, at either end, takes a
    # separate call.
    while recorder.done < total:
        epoch, within = divmod(recorder.done, row)
        steps = min(row - within, total - recorder.done)
        whole = (total - recorder.done) // row if not within else 0
        with PrefetchedBatches(read, recorder.done) as prefetched:
            # Not the task's `fit`, which reads and checks users' data.
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
