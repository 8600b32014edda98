"""Plan pretraining on 1 TB of text from what is measured on some of it.

    python benchmarks/terabyte.py VOCABULARY "texts/*.gz"

Prepares the texts in one process, and reads batches as one of 64 processes, from as
many files as 1 TB has, which repeat a few examples as if they had all. Prints what was
measured, and the plan that follows from it, for one epoch in batches of 4,096 rows of
512 tokens. Not measured are the speeds: of a TPU,
they are the cycles that `tpu_compile.py --chips v5e:16x16 --batch 4096` prints
(`--cycles`), of a GPU a share of the data sheet's rate (`--utilisation`).
"""

import argparse
import glob
import gzip
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from keras_albert.cli.loading import import_without_tensorflow

if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
    # As `keras-albert pretrain` does.
    import_without_tensorflow()

from keras_albert.pretraining import PretrainingData, prepared_files
from keras_albert.pretraining.prepare.pipeline import PART_SIZE, prepare_examples
from keras_albert.pretraining.prepared_files import (
    VOCABULARY_FILE,
    Example,
    ExampleFile,
    ExampleWriter,
    PreparedMetadata,
    shard_name,
)
from keras_albert.types import IntArray

TERA = 1e12
LENGTH = 512
BATCH = 4096
# Of the files that stand for those of 1 TB: their examples, and record batches, of
# which a file of 64 MiB of text has as many.
FEW, RECORD_BATCHES = 18, 9


@dataclass(frozen=True)
class Measured:
    """What some text cost; seconds are of one core."""

    text_bytes: float
    prepare_seconds: float
    tokens: float
    examples: float
    stored_bytes: float


@dataclass(frozen=True)
class Reading:
    """What one of 64 processes needs to read its rows; seconds are of one core."""

    open_seconds: float
    # Of the whole process: before it opens the data, and at most.
    megabytes_before: float
    megabytes: float
    # Of the first rows, each from a file that was not read before, and of the others.
    first_rows_per_second: float
    rows_per_second: float


@dataclass(frozen=True)
class Machine:
    """Processors that train together; operations a second are of the data sheet."""

    name: str
    processors: int
    processes: int
    operations: float


# https://docs.cloud.google.com/tpu/docs/v5e: 32 hosts of 8 chips, each with four units
# of 128 x 128 multiplications a cycle.
TPU = Machine("TPU v5e-256", 256, 32, 197e12)
TPU_OPERATIONS_A_CYCLE = 4 * 128**2 * 2
# SXM, without sparsity.
GPU = Machine("64 H100", 64, 64, 989e12)


@dataclass(frozen=True)
class Plan:
    """One epoch of 1 TB on a machine."""

    steps: float
    hours: float
    # Of one process.
    rows_per_second: float
    reading_share: float
    processor_hours: float


def plan(
    measured: Measured, rows_per_second: float, machine: Machine, seconds: float
) -> Plan:
    """Compute the plan; `seconds` are those of an update."""
    steps = TERA / measured.text_bytes * measured.examples / BATCH
    hours = steps * seconds / 3600
    own = BATCH / seconds / machine.processes
    share = own / rows_per_second
    return Plan(steps, hours, own, share, hours * machine.processors)


def measure_preparation(inputs: list[str], vocabulary: str, output: Path) -> Measured:
    text_bytes = 0
    for path in inputs:
        opened = gzip.open if path.endswith(".gz") else open
        with opened(path, "rb") as file:
            while block := file.read(2**24):
                text_bytes += len(block)
    start = time.process_time()
    metadata = prepare_examples(inputs, output, vocabulary, LENGTH, held_out=0.0)
    seconds = time.process_time() - start
    counters = metadata.counters
    stored = sum(facts["bytes"] for facts in metadata.files.values())
    examples = counters["examples: train"]
    return Measured(text_bytes, seconds, counters["tokens"], examples, stored)


def write_files(prepared: Path, output: Path, count: int) -> None:
    """Write as many files as 1 TB has, with a few of the examples each."""
    prepared_files.BATCH_ROWS = FEW // RECORD_BATCHES
    metadata = PreparedMetadata.read(prepared)
    first = metadata.shards["train"][0]
    source = ExampleFile(str(prepared / first), metadata.files[first])
    pairs = [source.segments(row) for row in range(FEW)]
    examples = [
        Example(np.concatenate([a, b]), len(a), n) for n, (a, b) in enumerate(pairs)
    ]
    names, files = [shard_name("train", f"{n:016x}") for n in range(count)], {}
    output.mkdir()
    for name in names:
        with (output / name).open("wb") as stream:
            writer = ExampleWriter(stream, metadata.vocabulary_size, name)
            for example in examples:
                writer.add(example)
            writer.close()
            files[name] = writer.facts
    shards = {"train": names, "held_out": []}
    found = replace(metadata, shards=shards, files=files)
    (output / "metadata.json").write_text(found.to_json(), encoding="utf-8")
    content = (prepared / VOCABULARY_FILE).read_bytes()
    (output / VOCABULARY_FILE).write_bytes(content)


class LongFile(ExampleFile):
    """A file whose examples are repeated `repeats` times."""

    repeats = 1

    def __len__(self) -> int:
        return super().__len__() * self.repeats

    def segments(self, row: int) -> tuple[IntArray, IntArray]:
        return super().segments(row // self.repeats)


def peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def measure_reading(directory: str, steps: int, repeats: int) -> Reading:
    """Open the data and read as one of 64 processes."""
    LongFile.repeats = repeats
    prepared_files.ExampleFile = LongFile
    before, start = peak_megabytes(), time.process_time()
    data = PretrainingData(directory)
    batches = data.batches(BATCH)
    opened = time.process_time() - start
    own, rates = BATCH // 64, []
    for numbers in (range(steps // 8), range(steps // 8, steps)):
        start = time.process_time()
        for step in numbers:
            batches.batch(step, 7, 64)
        rates.append(len(numbers) * own / (time.process_time() - start))
    print(f"{len(data):,} examples, of which {steps * own:,} were read\n")
    return Reading(opened, before, peak_megabytes(), *rates)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocabulary")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--files", type=int, help="default: one for 64 MiB of 1 TB")
    parser.add_argument("--steps", type=int, default=1280)
    parser.add_argument("--utilisation", type=float, default=0.35)
    parser.add_argument(
        "--cycles", type=float, nargs=2, help="millions: of base, of xxlarge"
    )
    parser.add_argument(
        "--prices", type=float, nargs=2, help="an hour of a TPU v5e chip, of an H100"
    )
    arguments = parser.parse_args()
    inputs = sorted(path for each in arguments.inputs for path in glob.glob(each))
    count = arguments.files or -(-int(TERA) // PART_SIZE)
    with tempfile.TemporaryDirectory() as folder:
        prepared, many = Path(folder, "prepared"), Path(folder, "many")
        measured = measure_preparation(inputs, arguments.vocabulary, prepared)
        write_files(prepared, many, count)
        examples = TERA / measured.text_bytes * measured.examples
        repeats = round(examples / count / FEW)
        # Its memory is that of reading.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            reading = pool.apply(measure_reading, (str(many), arguments.steps, repeats))
    show_measured(measured, reading, count)
    show_plans(measured, reading, arguments)


def show_measured(measured: Measured, reading: Reading, files: int) -> None:
    scale = TERA / measured.text_bytes
    speed = measured.text_bytes / measured.prepare_seconds / 1e6
    print("| figure | measured | 1 TB |\n|---|---|---|")
    print(f"| text | {measured.text_bytes / 1e6:.0f} MB | 1 TB |")
    print(
        f"| tokens | {measured.tokens / 1e6:.1f} million, "
        f"{measured.text_bytes / measured.tokens:.2f} bytes each "
        f"| {scale * measured.tokens / 1e9:.0f} billion |"
    )
    print(
        f"| rows of {LENGTH} | {measured.examples:,.0f} "
        f"| {scale * measured.examples / 1e6:.0f} million |"
    )
    print(
        f"| prepared data | {measured.stored_bytes / 1e6:.0f} MB, "
        f"{measured.stored_bytes / measured.tokens:.2f} bytes a token "
        f"| {scale * measured.stored_bytes / TERA:.2f} TB in {files:,} files |"
    )
    print(
        f"| `prepare` | {speed:.2f} MB a second of a core "
        f"| {TERA / 1e6 / speed / 3600:.0f} hours of a core |"
    )
    print(
        f"| opening the data in a process | {files:,} files: "
        f"{reading.open_seconds:.1f} s | the same |"
    )
    print(
        f"| memory of the process | {reading.megabytes:.0f} MB at most, "
        f"{reading.megabytes_before:.0f} MB before it opens the data | the same |"
    )
    print(
        f"| reading, one of 64 processes, each row from another file "
        f"| {reading.rows_per_second:,.0f} rows a second of a core, at first "
        f"{reading.first_rows_per_second:,.0f} | the same |"
    )


def show_plans(
    measured: Measured, reading: Reading, arguments: argparse.Namespace
) -> None:
    from throughput import VOCABULARY_SIZE, step_operations

    from keras_albert.backbone import MODEL_SIZES

    print(
        "\n| machine, model | rows a processor | share of its rate | s an update "
        "| hours | rows a second of a process | share of a core | processor hours "
        "| cost |\n|---|---|---|---|---|---|---|---|---|"
    )
    prices = arguments.prices or (None, None)
    for machine, price in zip((TPU, GPU), prices, strict=True):
        cycles = (machine is TPU and arguments.cycles) or (None, None)
        for size, millions in zip(("base", "xxlarge"), cycles, strict=True):
            config = {"num_inner_repetitions": 1, "vocabulary_size": VOCABULARY_SIZE}
            operations = BATCH * step_operations(config | MODEL_SIZES[size], LENGTH)
            fastest = operations / machine.processors / machine.operations
            if millions is None:
                seconds = fastest / arguments.utilisation
            else:
                seconds = millions * 1e6 * TPU_OPERATIONS_A_CYCLE / machine.operations
            found = plan(measured, reading.rows_per_second, machine, seconds)
            cost = "" if price is None else f"${found.processor_hours * price:,.0f}"
            print(
                f"| {machine.name}, {size} | {BATCH // machine.processors} "
                f"| {fastest / seconds:.0%} | {seconds:.3f} | {found.hours:.1f} "
                f"| {found.rows_per_second:,.0f} | {found.reading_share:.1%} "
                f"| {found.processor_hours:,.0f} | {cost} |"
            )


if __name__ == "__main__":
    main()
