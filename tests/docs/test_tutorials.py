"""A tutorial runs, with few steps of training; the site executes all, in full."""

from pathlib import Path

import pytest

from tests.programs import run_python

ROOT = Path(__file__).parents[2]
TUTORIALS, DATA = ROOT / "docs" / "tutorials", ROOT / "examples" / "data"
# A quick one; the site executes all of them, in full.
TUTORIAL = "glue.py"

# Runs a file as a program, with two batches of one epoch in each call of `fit`.
SHORTENED = """
import functools, runpy, sys, warnings
import keras

warnings.simplefilter("ignore")

fit = keras.Model.fit

@functools.wraps(fit)
def fit_two_batches(self, *args, **kwargs):
    kwargs |= {"epochs": 1, "steps_per_epoch": 2, "verbose": 0}
    if kwargs.get("validation_data") is not None:
        kwargs["validation_steps"] = 1
    return fit(self, *args, **kwargs)

keras.Model.fit = fit_two_batches
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture
def downloaded(tmp_path):
    """A tutorial of a smaller model in a folder with its data, and nothing else."""
    source = (TUTORIALS / TUTORIAL).read_text(encoding="utf-8")
    smaller = source.replace('"albert_small_en_uncased"', '"albert_tiny_en_uncased"')
    (tmp_path / TUTORIAL).write_text(smaller, encoding="utf-8")
    for path in DATA.iterdir():
        if f'"{path.name}"' in source:
            # A header, and few enough rows to be quick.
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)[:451]
            (tmp_path / path.name).write_text("".join(lines), encoding="utf-8")
    return tmp_path


def test_a_downloaded_tutorial_runs(downloaded):
    variables = {"MPLBACKEND": "agg", "TMPDIR": str(downloaded)}
    printed = run_python("-c", SHORTENED, TUTORIAL, cwd=downloaded, **variables)
    assert "TF-IDF" in printed
