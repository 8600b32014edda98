"""The names of this package that the documentation uses exist."""

import ast
import importlib
import re
import textwrap
from pathlib import Path

import pytest

import keras_albert

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "docs/tutorials/*.py")
    for path in ROOT.glob(pattern)
)
# Classes of transformers, KerasHub and Model Garden.
OF_OTHERS = re.compile(
    r"AlbertFor\w+|AlbertModel|AlbertConfig|AlbertTokenizerFast|AlbertPreTrainedModel"
    r"|AlbertEncoder"
)


@pytest.fixture(params=PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def page(request):
    return request.param.read_text(encoding="utf-8")


def resolve(name):
    """Return the object with a dotted name, such as `keras_albert.tasks.recipes`."""
    found = keras_albert
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            # A module that is not imported yet.
            found = importlib.import_module(f"{found.__name__}.{part}")
        else:
            found = getattr(found, part)
    return found


def programs(text):
    """Return the fenced Python code without that of doctests."""
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(code) for _, code in blocks if ">>>" not in code]


def test_programs_are_python(page):
    for code in programs(page):
        ast.parse(code)


def test_imports_exist(page):
    for code in programs(page):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module:
                package = node.module.partition(".")[0]
                for name in node.names if package == "keras_albert" else ():
                    assert resolve(f"{node.module}.{name.name}") is not None


def test_dotted_names_exist(page):
    for name in re.findall(r"(?<![\w./])keras_albert(?:\.[A-Za-z]\w+)+", page):
        resolve(name)


def test_classes_exist(page):
    found = set(re.findall(r"`(Albert[A-Z]\w*)`", page))
    assert not {
        name
        for name in found
        if not hasattr(keras_albert, name) and not OF_OTHERS.fullmatch(name)
    }
