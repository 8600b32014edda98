"""Batches of examples of similar length, padded to one of a few lengths."""

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
    """Return the default lengths that batches are padded to.

    JAX compiles a program for each shape, so the lengths are powers of two and the
    points halfway between them, starting at 8: a dozen shapes instead of hundreds, with
    at most a third of padding. On a GPU, TensorFlow and PyTorch pad to a multiple of 8,
    as its matrix units prefer. On a CPU, TensorFlow needs no padding, and PyTorch 16
    lengths from each power of two to the next: oneDNN compiles a kernel of half a
    megabyte for each number of tokens.
    """
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
    """Group examples of similar length into batches.

    Without a generator, all examples are sorted, longest first, so that the first
    batch allocates the memory of the whole run. With a generator, examples are
    shuffled and sorted within pools of 64 batches, and the batches are shuffled. At
    most one batch is smaller than `batch_size`.
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
