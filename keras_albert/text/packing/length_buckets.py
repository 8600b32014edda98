"""Batches of examples of like length, padded to one of a few lengths."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from itertools import count, takewhile

import keras
import numpy as np
from keras import ops

from keras_albert.types import Int64Array

# Batches that are sorted among themselves while training: enough that a batch is
# of nearly one length, few enough that an epoch stays well shuffled.
_BATCHES_A_POOL = 64


def default_length_buckets(max_length: int) -> tuple[int, ...]:
    """Choose the lengths that batches are padded to.

    On JAX, which compiles each shape: powers of two and the points halfway between
    them, from 8 on. Padding wastes at most a third, in a dozen shapes instead of
    hundreds. On TensorFlow and PyTorch, where another length costs nothing: each
    length on a CPU, each multiple of 8 on a GPU, whose matrix units like it.

    Args:
        max_length: int. The longest row; it is always one of the buckets.

    Returns:
        The lengths, rising.

    Example:
        >>> default_length_buckets(100)[-1]
        100
    """
    if keras.backend.backend() != "jax":
        step = 1 if _is_on_cpu() else 8
        return (*range(step, max_length, step), max_length)
    powers = takewhile(lambda power: power < max_length, (8 << n for n in count()))
    buckets = (length for power in powers for length in (power, power * 3 // 2))
    return (*(length for length in buckets if length < max_length), max_length)


@cache
def _is_on_cpu() -> bool:
    """Say whether TensorFlow or PyTorch, whichever is the backend, finds no GPU."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        return not tf.config.list_physical_devices("GPU")
    return bool(ops.convert_to_tensor(0).device.type == "cpu")


def bucket_length(length: int, buckets: Sequence[int]) -> int:
    """Find the bucket of a length.

    Args:
        length: int. At most the last bucket.
        buckets: Rising lengths.

    Returns:
        The smallest bucket that holds `length`.
    """
    return buckets[bisect_left(buckets, length)]


def plan_batches(
    lengths: Int64Array, batch_size: int, generator: np.random.Generator | None = None
) -> list[Int64Array]:
    """Group examples of like length into batches.

    Without a generator all examples are sorted, longest first, so that the memory
    of the whole run is claimed by the first batch. With one, they are shuffled,
    sorted within pools of 64 batches, and the batches are shuffled. Only one batch
    is ever smaller than `batch_size`.

    Args:
        lengths: int64 array `(examples,)`.
        batch_size: int. Examples in a batch.
        generator: `np.random.Generator` or `None`. Defaults to `None`.

    Returns:
        Arrays of example numbers; together they hold each number once.

    Example:
        >>> [batch.tolist() for batch in plan_batches(np.array([3, 9, 4, 8]), 2)]
        [[1, 3], [2, 0]]
    """
    if generator is None:
        order = np.argsort(-lengths, kind="stable")
        return _cut(order, batch_size)
    shuffled = generator.permutation(len(lengths))
    batches: list[Int64Array] = []
    for pool in _cut(shuffled, _BATCHES_A_POOL * batch_size):
        in_order = pool[np.argsort(-lengths[pool], kind="stable")]
        batches += _cut(in_order, batch_size)
    return [batches[i] for i in generator.permutation(len(batches))]


def _cut(order: Int64Array, size: int) -> list[Int64Array]:
    return [order[i : i + size] for i in range(0, len(order), size)]
