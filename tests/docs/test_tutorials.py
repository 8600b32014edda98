"""A tutorial runs on each backend, with few steps of training."""

from pathlib import Path

import keras
import pytest

from tests.programs import run_python

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# Quick ones; the site executes all of them, in full.
TUTORIAL = "bert" if keras.config.backend() == "torch" else "glue"

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


def run(name, folder, **variables):
    variables |= {"MPLBACKEND": "agg", "TMPDIR": str(folder)}
    printed = run_python("-c", SHORTENED, f"{name}.py", cwd=TUTORIALS, **variables)
    assert "TF-IDF" in printed
    return printed


@pytest.fixture
def messages(tmp_path):
    """Fewer messages than a part of the repository's, sorted by label."""
    names = ["shoes", "sheep", "ships"]
    rows = [f"{name}\tI have {n} {name}" for name in names for n in range(50)]
    path = tmp_path / "mine.tsv"
    path.write_text("\n".join(["label\ttext", *rows, ""]), encoding="utf-8")
    return path


def test_a_tutorial_runs(tmp_path, messages):
    data = {"TUTORIAL_MESSAGES": str(messages)}
    printed = run(TUTORIAL, tmp_path, **data, TUTORIAL_PRESET="albert_tiny_en_uncased")
    if TUTORIAL == "bert":
        assert "103 tensors written, 103 equal" in printed
