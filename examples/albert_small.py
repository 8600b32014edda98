r"""Make `albert_small_en_uncased` and its fine-tuned presets.

    KERAS_BACKEND=torch python examples/albert_small.py path/to/all-MiniLM-L6-v2 \
        --texts texts/*.txt.gz --sst2 path/to/SST-2 --ner path/to/wnut17 \
        --squad path/to/squad --output runs/albert_small

A sentence encoder becomes an ALBERT whose six layers share the weights of three, each
with a low-rank difference, and whose embeddings are narrow. It learns from the encoder
on the texts: one `keras-albert compress`, six minutes on a GPU. Each of the other
presets is one `keras-albert finetune` of this model with LoRA, and contains only its
difference from it: `..._sst2` (sentiment), `..._ner` (entities of WNUT17), `..._squad`
(answers, of the questions of SQuAD and of `cloze_questions.py`, made from the texts).
They are written to `OUTPUT`; one without the option of its data is left out. After an
interruption, the same command resumes. With `--small albert_small_en_uncased`, they are
made from the released model.

`--precision mixed_bfloat16` is several times as fast on a GPU, and twice on a CPU with
instructions for it. Without a GPU, pass fewer `--steps` of fewer `--batch-size`. Text
files, plain or gzip, contain one paragraph per line.
"""

import argparse
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from keras_albert.cli.arguments import whole_number
from keras_albert.cli.loading import loading

with loading("albert_small.py"):
    from cloze_questions import cloze_articles, read_paragraphs
    from release import command, release

    from keras_albert.text.tokenizer.train_vocabulary import read_lines
    from keras_albert.utils.atomic_files import atomic_file

NAME = "albert_small_en_uncased"
LABELS = ("negative", "positive")


def stories() -> dict[str, str]:
    """Read what is known about each model: its data, licences and limits."""
    text = (Path(__file__).parent / "albert_small.md").read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.split("# albert_")[1:])
    return {f"albert_{name}": story.strip() + "\n" for name, _, story in parts}


def sentiment(source: Path, output: Path, _: list[str]) -> list[Path]:
    """Write SST-2's training and dev sets with names of labels."""
    written = [output / f"sst2_{part}.jsonl" for part in ("train", "dev")]
    for path, part in zip(written, ("train", "dev"), strict=True):
        with (source / f"{part}.tsv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        lines = (
            json.dumps({"text": row["sentence"], "label": LABELS[int(row["label"])]})
            for row in rows
        )
        with atomic_file(path) as partial:
            partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return written


def entities(source: Path, _: Path, __: list[str]) -> list[Path]:
    """Find WNUT17's training and dev sets."""
    return [next(iter(sorted(source.glob(f"*{part}*")))) for part in ("train", "dev")]


def questions(source: Path, output: Path, texts: list[str]) -> list[Path]:
    """Write questions that have an answer: of SQuAD, and for training made ones too."""
    written = [output / f"squad_{part}.json" for part in ("train", "dev")]
    parts = {
        part: read_paragraphs(next(iter(sorted(source.glob(f"{part}*.json")))))
        for part in ("train", "dev")
    }
    dev_contexts = [paragraph["context"] for paragraph in parts["dev"]]
    for path, (part, paragraphs) in zip(written, parts.items(), strict=True):
        for paragraph in paragraphs:
            paragraph["qas"] = [qa for qa in paragraph["qas"] if qa.get("answers")]
        articles = [{"title": "", "paragraphs": paragraphs}]
        if part == "train":
            # What a paragraph of the dev set was copied from would make it look good.
            made = cloze_articles(read_lines(texts), _MADE, without=dev_contexts)
            articles = _numbered([*made, *articles * _TIMES])
        else:
            # Paragraphs of all articles.
            count = sum(len(paragraph["qas"]) for paragraph in paragraphs)
            articles[0]["paragraphs"] = paragraphs[:: max(1, count // _MOST_DEV)]
        data = {"version": "1.1", "data": articles}
        with atomic_file(path) as partial:
            partial.write_text(json.dumps(data), encoding="utf-8")
    return written


# Of the training file: the questions that are made, and how often it has the others.
_MADE, _TIMES = 200_000, 6
_MOST_DEV = 1000


def _numbered(articles: list[Any]) -> list[Any]:
    """Copy articles, with a new id for each question."""
    # `deepcopy` would keep an article that occurs several times as one object.
    copy: list[Any] = json.loads(json.dumps(articles))
    number = 0
    for article in copy:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                qa["id"] = str(number)
                number += 1
    return copy


class FineTuned(NamedTuple):
    """How a preset is made of the small model."""

    task: str
    write_files: Callable[[Path, Path, list[str]], list[Path]]
    epochs: int
    max_length: int
    learning_rate: float
    batch_size: int
    rank: int  # of LoRA


# By the end of the name.
FINE_TUNED = {
    "sst2": FineTuned("classification", sentiment, 3, 128, 3e-4, 32, 64),
    "ner": FineTuned("token-classification", entities, 8, 128, 7e-4, 32, 64),
    "squad": FineTuned("question-answering", questions, 1, 384, 1e-3, 96, 128),
}


def main() -> None:
    """Compress, fine-tune, and write the released presets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", nargs="?", help="a sentence encoder: the teacher")
    parser.add_argument("--texts", nargs="+", default=[], help="files")
    parser.add_argument("--small", help="a finished model, instead of an encoder")
    parser.add_argument("--steps", type=whole_number(), default=2132)
    parser.add_argument("--batch-size", type=whole_number(), default=256)
    parser.add_argument("--workers", type=whole_number(), default=6)
    parser.add_argument("--embedding-dim", type=whole_number(), default=128)
    parser.add_argument("--epochs", type=whole_number(), help="not those of each task")
    parser.add_argument("--rank", type=whole_number(), help="of LoRA; not each task's")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--output", type=Path, default=Path("runs/albert_small"))
    for name in FINE_TUNED:
        parser.add_argument(f"--{name}", type=Path, help="a directory with its files")
    arguments = parser.parse_args()
    if not arguments.small and not (arguments.encoder and arguments.texts):
        parser.error("pass an encoder and --texts, or --small")

    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    known = stories()
    how = ("--precision", arguments.precision, "--language", "en")
    how += ("--license", "apache-2.0")
    small = arguments.small or output / NAME
    if not arguments.small and not small.is_dir():
        run = output / "run"
        if not (run / "preset").is_dir():
            command(
                *("compress", arguments.encoder, run, "--task", "AlbertMaskedLM"),
                *("--groups", 3, "--embedding-dim", arguments.embedding_dim),
                *("--adapter-rank", 8, *how),
                *("--texts", *arguments.texts, "--steps", arguments.steps),
                *("--batch-size", arguments.batch_size),
                *("--learning-rate", 1e-3, "--workers", arguments.workers),
            )
        release(run / "preset", small, known[NAME])
    for name, preset in FINE_TUNED.items():
        source, target = getattr(arguments, name), output / f"{NAME}_{name}"
        if source is None or target.is_dir():
            continue
        train, dev = preset.write_files(source, output, arguments.texts)
        epochs = arguments.epochs or preset.epochs
        if not (output / name / "preset").is_dir():
            command(
                *("finetune", preset.task, "--preset", small, "--train", train),
                *("--dev", dev, "--output", output / name),
                *("--lora", arguments.rank or preset.rank, "--epochs", epochs),
                *("--max-length", preset.max_length, "--batch-size", preset.batch_size),
                *("--learning-rate", preset.learning_rate, *how),
            )
        rank = arguments.rank or preset.rank
        release(output / name / "preset", target, known[target.name], small, rank)
    print(f"the models: {', '.join(sorted(x.name for x in output.glob(NAME + '*')))}")


if __name__ == "__main__":
    main()
