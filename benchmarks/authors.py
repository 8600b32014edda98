"""Write a data set of three classes: which author a paragraph of a book is by.

    python benchmarks/authors.py path/to/books --output authors

Reads gzip files of books, in which a paragraph is a line and a blank line ends a
chapter, and MANIFEST.tsv, their table of contents (columns `shard`, `title`, `author`
and `chapters`). The last book of each author is for `dev.tsv`, the others are for
`train.tsv`, so that names of persons and places are of no use. Kept are paragraphs of
10 to 40 words, equally many of each author.
"""

import argparse
import csv
import gzip
from collections import defaultdict
from itertools import chain, islice
from pathlib import Path

import numpy as np

AUTHORS = ("Charles Dickens", "Joseph Conrad", "Louisa May Alcott")
WORDS = range(10, 41)


def read_books(folder: Path, authors: tuple[str, ...]):
    """Return the paragraphs of each book, by author."""
    with (folder / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    books = defaultdict(list)
    for path in sorted(folder.glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            chapters = iter([text for text in file.read().split("\n\n") if text])
        for book in table:
            if f"{book['shard']}.txt.gz" == path.name:
                text = "\n".join(islice(chapters, int(book["chapters"])))
                paragraphs = [
                    " ".join(line.split())
                    for line in text.split("\n")
                    if len(line.split()) in WORDS
                ]
                books[book["author"]].append(paragraphs)
    for author in authors:
        if len(books[author]) < 2:
            raise SystemExit(f"{folder}: {author!r} has fewer than two books.")
    return {author: books[author] for author in authors}


def write(path: Path, texts: dict[str, list[str]], most: int, seed: int) -> None:
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("books", type=Path, help="directory with MANIFEST.tsv")
    parser.add_argument("--authors", nargs="+", default=AUTHORS)
    parser.add_argument("--train", type=int, default=4000, help="of each author")
    parser.add_argument("--dev", type=int, default=300, help="of each author")
    parser.add_argument("--output", type=Path, default=Path("authors"))
    arguments = parser.parse_args()

    arguments.output.mkdir(parents=True, exist_ok=True)
    books = read_books(arguments.books, tuple(arguments.authors))
    train = {author: list(chain(*texts[:-1])) for author, texts in books.items()}
    dev = {author: texts[-1] for author, texts in books.items()}
    write(arguments.output / "train.tsv", train, arguments.train, 0)
    write(arguments.output / "dev.tsv", dev, arguments.dev, 1)


if __name__ == "__main__":
    main()
