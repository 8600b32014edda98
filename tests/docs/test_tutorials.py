"""A tutorial runs on each backend, with few steps of training."""

import os
import subprocess
import sys
from pathlib import Path

import keras

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
# Quick ones; the site executes all of them, in full.
TUTORIAL = {
    "torch": "lora_and_int8",
    "tensorflow": "getting_started",
    "jax": "glue",
}

# Runs a file as a program, with two batches of one epoch in each call of `fit`.
SHORTENED = """
import functools, runpy, sys
import keras

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
    name = TUTORIAL[keras.config.backend()]
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SHORTENED, f"{name}.py"],
        cwd=TUTORIALS,
        env=os.environ | {"MPLBACKEND": "agg", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "TF-IDF" in finished.stdout
