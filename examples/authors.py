"""Write a classification data set: the author of a paragraph, of three.

    python examples/authors.py path/to/books --output authors

Reads gzip files of books, in which a paragraph is a line and a blank line ends a
chapter, and MANIFEST.tsv, their table of contents (columns `shard`, `title`, `author`
and `chapters`). The last book of each author becomes `dev.tsv`, the others become
`train.tsv`, so that the names in a book are of little use, except in a sequel. Both
files contain paragraphs of 10 to 40 words, equally many of each author.
"""

import argparse
import csv
from itertools import chain
from pathlib import Path

import numpy as np
from books import read_books

AUTHORS = ("Charles Dickens", "Joseph Conrad", "Louisa May Alcott")
WORDS = range(10, 41)


def short_paragraphs(chapters: list[str]) -> list[str]:
    """Return the paragraphs of some chapters that are neither short nor long."""
    lines = [line.split() for chapter in chapters for line in chapter.split("\n")]
    return [" ".join(words) for words in lines if len(words) in WORDS]


def books_by_author(folder: Path, authors: list[str]) -> dict[str, list[list[str]]]:
    """Return the paragraphs of each book of each author."""
    books: dict[str, list[list[str]]] = {author: [] for author in authors}
    for path in sorted(folder.glob("*.txt.gz")):
        for book, chapters in read_books(folder / "MANIFEST.tsv", path):
            if book["author"] in books:
                books[book["author"]].append(short_paragraphs(chapters))
    for author, found in books.items():
        if len(found) < 2:
            raise SystemExit(
                f"{folder} has {len(found)} books by {author!r}, and two are needed: "
                "one of them is the validation set. Choose others with --authors."
            )
    return books


def write(path: Path, texts: dict[str, list[str]], most: int, seed: int) -> None:
    """Write equally many paragraphs of each author, in random order."""
    generator = np.random.default_rng(seed)
    count = min(most, *map(len, texts.values()))
    rows = [
        (text, author)
        for author, choice in texts.items()
        for text in generator.permutation(choice)[:count]
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(
            file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None
        )
        writer.writerow(("text", "label"))
        writer.writerows(rows[place] for place in generator.permutation(len(rows)))
    print(f"{path}: {len(rows):,} paragraphs, {count:,} of each author")


def main() -> None:
    """Read the books, and write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("books", type=Path, help="directory with MANIFEST.tsv")
    parser.add_argument("--authors", nargs="+", default=AUTHORS)
    parser.add_argument("--train", type=int, default=4000, help="of each author")
    parser.add_argument("--dev", type=int, default=300, help="of each author")
    parser.add_argument("--output", type=Path, default=Path("authors"))
    arguments = parser.parse_args()

    books = books_by_author(arguments.books, list(arguments.authors))
    train = {author: list(chain(*texts[:-1])) for author, texts in books.items()}
    arguments.output.mkdir(parents=True, exist_ok=True)
    dev = {author: texts[-1] for author, texts in books.items()}
    write(arguments.output / "train.tsv", train, arguments.train, 0)
    write(arguments.output / "dev.tsv", dev, arguments.dev, 1)


if __name__ == "__main__":
    main()
