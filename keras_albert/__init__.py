"""ALBERT for Keras 3, on TensorFlow, JAX and PyTorch."""

from keras_albert import conversion, layers, serving
from keras_albert.backbone import AlbertBackbone
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
from keras_albert.text import (
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
    "conversion",
    "layers",
    "serving",
]
