"""ALBERT for Keras 3, on TensorFlow, JAX and PyTorch."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from keras_albert.utils.lazy import lazy_names

if TYPE_CHECKING:
    from keras_albert import checkpoints, exports, layers, tools
    from keras_albert.backbone import AlbertBackbone
    from keras_albert.compression.compress import compress
    from keras_albert.compression.distill import distill
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
    "tools",
]

if not TYPE_CHECKING:
    _MODULES = ("checkpoints", "exports", "layers", "tools")
    _COMPRESSION = ("compress", "distill", "merge_adapters")
    _CLASSES = [name for name in __all__ if name.startswith("Albert")]
    _OF_TEXT = [n for n in _CLASSES if n.endswith(("Preprocessor", "Tokenizer"))]
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "keras_albert.tasks": [n for n in _CLASSES if n not in _OF_TEXT],
            "keras_albert.preprocessors": _OF_TEXT,
            "keras_albert.backbone": ["AlbertBackbone"],
            "keras_albert.compression": _COMPRESSION,
        },
        _MODULES,
    )
    if "keras" in sys.modules:
        # Keras and KerasHub find the classes of a file only if they are registered.
        import_module("keras_albert.tasks")
