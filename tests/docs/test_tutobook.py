"""The conversion of tutorials to notebooks; their format is another test."""

import pytest
import tutobook

TEXT = '''"""
Title: Small
Authors: Somebody
Date created: 2026/11/23
Last modified: 2026/11/23
Description: A test.
Accelerator: None
"""

"""
## Introduction

Some `code()`.
"""

"""shell
pip install something
"""

"""invisible
A note.
"""

import math

math.pi
'''


def test_cells_are_split():
    kinds = [cell.kind for cell in tutobook.split_cells(TEXT)]
    assert kinds == ["markdown", "markdown", "shell", "invisible", "code"]
    assert tutobook.split_cells(TEXT)[-1].source == "import math\n\nmath.pi"
    assert tutobook.read_header(TEXT)["Author"] == "Somebody"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.rstrip("\n") + '\n"""\nopen', "does not end"),
        ('"""\nTitle: A\n""" x\n', "Line 3: a cell ends"),
        ('"""python\nx\n"""\n', "Line 1: a cell is named"),
    ],
)
def test_wrong_cells_are_errors(text, message):
    with pytest.raises(ValueError, match=message):
        tutobook.split_cells(text)


def test_an_incomplete_header_is_an_error():
    with pytest.raises(ValueError, match="lacks Author, Date created"):
        tutobook.read_header('"""\nTitle: A\n"""\n')


def test_a_notebook_has_the_cells_that_are_shown():
    nbformat = pytest.importorskip("nbformat")
    notebook = tutobook.to_notebook(TEXT)
    nbformat.validate(notebook)
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds == ["markdown", "markdown", "markdown", "code"]
    assert notebook.cells[0].source.startswith("# Small\n\nA test.\n\n**Author:** ")
    assert notebook.cells[2].source == "```shell\npip install something\n```"
    assert tutobook.to_notebook(TEXT) == notebook


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\n", "a\nb\n"),
        ("\x1b[1m1/2\x1b[0m .\b\b\b\b\b\r2/2 ==\n", "2/2 ==\n"),
        ("1%\r50%\r100%\r\ndone", "100%\ndone"),
        ("", ""),
    ],
)
def test_progress_bars_show_their_end(text, shown):
    assert tutobook.last_state(text) == shown


def test_links_of_a_downloaded_notebook_lead_to_notebooks():
    text = "[a](few_labels.py), [the\\n b](../speed.md), [c](https://x.y/z.py)"
    expected = "[a](few_labels.ipynb), the\\n b, [c](https://x.y/z.py)"
    assert tutobook.link_downloads(text) == expected
