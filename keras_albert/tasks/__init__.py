"""Models with a head: each takes raw strings."""

from keras_albert.tasks.classifier import AlbertClassifier, AlbertTextClassifier

__all__ = ["AlbertClassifier", "AlbertTextClassifier"]
