"""Pretraining: preparation of texts, optimizer and training."""

from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.pretraining.dataset import PretrainingBatches, PretrainingData
from keras_albert.pretraining.prepare.pipeline import (
    prepare_examples,
    train_vocabulary_on,
)
from keras_albert.pretraining.pretrain import pretrain
from keras_albert.tasks.optimizers import Lamb

__all__ = [
    "Lamb",
    "PretrainingBatches",
    "PretrainingConfig",
    "PretrainingData",
    "prepare_examples",
    "pretrain",
    "train_vocabulary_on",
]
