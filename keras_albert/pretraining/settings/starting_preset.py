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
    """Read the architecture of a preset.

    Args:
        preset: string. As `from_preset` takes it.

    Returns:
        Arguments of `AlbertBackbone`.

    Raises:
        ValueError: If there is no such preset, or it is damaged.
    """
    config = AlbertBackbone.from_preset(preset, load_weights=False).get_config()
    return {name: config[name] for name in config if name not in _OF_THE_RUN}


def load_starting_weights(task: Any, preset: str) -> None:
    """Set the weights of a task to those of a preset.

    Layers share their weights, so that a model with more or fewer of them can start
    from the same preset. If the task has more positions, the preset's position
    embeddings are repeated: what they encode about neighbouring positions applies there
    too ([Beltagy et al., 2020](https://arxiv.org/abs/2004.05150), section 5). Weights
    that the preset's head lacks are random.

    Args:
        task: The result of `build_pretrainer`.
        preset: string. As `from_preset` takes it.

    Raises:
        ValueError: If its vocabulary is not the data's, or its weights have other
            shapes.
    """
    start = type(task).from_preset(preset)
    if start.preprocessor.tokenizer.proto != task.preprocessor.tokenizer.proto:
        msg = (
            f"{preset} has another vocabulary than the data. Prepare them with its "
            f"own: keras-albert prepare --vocabulary {preset}"
        )
        raise ValueError(msg)
    positions = task.backbone.embedding.position_embedding.position_embeddings
    pairs = [
        (new, old if new is not positions else repeat_rows(old, new.shape[0]))
        for old, new in zip(start.weights, task.weights, strict=True)
    ]
    differ = [
        f"{new.path} has {tuple(old.shape)} and the run {tuple(new.shape)}"
        for new, old in pairs
        if tuple(old.shape) != tuple(new.shape)
    ]
    if differ:
        msg = (
            f"{preset} has weights of other shapes: {'; '.join(differ)}. Leave out the "
            "settings of the backbone that change them."
        )
        raise ValueError(msg)
    for new, old in pairs:
        new.assign(old)


def repeat_rows(rows: Any, count: int) -> Any:
    """Return rows, repeated or cut to `(count, width)`."""
    return np.resize(keras.ops.convert_to_numpy(rows), (count, rows.shape[1]))
