"""Pretraining: preparation of texts, optimizer and training."""

from typing import TYPE_CHECKING

from keras_albert.utils.lazy import lazy_names

if TYPE_CHECKING:
    from keras_albert.pretraining.config import PretrainingConfig
    from keras_albert.pretraining.dataset import PretrainingBatches, PretrainingData
    from keras_albert.pretraining.prepare.pipeline import (
        prepare_examples,
        train_vocabulary_on,
    )
    from keras_albert.pretraining.train import pretrain
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

if not TYPE_CHECKING:
    _DATASET = ("PretrainingBatches", "PretrainingData")
    _PIPELINE = ("prepare_examples", "train_vocabulary_on")
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "keras_albert.pretraining.config": ("PretrainingConfig",),
            "keras_albert.pretraining.dataset": _DATASET,
            "keras_albert.pretraining.prepare.pipeline": _PIPELINE,
            "keras_albert.pretraining.train": ("pretrain",),
            "keras_albert.tasks.optimizers": ("Lamb",),
        },
    )
