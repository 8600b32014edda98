"""Imports of benchmarks, which import each other as scripts in one directory."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def path_of_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
