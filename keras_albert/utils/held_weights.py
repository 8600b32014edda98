"""Weights that Keras holds on JAX while it trains or evaluates a model."""

from collections.abc import Iterable
from typing import Any

import keras

from keras_albert.utils.keras_internals import has_no_value

# What a callback or another thread has done.
IN_USE = (
    "On JAX a model has no weights while `fit`, `evaluate` or `train_on_batch` runs, "
    "and one of them is running. Wait until it has returned, or load the preset a "
    "second time to predict meanwhile; a callback calls "
    "`self.model.jax_state_sync()` first."
)


def explain_held(error: Exception, variables: Iterable[Any]) -> None:
    """Raise a `RuntimeError` if a call has failed because Keras holds the weights."""
    # Other errors, also while Keras traces a step.
    is_other = not any(word in str(error) for word in ("NoneType", "deleted"))
    if keras.config.backend() != "jax" or is_other:
        return
    if any(has_no_value(each) or each.value.is_deleted() for each in variables):
        raise RuntimeError(IN_USE) from error
