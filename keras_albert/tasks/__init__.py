"""Models with a head: each takes raw strings."""

from keras_albert.tasks.classifier import AlbertClassifier, AlbertTextClassifier
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.text_embedder import AlbertTextEmbedder
from keras_albert.tasks.token_classifier import AlbertTokenClassifier

__all__ = [
    "AlbertClassifier",
    "AlbertMultipleChoice",
    "AlbertTextClassifier",
    "AlbertTextEmbedder",
    "AlbertTokenClassifier",
]
