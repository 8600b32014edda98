"""From raw text to a pretrained model: data, optimizer and training."""

from keras_albert.pretraining.lamb import Lamb

__all__ = ["Lamb"]
