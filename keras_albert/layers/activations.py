"""Activations of released ALBERT checkpoints."""

from collections.abc import Callable
from typing import Any

import keras

from keras_albert.types import Activation, Tensor

# google-research/albert computes the tanh form and calls it "gelu"; transformers
# calls the tanh form "gelu_new" or "gelu_pytorch_tanh"; in Keras, "gelu" is the
# erf form. "gelu_approximate" is unambiguous.
_TANH_GELU_NAMES = frozenset({"gelu_approximate", "gelu_new", "gelu_pytorch_tanh"})


@keras.saving.register_keras_serializable(package="keras_albert")
def gelu_approximate(x: Tensor) -> Tensor:
    """Apply the tanh form of the Gaussian error linear unit.

    Source: [Hendrycks and Gimpel, 2016](https://arxiv.org/abs/1606.08415).
    """
    return keras.activations.gelu(x, approximate=True)


def get_activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the activation function of a name."""
    if isinstance(activation, str) and activation in _TANH_GELU_NAMES:
        function: Callable[[Tensor], Tensor] = gelu_approximate
        return function
    try:
        found: Callable[[Tensor], Tensor] = keras.activations.get(activation)
    except ValueError as error:
        msg = (
            f"There is no activation {activation!r}. Use 'gelu_approximate' (the tanh "
            "form, as in ALBERT), 'gelu' (the erf form), 'relu', another Keras "
            "activation name, or a function."
        )
        raise ValueError(msg) from error
    return found


def serialize_activation(activation: Activation) -> Any:
    """Convert an activation to its form in a config file."""
    if isinstance(activation, str):
        return activation
    return keras.activations.serialize(activation)
