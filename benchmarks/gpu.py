r"""Run pretraining and benchmarks on a GPU, in calls of some minutes each.

    keras-albert prepare "texts/*.gz" --vocabulary-size 20000 --output prepared
    python benchmarks/gpu.py pack prepared --output packed --megabytes 50

On the GPU machine, with only `packed` and this repository:

    export KERAS_BACKEND=jax
    python benchmarks/gpu.py pretrain packed --minutes 9 --output results \
        -- --config examples/albert_tiny_gpu.toml --precision mixed_bfloat16
    python benchmarks/gpu.py throughput --minutes 9 --output results
    python benchmarks/gpu.py memory --minutes 9 --output results
    python benchmarks/gpu.py latency --minutes 9 --output results

`pack` compresses prepared examples to about one byte per token; shards that do not fit
are omitted. `pretrain` runs `keras-albert pretrain` with the arguments after `--`. At
the end of its time it writes a checkpoint, and copies the run to `results` in parts of
at most 16 MiB. The same command resumes from these parts, also on another machine. When
the run is complete, they contain the preset: `cat results/run.tar.* | tar -x`. The
other commands run `throughput.py`, `step_memory.py` and `prediction.py` (with one text)
on PyTorch and JAX; arguments after `--` replace their settings.
"""

import argparse
import dataclasses
import io
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from keras_albert.pretraining.prepared_files import (
    METADATA_FILE,
    VOCABULARY_FILE,
    Example,
    ExampleFile,
    ExampleWriter,
    PreparedMetadata,
)
from keras_albert.training.run_folder import RunFolder

ROOT = Path(__file__).parents[1]
MEGABYTE = 10**6
PART_BYTES = 16 * 2**20
PARTS = "run.tar.*"
# For token ids, which have two bytes.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 3, "lp": 1, "pb": 1}]
BENCHMARKS = {
    "throughput": ("throughput", ["--sizes", "tiny", "base", "large"]),
    "memory": ("step_memory", ["--sizes", "base", "large"]),
    "latency": ("prediction", ["--size", "base", "--examples", "1"]),
}
# After SIGTERM a run evaluates and writes a checkpoint.
SECONDS_TO_END = 60


def pack(prepared: Path, output: Path, megabytes: float) -> list[str]:
    """Compress as many shards of prepared data as fit, the validation set first.

    Returns:
        The shards that do not fit.
    """
    output.mkdir(parents=True)
    metadata = PreparedMetadata.read(prepared)
    shutil.copy(prepared / VOCABULARY_FILE, output)
    room = megabytes * MEGABYTE - (output / VOCABULARY_FILE).stat().st_size
    kept: dict[str, list[str]] = {split: [] for split in metadata.shards}
    left_out = []
    for split in sorted(kept):
        for name in metadata.shards[split]:
            packed = pack_shard(prepared / name, metadata.files[name])
            if len(packed) > room:
                left_out.append(name)
                continue
            (output / f"{name}.xz").write_bytes(packed)
            room -= len(packed)
            kept[split].append(name)
    found = dataclasses.replace(metadata, shards=kept)
    (output / METADATA_FILE).write_text(found.to_json(), encoding="utf-8")
    return left_out


def pack_shard(path: Path, facts: dict[str, int]) -> bytes:
    shard = ExampleFile(str(path), facts)
    pairs = [shard.segments(row) for row in range(len(shard))]
    stream = io.BytesIO()
    np.savez(
        stream,
        token_ids=np.concatenate([ids for pair in pairs for ids in pair]),
        lengths=np.array([[len(ids) for ids in pair] for pair in pairs], "uint16"),
        documents=shard.documents,
    )
    return lzma.compress(stream.getvalue(), filters=FILTERS)


def unpack(packed: Path, prepared: Path) -> None:
    """Restore the shards; the metadata is written last, to mark them as complete."""
    prepared.mkdir(parents=True, exist_ok=True)
    metadata = PreparedMetadata.read(packed)
    for name in [name for names in metadata.shards.values() for name in names]:
        data = lzma.decompress((packed / f"{name}.xz").read_bytes())
        arrays = np.load(io.BytesIO(data))
        ends = arrays["lengths"].sum(axis=1, dtype="int64").cumsum()
        examples = zip(
            np.split(arrays["token_ids"], ends[:-1]),
            arrays["lengths"][:, 0].tolist(),
            arrays["documents"].tolist(),
            strict=True,
        )
        with (prepared / name).open("wb") as stream:
            writer = ExampleWriter(stream, metadata.vocabulary_size, name)
            for example in examples:
                writer.add(Example(*example))
            writer.close()
    shutil.copy(packed / VOCABULARY_FILE, prepared)
    shutil.copy(packed / METADATA_FILE, prepared)


def give_back(run: Path, output: Path, part_bytes: int = PART_BYTES) -> None:
    """Write a run in parts, with its checkpoints only if it is not finished."""
    for part in output.glob(PARTS):
        part.unlink()
    folder = RunFolder(run)
    skipped = folder.training if folder.preset.exists() else None
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(run.iterdir()):
            if path != skipped:
                archive.add(path, f"run/{path.name}")
    data = stream.getvalue()
    for number, start in enumerate(range(0, len(data), part_bytes)):
        part = output / f"run.tar.{number:02d}"
        part.write_bytes(data[start : start + part_bytes])


def take(output: Path, work: Path) -> None:
    """Extract the parts of a run, if there are any."""
    data = b"".join(part.read_bytes() for part in sorted(output.glob(PARTS)))
    if data:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(work, filter="data")


def pretrain(
    packed: Path, output: Path, work: Path, seconds: float, words: list[str]
) -> None:
    prepared, run = work / "prepared", work / "run"
    if not (prepared / METADATA_FILE).exists():
        unpack(packed, prepared)
    if not run.exists():
        take(output, work)
    places = ["--data", str(prepared), "--output", str(run)]
    command = [sys.executable, "-m", "keras_albert", "pretrain", *places]
    with subprocess.Popen([*command, "--quiet", *words]) as process:
        status = wait(process, seconds)
    if run.exists():
        give_back(run, output)
    if status:
        raise SystemExit(status)


def wait(process: subprocess.Popen[bytes], seconds: float) -> int:
    """Wait for a process; terminate it after `seconds`, which is not an error."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
    return 0


def measure(name: str, output: Path, seconds: float, words: list[str]) -> None:
    """Run a benchmark, which writes each result as soon as it is available."""
    benchmark, usual = BENCHMARKS[name]
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, "-m", "benchmarks", benchmark]
    command += ["--backends", "torch", "jax", "--", *(words or usual)]
    command += ["--output", str(output.resolve())]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        status = wait(process, seconds)
    if status:
        raise SystemExit(status)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="compress prepared examples")
    packing.add_argument("prepared", type=Path)
    packing.add_argument("--megabytes", type=float, default=50)
    training = commands.add_parser("pretrain", help="pretrain, or go on with it")
    training.add_argument("packed", type=Path)
    training.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "keras_albert_gpu",
        help="kept from call to call, if the machine is",
    )
    timed = [training, *(commands.add_parser(name) for name in BENCHMARKS)]
    for each in timed:
        each.add_argument("--minutes", type=float, default=9)
    for each in (packing, *timed):
        each.add_argument("--output", type=Path, required=True, help="a folder")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:cut])
    behind, output = words[cut + 1 :], arguments.output
    if arguments.command == "pack":
        left_out = pack(arguments.prepared, output, arguments.megabytes)
        print(f"{output}; left out: {', '.join(left_out) or 'nothing'}")
        return
    output.mkdir(parents=True, exist_ok=True)
    seconds = 60 * arguments.minutes
    if arguments.command == "pretrain":
        pretrain(arguments.packed, output, arguments.work, seconds, behind)
    else:
        measure(arguments.command, output, seconds, behind)


if __name__ == "__main__":
    main()
