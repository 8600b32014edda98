"""Training steps at drawn depths."""

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_albert.pretraining.settings.config import PretrainingConfig

# Distinguishes the draws from those of batches and dropout, which count as well.
_DRAW = 2


def draw_depth(config: PretrainingConfig, step: int) -> int:
    """Draw the number of layers of a training step."""
    generator = np.random.default_rng([config.seed, step, _DRAW])
    most = config.backbone_arguments["num_layers"]
    least = most if config.min_layers is None else config.min_layers
    return int(generator.integers(least, most, endpoint=True))


def train_at_depths(
    task: Any, depths: range, depth_of_batch: Callable[[], int]
) -> None:
    """Let each call of a task's training step run another number of layers.

    Each depth has its compiled function, which is compiled when it is first drawn.
    """
    functions = {}
    for depth in depths:
        # Made now: during an epoch, Keras holds the weights on JAX, and a function on
        # several devices is made with their layout.
        view = task.with_num_layers(depth)
        view.make_train_function()
        functions[depth] = view.train_function

    def train(*args: Any) -> Any:
        return functions[depth_of_batch()](*args)

    task.train_function = train
