"""Pretraining that starts from a preset instead of random weights."""

import functools
from typing import Any

import keras
import numpy as np

from keras_albert.backbone.albert_backbone import AlbertBackbone

# Arguments that the run sets: how it computes, and what depends on the data.
_OF_THE_RUN = {
    *("name", "trainable", "dtype", "remat", "unroll", "seed"),
    "vocabulary_size",
}


@functools.cache
def backbone_of_preset(preset: str) -> dict[str, Any]:
    """Read the architecture of a preset."""
    config = AlbertBackbone.from_preset(preset, load_weights=False).get_config()
    return {name: config[name] for name in config if name not in _OF_THE_RUN}


def load_starting_weights(task: Any, preset: str) -> None:
    """Set the weights of a task to those of a preset.

    Layers share their weights, so that a model with more or fewer of them can start
    from the same preset. If the task has more positions, the preset's position
    embeddings are repeated: what they encode about neighbouring positions applies there
    too ([Beltagy et al., 2020](https://arxiv.org/abs/2004.05150), section 5). Weights
    that the preset's head lacks are random.
    """
    start = type(task).from_preset(preset)
    if start.preprocessor.tokenizer.proto != task.preprocessor.tokenizer.proto:
        msg = (
            f"{preset} has a different vocabulary from the data. Prepare the data with "
            f"that vocabulary: keras-albert prepare --vocabulary {preset}"
        )
        raise ValueError(msg)
    positions = task.backbone.embedding.position_embedding.position_embeddings
    pairs = []
    for old, new in zip(start.weights, task.weights, strict=True):
        values: Any = old
        if new is positions:
            rows = keras.ops.convert_to_numpy(old)
            values = np.resize(rows, (new.shape[0], rows.shape[1]))
        pairs.append((new, values))
    differ = [
        f"{new.path} is {tuple(old.shape)} in the preset and {tuple(new.shape)} in the "
        "run"
        for new, old in pairs
        if tuple(old.shape) != tuple(new.shape)
    ]
    if differ:
        msg = (
            f"The weights of {preset} have other shapes: {'; '.join(differ)}. Leave "
            "out the settings of the backbone that change them."
        )
        raise ValueError(msg)
    for new, old in pairs:
        new.assign(old)
