"""Smaller models from trained ones: shared layers and factorized embeddings."""

from keras_albert.compression.compress import compress
from keras_albert.compression.distill import distill
from keras_albert.tasks.cloning import merge_adapters

__all__ = ["compress", "distill", "merge_adapters"]
