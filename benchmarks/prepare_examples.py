"""Measure the speed and memory of preparing pretraining data, on Linux.

    python benchmarks/prepare_examples.py VOCABULARY FILE_OR_GLOB ... --workers 2

Writes to a temporary directory, in one process or several, and prints megabytes of
text per second, and the peak memory of a process, before and after. Memory should be
the same for a small and a large corpus. First, a process imports what a worker does.
"""

import argparse
import glob
import gzip
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from keras_albert.pretraining.prepare.pipeline import in_worker, prepare_examples

START = """
import apache_beam.runners.worker.sdk_worker_main
from apache_beam.internal import pickler

pickler.loads({call!r})()
print(open("/proc/self/status").read())
"""


def peak_megabytes(status: str) -> float:
    return int(status.split("VmHWM:")[1].split(maxsplit=1)[0]) / 1000


def seconds_of_work() -> float:
    """Of this process, and of those that it started and that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_start() -> None:
    """Print what a worker needs before its first part."""
    from apache_beam.internal import pickler

    code = START.format(call=pickler.dumps(in_worker("path_in", "a", "b")))
    start, before = time.perf_counter(), seconds_of_work()
    status = subprocess.check_output([sys.executable, "-c", code], text=True)
    seconds = time.perf_counter() - start
    work = seconds_of_work() - before
    megabytes = peak_megabytes(status)
    print(
        f"a worker starts in {seconds:.1f} s, {work:.1f} s of work, {megabytes:.0f} MB"
    )


def watch(workers: dict[str, float], ended: threading.Event) -> None:
    """Note the peak memory of the processes that this one starts, and so on."""
    while not ended.wait(0.2):
        pending = ["self"]
        while pending:
            folder = Path("/proc", pending.pop())
            with suppress(OSError, IndexError):
                for path in folder.glob("task/*/children"):
                    pending += path.read_text().split()
                if folder.name != "self":
                    status = (folder / "status").read_text()
                    workers[folder.name] = peak_megabytes(status)


def count_bytes(paths: list[str]) -> int:
    total = 0
    for path in paths:
        opened = gzip.open if path.endswith(".gz") else open
        with opened(path, "rb") as file:
            while block := file.read(2**24):
                total += len(block)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocabulary")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--sequence-length", type=int, default=512)
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    measure_start()
    inputs = sorted(path for each in arguments.inputs for path in glob.glob(each))
    megabytes = count_bytes(inputs) / 1e6
    options = None
    if arguments.workers > 1:
        options = {
            "direct_num_workers": arguments.workers,
            "direct_running_mode": "multi_processing",
        }
    own, workers, ended = Path("/proc/self/status"), {}, threading.Event()
    before = peak_megabytes(own.read_text())
    watching = threading.Thread(target=watch, args=(workers, ended))
    watching.start()
    start, work = time.perf_counter(), seconds_of_work()
    with tempfile.TemporaryDirectory() as output:
        metadata = prepare_examples(
            inputs,
            output,
            arguments.vocabulary,
            sequence_length=arguments.sequence_length,
            pipeline_options=options,
        )
    seconds = time.perf_counter() - start
    work = seconds_of_work() - work
    ended.set()
    watching.join()
    for name, count in metadata.counters.items():
        print(f"{name:<45} {count:>12,}")
    tokens = metadata.counters["tokens"]
    print(
        f"{megabytes:.0f} MB in {seconds:.1f} s, {megabytes / seconds:.2f} MB/s, "
        f"{tokens / seconds / 1e6:.2f} million tokens/s"
    )
    # Of all processes, with the start of workers.
    print(f"{work:.1f} s of work, {megabytes / work:.2f} MB a second of a core")
    after = peak_megabytes(own.read_text())
    print(f"memory: {before:.0f} MB at the start, {after:.0f} MB at most")
    if workers:
        print(f"a worker: {max(workers.values()):.0f} MB at most")


if __name__ == "__main__":
    main()
