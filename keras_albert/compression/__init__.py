"""Smaller models from trained ones: shared layers and factorized embeddings."""

from keras_albert.compression.compress import compress
from keras_albert.compression.distill import distill

__all__ = ["compress", "distill"]
