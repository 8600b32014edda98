"""A model that survives an error in the middle of an epoch."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from keras_albert.utils.keras_internals import has_no_value


@contextmanager
def kept_weights(model: Any) -> Iterator[None]:
    """Give a model its weights back if the block raises.

    On JAX, Keras takes the weights out of a model while it goes through batches, and
    loses them if one raises or somebody presses Ctrl-C. On the other backends there
    is nothing to do.

    Args:
        model: A `keras.Model`.
    """
    if keras.config.backend() != "jax":
        yield
        return
    variables = [*model.variables, *model.metrics_variables]
    if model.optimizer is not None:
        variables += model.optimizer.variables
    held = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        # After the first step Keras knows newer ones.
        model.jax_state_sync()
        for variable, value in held:
            if has_no_value(variable) and not value.is_deleted():
                variable.assign(value)
        raise
