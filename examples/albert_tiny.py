r"""Train `albert_tiny_en_uncased`, the pretrained model in the package.

    KERAS_BACKEND=torch python examples/albert_tiny.py "wikipedia/*.txt.gz" \
        --books "books/*.txt.gz" --manifest books/MANIFEST.tsv --output runs/albert_tiny

Trains a vocabulary of 20,000 pieces, initializes their embeddings from counts of
neighbouring pieces (`word_vectors.py`), and pretrains the model in one run of several
stages (`albert_tiny.toml`). The model, with its card and its curve, is written to
`OUTPUT/albert_tiny_en_uncased`. After an interruption, the same command resumes. With
`--preset albert_tiny_en_uncased --config examples/albert_tiny_more.toml`, it continues
from that model, its vocabulary and its word vectors instead, on other batches.

On processors with instructions for bfloat16, `--precision mixed_bfloat16` is several
times as fast; on others, it is far slower. Text files, plain or gzip, contain one
paragraph per line and a blank line between documents.

Books require a table of the content of each file (columns `shard`, `title`, `year`,
`chapters`; each chapter is a document). Books of 1930 or later are excluded, because
they may not be in the public domain.
"""

import argparse
import glob
import gzip
import os
from pathlib import Path

from keras_albert.cli.arguments import fraction, whole_number
from keras_albert.cli.loading import loading

with loading("albert_tiny.py"):
    from books import read_books
    from release import command, release
    from word_vectors import word_vectors

    from keras_albert.presets.preset_files import preset_directory
    from keras_albert.pretraining import PretrainingConfig, PretrainingData
    from keras_albert.pretraining.model import build_pretrainer
    from keras_albert.utils.atomic_files import atomic_file

HERE = Path(__file__).parent
NAME = "albert_tiny_en_uncased"
FIRST_YEAR_OUT = 1930
SEQUENCE_LENGTH = 512


def free_books(manifest: Path, shards: list[Path], output: Path) -> None:
    """Copy the documents of the books before 1930."""
    output.mkdir(parents=True, exist_ok=True)
    for path in shards:
        kept = []
        for book, chapters in read_books(manifest, path):
            if book["year"].isdigit() and int(book["year"]) < FIRST_YEAR_OUT:
                kept += chapters
        with (
            atomic_file(output / path.name) as partial,
            gzip.open(partial, "wt", encoding="utf-8") as file,
        ):
            file.write("\n\n".join(kept) + "\n")


def start(data: Path, settings: Path, target: Path) -> Path:
    """Save a model with random weights, except for word vectors as embeddings."""
    if not target.is_dir():
        examples = PretrainingData(data)
        places = {"data": str(data), "output": str(target)}
        config = PretrainingConfig.from_file(settings, **places)
        task = build_pretrainer(config, examples.tokenizer, examples.sequence_length)
        table = task.backbone.embedding.token_embedding
        table.embeddings.assign(word_vectors(examples, table.output_dim))
        with preset_directory(target) as directory:
            task.save_to_preset(directory)
    return target


def main() -> None:
    """Prepare the data, pretrain, and write the released preset."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", help="files or globs")
    parser.add_argument("--books", default="", help="a glob of files with a table")
    parser.add_argument("--manifest", type=Path, help="the books' table")
    parser.add_argument("--vocabulary-size", type=whole_number(), default=20000)
    parser.add_argument("--preset", help="a model to continue")
    parser.add_argument("--held-out", type=fraction, default=0.005)
    parser.add_argument("--config", type=Path, default=HERE / "albert_tiny.toml")
    parser.add_argument("--steps", type=whole_number(), help="not the settings'")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--output", type=Path, default=Path("runs/albert_tiny"))
    parser.add_argument("--workers", type=whole_number(), default=os.cpu_count() or 1)
    arguments = parser.parse_args()

    output: Path = arguments.output
    inputs = list(arguments.texts)
    if arguments.books:
        if arguments.manifest is None:
            parser.error("--books needs --manifest")
        shards = [Path(name) for name in sorted(glob.glob(arguments.books))]
        free_books(arguments.manifest, shards, output / "books")
        inputs.append(str(output / "books" / "*.txt.gz"))
    data = output / "prepared"
    vocabulary = ("--vocabulary-size", arguments.vocabulary_size)
    if arguments.preset:
        vocabulary = ("--vocabulary", arguments.preset)
    command(
        *("prepare", *inputs, "--output", data, "--workers", arguments.workers),
        *vocabulary,
        *("--held-out", arguments.held_out, "--sequence-length", SEQUENCE_LENGTH),
    )

    config, run = arguments.config, output / "run"
    preset = run / "preset"
    if not preset.is_dir():
        steps = () if arguments.steps is None else ("--steps", arguments.steps)
        begin = arguments.preset or start(data, config, output / "start")
        command(
            *("pretrain", "--config", config, "--data", data, "--output", run),
            *("--preset", begin, "--precision", arguments.precision, *steps),
        )
    release(preset, output / NAME, (HERE / "albert_tiny.md").read_text("utf-8"))
    print(f"the model: {output / NAME}")


if __name__ == "__main__":
    main()
