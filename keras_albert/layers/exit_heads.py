"""A head for each depth of a model."""

from typing import Any

import keras
from keras import ops

from keras_albert.layers.activations import serialize_activation
from keras_albert.layers.randomness import albert_initializer
from keras_albert.types import Activation, Tensor
from keras_albert.utils.arguments import check_positive, refuse_unknown


@keras.saving.register_keras_serializable(package="keras_albert")
class ExitHeads(keras.layers.Layer):
    """A dense layer for each virtual layer of an encoder, as one tensor of weights.

    Source: the internal classifiers of [Zhou et al.,
    2020](https://arxiv.org/abs/2006.04152).
    """

    def __init__(
        self,
        num_exits: int,
        units: int,
        activation: Activation | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        refuse_unknown(type(self), kwargs)
        super().__init__(dtype=dtype, **kwargs)
        check_positive(num_exits=num_exits, units=units)
        self.num_exits = num_exits
        self.units = units
        self.activation = keras.activations.get(activation)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for vectors `(..., width)`."""
        self.kernel = self.add_weight(
            (self.num_exits, input_shape[-1], self.units),
            initializer=albert_initializer(),
            name="kernel",
        )
        self.bias = self.add_weight(
            (self.num_exits, self.units), initializer="zeros", name="bias"
        )
        self.built = True

    def call(self, inputs: Tensor, exit: Any = None) -> Tensor:  # noqa: A002
        """Run one head or the first heads.

        `inputs` are `(batch, width)` for the head `exit`, counted from 0, or `(batch,
        layers, width)`, a vector for each of the first heads.
        """
        if exit is None:
            layers = inputs.shape[1]
            kernel, bias = self.kernel[:layers], self.bias[:layers]
            outputs = ops.einsum("beh,ehc->bec", inputs, kernel)
        else:
            kernel, bias = (
                ops.take(weights, exit, axis=0) for weights in (self.kernel, self.bias)
            )
            outputs = ops.matmul(inputs, kernel)
        activated: Tensor = self.activation(outputs + bias)
        return activated

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            num_exits=self.num_exits,
            units=self.units,
            activation=serialize_activation(self.activation),
        )
        return config
