"""Marks for what no backend can change, or only some of it."""

import keras
import pytest

on_one_backend = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="the same on each, quickest on PyTorch"
)


def on_one_backend_except(*names):
    """The mark of a module whose other tests run on PyTorch alone; as in node ids."""
    return pytest.mark.one_backend(*names)
