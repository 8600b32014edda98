"""From raw text to a pretrained model: data, optimizer and training."""

from keras_albert.pretraining.lamb import Lamb
from keras_albert.pretraining.pretrain import pretrain
from keras_albert.pretraining.pretraining_batches import PretrainingBatches
from keras_albert.pretraining.pretraining_config import PretrainingConfig
from keras_albert.pretraining.pretraining_data import PretrainingData

__all__ = [
    "Lamb",
    "PretrainingBatches",
    "PretrainingConfig",
    "PretrainingData",
    "pretrain",
]
