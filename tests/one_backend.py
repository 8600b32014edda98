"""A mark for what no backend can change."""

import keras
import pytest

on_one_backend = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="the same on each, quickest on PyTorch"
)
