"""The bare loop is compared only if it computes the same, and profiles are read."""

import argparse
import importlib


def load(name):
    return importlib.import_module(name)


def test_the_loop_trains_as_pretraining_does():
    arguments = argparse.Namespace(
        **{"size": "tiny", "precision": "float32", "clock": "cpu", "repeats": 1},
        **{"rows": 2, "length": 16, "layers": 2, "width": 64},
    )
    found = load("bare_loop").compare(arguments, vocabulary_size=50)
    assert found.amounts == {"keras_albert": 32, "bare loop, PyTorch": 32}
    # The losses of both steps, or the comparison raises.
    assert "from the same weights" in found.notes[0]
