"""The format of tutorials, and its conversion."""

import re
from pathlib import Path

import pytest
import tutobook

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
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


@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.py")), ids=lambda p: p.stem)
def test_a_tutorial_follows_the_rules_of_keras_io(path):
    text = path.read_text(encoding="utf-8")
    cells = tutobook.split_cells(text)
    header = re.findall(r"^([A-Z][\w ]*): ", cells[0].source, re.MULTILINE)
    assert text.startswith('"""\nTitle: ')
    assert [name.replace("Authors", "Author") for name in header[:6]] == list(
        tutobook.HEADER
    )
    facts = tutobook.read_header(text)
    assert re.fullmatch(r"[A-Z].{,98}\.", facts["Description"])
    assert facts["Accelerator"] in ("GPU", "TPU", "None")
    for name in ("Date created", "Last modified"):
        assert re.fullmatch(r"\d{4}/\d\d/\d\d", facts[name])
    code = "\n".join(cell.source for cell in cells if cell.kind == "code")
    lines = [line.strip() for line in code.split("\n")]
    assert len([x for x in lines if x and not x.startswith("#")]) <= 400
    assert not [x for x in text.split("\n") if x != x.rstrip()]
    assert "//arxiv.org/pdf/" not in text
    assert not re.search(r"^\s*[!%]|pip install", code, re.MULTILINE)
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "Introduction"
    assert "Conclusion" in headings
    compile(code, str(path), "exec")
