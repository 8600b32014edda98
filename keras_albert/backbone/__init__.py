"""The ALBERT model without a head, and the published sizes."""

from keras_albert.backbone.albert_backbone import AlbertBackbone, architecture

__all__ = ["AlbertBackbone", "architecture"]
