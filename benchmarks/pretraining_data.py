"""Measure the speed of making masked batches from prepared data, on one core.

    OMP_NUM_THREADS=1 python benchmarks/pretraining_data.py PREPARED

Reads random examples from the shards, swaps, packs and masks them, and prints tokens
per second without padding: for each second task, for the share of one of 4 and of 64
processes, and with `tf.data` if TensorFlow is installed.
"""

import argparse
import importlib.util
import time
from collections.abc import Iterable

from keras_albert.pretraining import PretrainingData


def measure(name: str, batches: Iterable) -> None:
    iterator = iter(batches)
    next(iterator)
    tokens = 0
    start, work = time.perf_counter(), time.process_time()
    for x, _, _ in iterator:
        tokens += int(x["padding_mask"].sum())
    seconds, work = time.perf_counter() - start, time.process_time() - work
    print(
        f"{name:<34} {tokens / seconds / 1e6:6.2f} million tokens/s, "
        f"{tokens / work / 1e6:.2f} a second of work",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    steps = range(arguments.steps)
    for task in ("sentence_order", "next_sentence", None):
        data = PretrainingData(arguments.directory, second_task=task)
        batches = data.batches(arguments.batch_size)
        measure(str(task), map(batches.batch, steps))
    data = PretrainingData(arguments.directory)
    batches = data.batches(arguments.batch_size)
    for count in (4, 64):
        parts = (batches.batch(step, 0, count) for step in steps)
        measure(f"one of {count} processes", parts)
    if importlib.util.find_spec("tensorflow") is not None:
        dataset = batches.tf_dataset(stop=arguments.steps)
        measure("tf.data", dataset.as_numpy_iterator())


if __name__ == "__main__":
    main()
