"""Names, handles and directories of models."""

from keras_albert.presets.builtin import BUILTIN_PRESETS

__all__ = ["BUILTIN_PRESETS"]
