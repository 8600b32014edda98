r"""Train `albert_tiny_en_uncased`, the model that comes with the package, again.

    KERAS_BACKEND=torch python examples/albert_tiny.py "wikipedia/*.txt.gz" \
        --books "books/*.txt.gz" --manifest books/MANIFEST.tsv --output runs/albert_tiny

Trains a vocabulary of 8,192 pieces, prepares examples of 128 tokens, and pretrains by
`albert_tiny.toml`; the model, its card and its curve are then in `OUTPUT/run/preset`.
Stopped at any moment, the same command goes on. Text files hold a paragraph a line and
a blank line between documents, plain or gzip.

Books come with a table of what each file holds (columns `shard`, `title`, `year`,
`chapters`, a document each), and those of 1930 or later are left out: they may not be
in the public domain.
"""

import argparse
import csv
import glob
import gzip
import itertools
import os
from collections import defaultdict
from pathlib import Path

from keras_albert.cli import main as keras_albert

SETTINGS = Path(__file__).with_suffix(".toml")
FIRST_YEAR_OUT = 1930


def free_books(manifest: Path, shards: list[Path], output: Path) -> None:
    """Copy the documents of the books that are old enough.

    Raises:
        ValueError: If a file holds another number of documents than the table says.
    """
    output.mkdir(parents=True, exist_ok=True)
    books = defaultdict(list)
    with manifest.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            books[row["shard"]].append(row)
    for path in shards:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            documents = iter([text for text in file.read().split("\n\n") if text])
        kept = []
        for book in books[path.name.removesuffix(".txt.gz")]:
            chapters = list(itertools.islice(documents, int(book["chapters"])))
            if len(chapters) != int(book["chapters"]):
                msg = f"{path} ends within {book['title']!r}; {manifest} is of others."
                raise ValueError(msg)
            if book["year"].isdigit() and int(book["year"]) < FIRST_YEAR_OUT:
                kept += chapters
        if next(documents, None) is not None:
            raise ValueError(f"{path} holds more documents than {manifest} says.")
        partial = output / f".{path.name}"
        with gzip.open(partial, "wt", encoding="utf-8") as file:
            file.write("\n\n".join(kept) + "\n")
        os.replace(partial, output / path.name)


def main() -> None:
    """Prepare, and pretrain."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", help="files or globs")
    parser.add_argument("--books", default="", help="a glob of files with a table")
    parser.add_argument("--manifest", type=Path, help="the books' table")
    parser.add_argument("--config", type=Path, default=SETTINGS)
    parser.add_argument("--output", type=Path, default=Path("runs/albert_tiny"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()

    output: Path = arguments.output
    prepared, inputs = output / "prepared", list(arguments.texts)
    if arguments.books:
        if arguments.manifest is None:
            parser.error("--books needs --manifest")
        shards = [Path(name) for name in sorted(glob.glob(arguments.books))]
        free_books(arguments.manifest, shards, output / "books")
        inputs.append(str(output / "books" / "*.txt.gz"))
    prepare = ["prepare", *inputs, "--output", str(prepared)]
    prepare += ["--vocabulary-size", "8192", "--sequence-length", "128"]
    prepare += ["--held-out", "0.005", "--workers", str(arguments.workers)]
    pretrain = ["pretrain", "--config", str(arguments.config)]
    pretrain += ["--data", str(prepared), "--output", str(output / "run")]
    raise SystemExit(keras_albert(prepare) or keras_albert(pretrain))


if __name__ == "__main__":
    main()
