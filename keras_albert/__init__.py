"""ALBERT for Keras 3, on TensorFlow, JAX and PyTorch."""

import importlib
from typing import TYPE_CHECKING, Any

from keras_albert import layers
from keras_albert.backbone import AlbertBackbone
from keras_albert.preprocessors import (
    AlbertClassifierPreprocessor,
    AlbertMaskedLMPreprocessor,
    AlbertMultipleChoicePreprocessor,
    AlbertPretrainerPreprocessor,
    AlbertQuestionAnswererPreprocessor,
    AlbertTextClassifierPreprocessor,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenClassifierPreprocessor,
    AlbertTokenizer,
)
from keras_albert.tasks import (
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertQuestionAnswerer,
    AlbertTextClassifier,
    AlbertTextEmbedder,
    AlbertTokenClassifier,
)

if TYPE_CHECKING:
    from keras_albert import checkpoints, exports
    from keras_albert.compression.compress import compress
    from keras_albert.compression.distill import distill
    from keras_albert.tasks.cloning import merge_adapters

__version__ = "0.1.0"

__all__ = [
    "AlbertBackbone",
    "AlbertClassifier",
    "AlbertClassifierPreprocessor",
    "AlbertMaskedLM",
    "AlbertMaskedLMPreprocessor",
    "AlbertMultipleChoice",
    "AlbertMultipleChoicePreprocessor",
    "AlbertPretrainer",
    "AlbertPretrainerPreprocessor",
    "AlbertQuestionAnswerer",
    "AlbertQuestionAnswererPreprocessor",
    "AlbertTextClassifier",
    "AlbertTextClassifierPreprocessor",
    "AlbertTextEmbedder",
    "AlbertTextEmbedderPreprocessor",
    "AlbertTokenClassifier",
    "AlbertTokenClassifierPreprocessor",
    "AlbertTokenizer",
    "checkpoints",
    "compress",
    "distill",
    "exports",
    "layers",
    "merge_adapters",
]

# Imported when they are first used: as attributes, by `from_preset`, by `export`. Keras
# must know the classes above before it loads a file.
_ON_USE = ("checkpoints", "exports")
_OF_COMPRESSION = ("compress", "distill", "merge_adapters")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _ON_USE:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _OF_COMPRESSION:
            return getattr(importlib.import_module(f"{__name__}.compression"), name)
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_ON_USE, *_OF_COMPRESSION})
