"""ALBERT on Keras 3: the same on TensorFlow, JAX and PyTorch."""

from keras_albert.backbone.albert_backbone import AlbertBackbone

__all__ = ["AlbertBackbone"]
