"""Which examples form a batch, and how long its rows are."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import keras
import numpy as np
from keras import ops

from keras_albert.types import Int64Array

# Number of batches that are sorted by length together during training: enough that
# the rows of a batch have nearly the same length, few enough for a good shuffle.
_BATCHES_A_POOL = 64


def default_length_buckets(max_length: int) -> tuple[int, ...]:
    """Return the default lengths that batches are padded to."""
    # JAX compiles each shape, so there are two lengths for each power of two, from 8
    # on. On a GPU matrix units prefer multiples of 8. On a CPU TensorFlow needs none,
    # and PyTorch 16 for each power: oneDNN's kernel for a number of tokens has 0.5 MB.
    backend = keras.config.backend()
    if backend != "jax" and not _is_on_cpu():
        return (*range(8, max_length, 8), max_length)
    if backend == "tensorflow":
        return tuple(range(1, max_length + 1))
    least, parts = (8, 2) if backend == "jax" else (1, 16)

    def step(length: int) -> int:
        power = 1 << (length.bit_length() - 1)
        return max(1, power // parts)

    lengths = (n for n in range(least, max_length) if n % step(n) == 0)
    return (*lengths, max_length)


@cache
def _is_on_cpu() -> bool:
    """Return whether the backend, TensorFlow or PyTorch, finds no GPU."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        return not tf.config.list_physical_devices("GPU")
    return bool(ops.convert_to_tensor(0).device.type == "cpu")


@cache
def all_buckets(max_length: int, lengths: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the lengths that batches are padded to, rising."""
    if lengths is None:
        return default_length_buckets(max_length)
    return (*(length for length in lengths if length < max_length), max_length)


def bucket_length(length: int, buckets: Sequence[int]) -> int:
    """Return the smallest of the rising `buckets` that fits `length`."""
    return buckets[bisect_left(buckets, length)]


def plan_batches(
    lengths: Int64Array, batch_size: int, generator: np.random.Generator | None = None
) -> list[Int64Array]:
    """Group examples of similar length into batches; the last may be smaller."""
    # Without a generator the longest are first, to allocate the memory of the whole
    # run. With one, examples are sorted in pools of 64 batches, which are shuffled.

    def cut(order: Int64Array, size: int) -> list[Int64Array]:
        return [order[i : i + size] for i in range(0, len(order), size)]

    if generator is None:
        return cut(np.argsort(-lengths, kind="stable"), batch_size)
    shuffled = generator.permutation(len(lengths))
    batches: list[Int64Array] = []
    for pool in cut(shuffled, _BATCHES_A_POOL * batch_size):
        in_order = pool[np.argsort(-lengths[pool], kind="stable")]
        batches += cut(in_order, batch_size)
    return [batches[i] for i in generator.permutation(len(batches))]
