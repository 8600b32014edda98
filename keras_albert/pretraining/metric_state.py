"""The variables that losses and metrics keep while a model trains."""

from typing import Any

import keras
import numpy as np


def build_metrics(model: Any) -> None:
    """Create the variables of a compiled model's losses and metrics.

    Keras makes them when `fit` sees its first batch: too late to place them, and for
    that it takes a batch from an iterator, which is then not trained on.

    Args:
        model: A compiled model, each of whose outputs scores classes.
    """
    outputs = keras.tree.map_structure(
        lambda output: np.zeros([size or 1 for size in output.shape], "float32"),
        model.output,
    )
    targets = keras.tree.map_structure(
        lambda array: np.zeros(array.shape[:-1], "int32"), outputs
    )
    weights = keras.tree.map_structure(
        lambda array: np.ones(array.shape, "float32"), targets
    )
    outputs, targets, weights = keras.tree.map_structure(
        keras.ops.convert_to_tensor, (outputs, targets, weights)
    )
    # Where nothing is counted; the variables come to be as the scope ends.
    with keras.StatelessScope():
        model.compute_loss(None, targets, outputs, weights)
        model.compute_metrics(None, targets, outputs, weights)
