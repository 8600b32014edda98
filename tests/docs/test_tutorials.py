"""A tutorial runs, with few steps of training; the site executes all, in full."""

from pathlib import Path

from tests.programs import run_python

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"

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


def test_a_tutorial_runs(tmp_path):
    variables = {"MPLBACKEND": "agg", "TMPDIR": str(tmp_path)}
    variables |= {"TUTORIAL_PRESET": "albert_tiny_en_uncased"}
    printed = run_python("-c", SHORTENED, "glue.py", cwd=TUTORIALS, **variables)
    assert "TF-IDF" in printed
