"""The settings and texts shared by all comparisons."""

import argparse
import csv
import gzip
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MESSAGES = Path(__file__).parents[1] / "examples" / "data" / "support_messages.tsv"
SIZES = ("tiny", "small", "base", "large", "xlarge", "xxlarge")
SEED = 0


@dataclass(frozen=True)
class TextTask:
    """Labelled texts.

    Args:
        name: string.
        train: The texts, or pairs of texts, and their labels.
        dev: The validation set, in the same form.
        num_classes: int. `1` if labels are scores.
    """

    name: str
    train: tuple[list, list]
    dev: tuple[list, list]
    num_classes: int

    def examples(self, part: str, count: int) -> tuple[list, list]:
        """Return the first examples of `"train"` or `"dev"`: texts and labels."""
        rows, labels = getattr(self, part)
        return rows[:count], labels[:count]


def parser(description: str) -> argparse.ArgumentParser:
    """Make a parser of the arguments common to all comparisons."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--size", default="base", choices=SIZES)
    made.add_argument("--repeats", type=int, default=5, help="measured rounds")
    made.add_argument(
        "--data", type=Path, help="real data; without it, the messages of examples/data"
    )
    made.add_argument("--output", type=Path, default=Path("runs/benchmarks"))
    made.add_argument("--threads", type=int, help="cores to run on; by default all")
    return made


def timing_parser(description: str) -> argparse.ArgumentParser:
    """Make a parser for comparisons that can also measure processor time."""
    made = parser(description)
    made.add_argument(
        "--clock",
        default="wall",
        choices=("wall", "cpu"),
        help="cpu: processor time of this process, for one core beside other jobs",
    )
    return made


def prepare(arguments: argparse.Namespace) -> None:
    """Limit this process and its children to a number of cores.

    It must be called before importing a backend, which counts the available cores.
    """
    if arguments.threads is None:
        return
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: arguments.threads]
        os.sched_setaffinity(0, cores)
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        os.environ[name] = str(arguments.threads)


def read_vocabulary(data: Path | None) -> bytes:
    """Return ALBERT's vocabulary, or one trained on the messages."""
    if data is not None:
        return (data / "albert_spm" / "spiece.model").read_bytes()
    from keras_albert.text import train_vocabulary

    return train_vocabulary(_messages().train[0], vocabulary_size=1000)


def read_tasks(data: Path | None, names: Sequence[str] | None = None) -> list[TextTask]:
    """Return the fine-tuning tasks: those of the real data, or the messages."""
    if data is None:
        return [_messages()]
    return [TASKS[name](data) for name in names or TASKS]


def mixed_texts(data: Path | None, count: int) -> list[str]:
    """Return texts of all lengths in random order: three sentences for a passage."""
    if data is None:
        texts = _messages().train[0]
        # Joined to the length of a passage, because messages are short.
        passages = [
            " ".join(texts[start : start + 12]) for start in range(0, len(texts), 12)
        ]
    else:
        texts = _sst2(data).dev[0]
        passages = _race(data).dev[0]
    mixed = []
    for number in range(count):
        source = passages if number % 4 == 3 else texts
        mixed.append(source[number % len(source)])
    random.Random(SEED).shuffle(mixed)  # noqa: S311
    return mixed


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _split(rows: list, held_out: int) -> tuple[tuple[list, list], tuple[list, list]]:
    random.Random(SEED).shuffle(rows)  # noqa: S311
    texts, labels = ([row[i] for row in rows] for i in (0, 1))
    return (texts[held_out:], labels[held_out:]), (texts[:held_out], labels[:held_out])


def _messages() -> TextTask:
    rows = _rows(MESSAGES)
    names = sorted({row["label"] for row in rows})
    examples = [(row["text"], names.index(row["label"])) for row in rows]
    return TextTask("messages", *_split(examples, 240), len(names))


def _sst2(data: Path) -> TextTask:
    def read(name: str) -> tuple[list, list]:
        path = data / "glue" / "SST-2" / name
        rows = [(row["sentence"], int(row["label"])) for row in _rows(path)]
        return _split(rows, 0)[0]

    return TextTask("SST-2", read("train.tsv"), read("dev.tsv"), 2)


def _sts_b(data: Path) -> TextTask:
    def read(name: str) -> tuple[list, list]:
        rows = [
            ((row["sentence1"], row["sentence2"]), float(row["score"]) / 5)
            for row in _rows(data / "glue" / "STS-B" / name)
            if row["score"]
        ]
        return _split(rows, 0)[0]

    return TextTask("STS-B", read("train.tsv"), read("dev.tsv"), 1)


def _race(data: Path) -> TextTask:
    """Read RACE's passages, labelled as from middle or high schools."""

    def read(part: str) -> tuple[list, list]:
        rows = []
        for label, school in enumerate(("middle", "high")):
            path = data / f"multiple_choice/race/{part}.{school}.jsonl.gz"
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                found = [(json.loads(line)["article"], label) for line in lines]
            rows.append(found)
        # Equal numbers of each, so that chance is 50%.
        count = min(map(len, rows))
        return _split([row for each in rows for row in each[:count]], 0)[0]

    return TextTask("RACE passages", read("train"), read("dev"), 2)


TASKS = {"sst-2": _sst2, "sts-b": _sts_b, "race": _race}
