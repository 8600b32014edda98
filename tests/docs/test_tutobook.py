"""The conversion of tutorials to notebooks; their format is another test."""

import re
from pathlib import Path

import pytest
import tutobook

DOCS = Path(__file__).parents[2] / "docs"
TUTORIALS = sorted((DOCS / tutobook.FOLDER).glob("*.py"))

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


def test_a_notebook_has_the_cells_that_are_shown():
    nbformat = pytest.importorskip("nbformat")
    notebook = tutobook.to_notebook(TEXT)
    nbformat.validate(notebook)
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds == ["markdown", "markdown", "markdown", "code"]
    assert notebook.cells[0].source.startswith("# Small\n\nA test.\n\n**Author:** ")
    assert notebook.cells[2].source == "```shell\npip install something\n```"
    assert tutobook.to_notebook(TEXT) == notebook


LINKS = "[a](glue.py), [the\\n b](../tasks/index.md#words), [c](https://x.y/z.py)"


def test_links_of_a_downloaded_notebook_lead_to_the_site():
    expected = (
        "[a](https://a.b/0.1.0/tutorials/glue.html), "
        "[the\\n b](https://a.b/0.1.0/tasks/index.html#words), [c](https://x.y/z.py)"
    )
    for site in ("https://a.b/0.1.0/", "https://a.b/0.1.0"):
        assert tutobook.link_downloads(LINKS, site) == expected


def test_links_of_a_downloaded_notebook_are_text_without_an_address():
    expected = "a, the\\n b, [c](https://x.y/z.py)"
    assert tutobook.link_downloads(LINKS) == expected


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_no_link_of_a_download_is_relative(path):
    text = path.read_text(encoding="utf-8")
    for site in ("", "https://a.b/0.1.0/"):
        notebook = tutobook.link_downloads(text, site)
        for link in re.findall(r"\]\(([^()\s]+)\)", notebook):
            assert link.startswith("https://"), link
            # The page of the site has a source.
            if site and link.startswith(site):
                page = link.removeprefix(site).partition("#")[0].removesuffix(".html")
                sources = [DOCS / f"{page}{suffix}" for suffix in (".md", ".py")]
                assert any(source.is_file() for source in sources), link
