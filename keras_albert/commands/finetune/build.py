"""Builds the model that `finetune` trains."""

import argparse
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from keras_albert.backbone import AlbertBackbone
from keras_albert.commands.finetune.tasks import Data, Kind
from keras_albert.tasks.recipes import recipe
from keras_albert.text import AlbertTokenizer, train_vocabulary

# The model without a preset; trains in minutes on a CPU.
SMALL: dict[str, Any] = {
    "num_layers": 3,
    "num_heads": 4,
    "embedding_dim": 64,
    "hidden_dim": 128,
    "intermediate_dim": 512,
    "dropout": 0.2,
}

_MAX_LENGTH = 128


def build_task(kind: Kind, train: Data, arguments: argparse.Namespace) -> Any:
    """Build the task on a preset, or on a small model with random weights."""
    try:
        return _build_task(kind, train, arguments)
    except ValueError as error:
        # The name in Python is not that of the option.
        text = str(error).replace("max_sequence_length=", "--max-length ")
        text = text.replace("max_sequence_length", "--max-length")
        raise ValueError(text) from error


def _build_task(kind: Kind, train: Data, arguments: argparse.Namespace) -> Any:
    head = train.head | ({"exits": True} if arguments.exits else {})
    if arguments.recipe is not None:
        how = recipe(arguments.recipe)
        if arguments.max_length:
            how = replace(how, max_sequence_length=arguments.max_length)
        return how.build(kind.task, arguments.preset, **head)
    if arguments.preset is not None:
        load = kind.task.preprocessor_cls.from_preset
        length = arguments.max_length or min(
            _MAX_LENGTH, load(arguments.preset).max_sequence_length
        )
        preprocessor = load(arguments.preset, max_sequence_length=length)
        if kind.task.shared_head_layers:
            # The pretrained head was trained for the same task.
            return kind.task.from_preset(arguments.preset, preprocessor=preprocessor)
        backbone = AlbertBackbone.from_preset(arguments.preset)
    else:
        length = arguments.max_length or _MAX_LENGTH
        tokenizer, backbone = _small_model(train.texts(), length)
        preprocessor = kind.task.preprocessor_cls(tokenizer, max_sequence_length=length)
    return kind.task(backbone, preprocessor=preprocessor, **head)


def _small_model(
    texts: Iterable[str], max_sequence_length: int
) -> tuple[AlbertTokenizer, AlbertBackbone]:
    """Train a vocabulary and build a small backbone with random weights."""
    proto = train_vocabulary(texts, vocabulary_size=8000, hard_vocab_limit=False)
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        max_sequence_length=max_sequence_length,
        **SMALL,
    )
    return tokenizer, backbone
