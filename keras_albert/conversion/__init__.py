"""Reading and writing checkpoints of other libraries."""

from keras_albert.conversion.convert_checkpoint import Conversion, convert_checkpoint
from keras_albert.conversion.google_checkpoint import GOOGLE
from keras_albert.conversion.keras_hub_checkpoint import KERAS_HUB
from keras_albert.conversion.transformers_checkpoint import TRANSFORMERS
from keras_albert.presets.checkpoint_formats import register_format

for _format in (TRANSFORMERS, KERAS_HUB, GOOGLE):
    register_format(_format)

__all__ = ["GOOGLE", "KERAS_HUB", "TRANSFORMERS", "Conversion", "convert_checkpoint"]
