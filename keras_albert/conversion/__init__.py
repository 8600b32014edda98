"""Checkpoints of other libraries, both ways."""

from keras_albert.conversion.keras_hub_checkpoint import KERAS_HUB
from keras_albert.conversion.transformers_checkpoint import TRANSFORMERS
from keras_albert.presets.checkpoint_formats import register_format

for _format in (TRANSFORMERS, KERAS_HUB):
    register_format(_format)

__all__ = ["KERAS_HUB", "TRANSFORMERS"]
