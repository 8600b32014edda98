"""The example runs from the command line, on little data."""

import gzip

import pytest

from tests.examples.test_examples import run


def test_it_reads_texts_fills_masks_and_saves(tmp_path):
    paragraphs = ["the old town by the sea", "", "a storm, and rain on the hill"] * 40
    (tmp_path / "a.txt").write_text("\n".join(paragraphs))
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("bread in the small town\n" * 20)
    output = tmp_path / "preset"
    printed = run(
        "fill_mask.py",
        str(tmp_path),
        *("--epochs", "1", "--vocabulary-size", "40"),
        *("--output", str(output)),
    )
    assert "95 paragraphs" in printed
    assert "held-out masked tokens: loss" in printed
    assert printed.count("%  ") == 15
    assert (output / "task.weights.h5").exists()


@pytest.mark.shared_data
def test_it_beats_the_commonest_token_on_real_books(shared_data):
    printed = run(
        "fill_mask.py",
        str(shared_data / "text" / "books" / "books_000.txt.gz"),
        *("--limit", "2000", "--epochs", "3"),
    )
    accuracy = float(printed.split("accuracy ")[-1].split("%")[0])
    commonest = float(printed.split("commonest token: ")[1].split("%")[0])
    assert accuracy > commonest
