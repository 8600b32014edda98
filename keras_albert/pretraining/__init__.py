"""Pretraining: preparation of texts, optimizer and training."""

from keras_albert.pretraining.data.batches import PretrainingBatches
from keras_albert.pretraining.data.dataset import PretrainingData
from keras_albert.pretraining.model.lamb import Lamb
from keras_albert.pretraining.prepare.pipeline import prepare_examples
from keras_albert.pretraining.prepare.vocabulary import train_vocabulary_on
from keras_albert.pretraining.pretrain import pretrain
from keras_albert.pretraining.settings.config import PretrainingConfig

__all__ = [
    "Lamb",
    "PretrainingBatches",
    "PretrainingConfig",
    "PretrainingData",
    "prepare_examples",
    "pretrain",
    "train_vocabulary_on",
]
