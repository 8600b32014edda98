"""Checks that two runs have the same results."""

import numpy as np

from keras_albert.training.run_folder import TrainingCheckpoint

# They depend on the machine.
_SPEEDS = ("examples/s", "tokens/s", "seconds")


def curve(folder):
    """Return the rows of a run, without speeds."""
    rows = folder.curve.rows()
    return [{k: v for k, v in row.items() if k not in _SPEEDS} for row in rows]


def assert_same_run(found, expected):
    """Check that curves and checkpoints are equal bit by bit."""
    assert curve(found) == curve(expected)
    a, b = (TrainingCheckpoint.read(folder.last) for folder in (found, expected))
    assert a.step == b.step
    assert (a.notes["best"], a.notes["best_done"]) == (
        b.notes["best"],
        b.notes["best_done"],
    )
    assert set(a.groups) == set(b.groups)
    for group in a.groups:
        np.testing.assert_equal(a.groups[group], b.groups[group])
