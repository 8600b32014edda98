"""The tutorials have Keras' format, and keras.io's form has no relative addresses."""

import ast
import re
from pathlib import Path

import pytest
import tutobook

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.py"))

# Keras counts lines that are neither blank nor a comment, Markdown included in neither.
MAX_LINES_OF_CODE = 400


@pytest.fixture(params=TUTORIALS, ids=lambda path: path.stem)
def text(request):
    return request.param.read_text(encoding="utf-8")


def prose(text):
    """Return the lines of Markdown cells outside of the header and of fenced code."""
    lines, is_fenced = [], False
    for cell in tutobook.split_cells(text)[1:]:
        for line in cell.source.splitlines() if cell.kind == "markdown" else ():
            is_fence = line.lstrip().startswith("```")
            is_fenced ^= is_fence
            if not (is_fence or is_fenced):
                lines.append(line)
    return lines


def test_header(text):
    lines = text.splitlines()
    assert lines[0] == lines[len(tutobook.HEADER) + 1] == tutobook.QUOTES
    values = tutobook.read_header(text)
    assert tuple(values) == tutobook.HEADER
    assert values["Author"] == "keras_albert authors"
    # "2026/11/23" as a text is in the order of dates.
    dates = values["Date created"], values["Last modified"]
    assert all(re.fullmatch(r"\d{4}/\d\d/\d\d", date) for date in dates)
    assert sorted(dates) == list(dates)
    assert re.fullmatch(r"[A-Z].{,98}\.", values["Description"])
    assert values["Accelerator"] in ("GPU", "TPU", "None")


def test_cells(text):
    code = [cell.source for cell in tutobook.split_cells(text) if cell.kind == "code"]
    lines = [line for source in code for line in source.splitlines()]
    counted = [line for line in lines if line.strip() and line.lstrip()[0] != "#"]
    assert 0 < len(counted) <= MAX_LINES_OF_CODE
    # It installs nothing.
    assert not [line for line in lines if re.match(r"\s*[!%]|.*pip install", line)]
    # A string on one line, or one that is not at the left, is no cell for Keras.
    for node in ast.parse(text).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert isinstance(node.value.value, str)
            source = ast.get_source_segment(text, node).splitlines()
            assert source[0].removeprefix(tutobook.QUOTES) in ("", "shell", "invisible")
            assert source[-1] == tutobook.QUOTES


def test_sections(text):
    headings = [line for line in prose(text) if line.startswith("#")]
    assert headings[0] == "## Introduction"
    assert headings[-1] == "## Conclusion"
    # The header has the only title.
    assert not [line for line in headings if line.startswith("# ")]


def test_links(text):
    assert "arxiv.org/pdf/" not in text
    assert "](http://" not in text
    for line in prose(text):
        assert line.count("](") == len(re.findall(r"\]\([^()\s]+\)", line)), line
        for name in re.findall(r"\]\((\w+\.py)\)", line):
            assert (TUTORIALS[0].parent / name).is_file(), line
        # The text of a link and its address are on one line.
        assert not re.match(r"[^\[]*\]\(", line), line


def test_the_form_for_keras_io(text):
    written = tutobook.to_keras_io(text, "https://a.b", "https://c.d/e")
    ast.parse(written)
    assert "../" not in written
    assert re.findall(r"\]\((?!https://)[^)]*\.(?:py|md)", written) == []
    for path in tutobook.data_files(text):
        assert "https://c.d/e/raw/main/examples/data" in written, path
