"""The variables that losses and metrics keep while a model trains."""

from typing import Any

import keras
import numpy as np


def build_metrics(model: Any, batch: Any) -> None:
    """Create the variables of a compiled model's losses and metrics.

    Keras makes them when `fit` sees its first batch: too late to place or to restore
    them, and for that it may take a batch from an iterator, which is then not trained
    on.

    Args:
        model: A compiled model.
        batch: `(x, y)` or `(x, y, sample_weight)`; of the arrays only shapes and
            dtypes are read.
    """

    def describe(array: Any) -> keras.KerasTensor:
        # One row says as much as all of them.
        return keras.KerasTensor((1, *array.shape[1:]), np.dtype(array.dtype).name)

    def fill(spec: Any) -> Any:
        return keras.ops.ones(spec.shape, spec.dtype)

    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    # By the model's own `call`, which need not be that of a functional model.
    outputs = keras.Operation.compute_output_spec(
        model, keras.tree.map_structure(describe, x), training=False
    )
    y, weights = keras.tree.map_structure(describe, (y, weights), none_is_leaf=False)
    # Where nothing is counted; the variables come to be as the scope ends.
    with keras.StatelessScope():
        outputs, y, weights = keras.tree.map_structure(
            fill, (outputs, y, weights), none_is_leaf=False
        )
        model.compute_loss(None, y, outputs, weights)
        model.compute_metrics(None, y, outputs, weights)
