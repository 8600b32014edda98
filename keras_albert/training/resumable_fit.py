"""Keras' `fit` for runs that can be resumed."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

import keras

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

    `read` returns the batch of a number, counted over the whole run, always the same
    one; `until` ends a row.
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


# The number of batches prepared in advance.
_AHEAD = 4


class PrefetchedBatches:
    """An endless iterator of batches, which a thread prepares in order."""

    def __init__(self, read: Callable[[int], Batch], first: int) -> None:
        self._read = read
        self._next = first
        self._pool = ThreadPoolExecutor(1, "batches")
        self._pending: deque[Future[Batch]] = deque()
        self._closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            # A thread of the backend may request one more batch.
            raise StopIteration
        while len(self._pending) < _AHEAD:
            self._pending.append(self._pool.submit(self._read, self._next))
            self._next += 1
        return self._pending.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
