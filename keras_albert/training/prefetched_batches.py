"""Batches that are prepared while the model trains on earlier ones."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from keras_albert.types import Batch

# The number of batches prepared in advance.
_AHEAD = 4


class PrefetchedBatches:
    """An endless iterator of batches, which a thread prepares in order.

    Args:
        read: Callable from the number of a batch to the batch.
        first: int. The first number.

    Example:
        >>> from keras_albert.training.prefetched_batches import PrefetchedBatches
        >>> with PrefetchedBatches(lambda number: number**2, first=3) as batches:
        ...     next(batches), next(batches)
        (9, 16)
    """

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
