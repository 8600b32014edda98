"""Pretraining: preparation of texts, optimizer and training."""

from keras_albert.pretraining.lamb import Lamb
from keras_albert.pretraining.prepare_examples import prepare_examples
from keras_albert.pretraining.pretrain import pretrain
from keras_albert.pretraining.pretraining_batches import PretrainingBatches
from keras_albert.pretraining.pretraining_config import PretrainingConfig
from keras_albert.pretraining.pretraining_data import PretrainingData
from keras_albert.pretraining.train_vocabulary_on import train_vocabulary_on

__all__ = [
    "Lamb",
    "PretrainingBatches",
    "PretrainingConfig",
    "PretrainingData",
    "prepare_examples",
    "pretrain",
    "train_vocabulary_on",
]
