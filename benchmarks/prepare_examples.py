"""Measure the speed and memory of preparing pretraining data.

    python benchmarks/prepare_examples.py VOCABULARY FILE_OR_GLOB ...

Writes to a temporary directory, in one process or several, and prints tokens per second
and the peak memory of a process, before and after. Memory should be the same for a
small and a large corpus.
"""

import argparse
import resource
import tempfile
import time

from keras_albert.pretraining.prepare.pipeline import prepare_examples


def megabytes(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocabulary")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--sequence-length", type=int, default=512)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    options = None
    if arguments.workers > 1:
        options = {
            "direct_num_workers": arguments.workers,
            "direct_running_mode": "multi_processing",
        }
    before = megabytes(resource.RUSAGE_SELF)
    start, work = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as output:
        metadata = prepare_examples(
            arguments.inputs,
            output,
            arguments.vocabulary,
            sequence_length=arguments.sequence_length,
            pipeline_options=options,
        )
    seconds = time.perf_counter() - start
    work = time.process_time() - work
    for name, count in metadata.counters.items():
        print(f"{name:<45} {count:>12,}")
    tokens = metadata.counters["tokens"]
    print(f"{seconds:.1f} s, {tokens / seconds / 1e6:.2f} million tokens/s")
    if arguments.workers == 1:
        print(f"{work:.1f} s of work, {tokens / work / 1e6:.2f} million tokens/s")
    after = megabytes(resource.RUSAGE_SELF)
    workers = megabytes(resource.RUSAGE_CHILDREN)
    print(f"memory: {before:.0f} MB at the start, {after:.0f} MB at most")
    if arguments.workers > 1:
        print(f"a worker: {workers:.0f} MB at most")


if __name__ == "__main__":
    main()
