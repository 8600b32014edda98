"""Smaller models from trained ones: shared layers and factorized embeddings."""

from keras_albert.compression.compress import compress

__all__ = ["compress"]
