"""Saved models: names, handles and directories."""

from keras_albert.presets.handles import BUILTIN_PRESETS

__all__ = ["BUILTIN_PRESETS"]
