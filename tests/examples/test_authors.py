"""The data set of authors, from books in files with a table of contents."""

import csv
import gzip
import importlib
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
BOOKS = [("One", "Ann"), ("Two", "Bob"), ("Three", "Ann"), ("Four", "Bob")]


@pytest.fixture
def books(tmp_path):
    """A folder with two books each of two authors; each book has two chapters."""
    rows = [f"shelf\t{title}\t{author}\t2" for title, author in BOOKS]
    table = "\n".join(["shard\ttitle\tauthor\tchapters", *rows, ""])
    (tmp_path / "MANIFEST.tsv").write_text(table, encoding="utf-8")
    words = " ".join(["word"] * 10)
    chapters = [
        f"{author} {title} {part} {words}\ntoo short"
        for title, author in BOOKS
        for part in (1, 2)
    ]
    with gzip.open(tmp_path / "shelf.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n\n".join(chapters))
    return tmp_path


@pytest.fixture
def run(books, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    authors = importlib.import_module("authors")

    def call(*names):
        output = books / "out"
        command = ["authors.py", str(books), "--output", str(output), "--authors"]
        monkeypatch.setattr(sys, "argv", [*command, *names])
        authors.main()
        found = {}
        for part in ("train", "dev"):
            with (output / f"{part}.tsv").open(encoding="utf-8", newline="") as file:
                rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
                found[part] = {(row["label"], *row["text"].split()[:3]) for row in rows}
        return found

    return call


def test_the_last_book_of_each_author_is_the_validation_set(run):
    found = run("Ann", "Bob")
    parts = {"train": {"Ann": "One", "Bob": "Two"}}
    parts["dev"] = {"Ann": "Three", "Bob": "Four"}
    for part, titles in parts.items():
        assert found[part] == {
            (author, author, title, chapter)
            for author, title in titles.items()
            for chapter in "12"
        }


@pytest.mark.parametrize(
    ("chapters", "message"), [(3, "ends within 'Four'"), (1, "more documents")]
)
def test_a_table_of_other_files_is_an_error(run, books, chapters, message):
    path = books / "MANIFEST.tsv"
    table = path.read_text(encoding="utf-8")
    path.write_text(table.replace("Four\tBob\t2", f"Four\tBob\t{chapters}"))
    with pytest.raises(ValueError, match=message):
        run("Ann", "Bob")
