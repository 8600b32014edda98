"""Read books from files that hold several, by their table of contents."""

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path


def read_books(
    manifest: Path, path: Path
) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the row of the table and the chapters of each book of a file.

    Args:
        manifest: Path. A TSV file with a row for each book, in the order of the files;
            its columns include `shard`, `title` and `chapters`.
        path: Path. A gzip file `SHARD.txt.gz`, in which a blank line ends a chapter.

    Raises:
        ValueError: If the number of chapters in the file differs from the table.
    """
    books = defaultdict(list)
    with manifest.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            books[row["shard"]].append(row)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        documents = iter([text for text in file.read().split("\n\n") if text])
    for book in books[path.name.removesuffix(".txt.gz")]:
        chapters = list(islice(documents, int(book["chapters"])))
        if len(chapters) != int(book["chapters"]):
            msg = f"{path} ends within {book['title']!r}; {manifest} is of others."
            raise ValueError(msg)
        yield book, chapters
    if next(documents, None) is not None:
        raise ValueError(f"{path} holds more documents than {manifest} says.")
