"""The head that predicts masked tokens."""

from typing import Any

import keras
from keras import ops

from keras_albert.layers.activations import get_activation, serialize_activation
from keras_albert.layers.gather_tokens import gather_tokens
from keras_albert.layers.randomness import albert_initializer
from keras_albert.layers.run_layers import run_layer
from keras_albert.types import Activation, DType, Tensor
from keras_albert.utils.arguments import check_epsilon, refuse_unknown


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedLMHead(keras.layers.Layer):
    """Score each token of the vocabulary, at masked positions or at all positions.

    Vectors of width H are gathered at the positions, mapped to width E, normalized,
    and multiplied by the token embeddings, which the head shares with the backbone.
    Source: [Devlin et al., 2019](https://arxiv.org/abs/1810.04805), section 3.1, with
    ALBERT's narrow embeddings.

    Args:
        token_embedding: `keras.layers.ReversibleEmbedding`. The backbone's.
        activation: string or callable. Defaults to `"gelu_approximate"`.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        dtype: string or `keras.DTypePolicy`. The scores are always float32. Defaults
            to `None`, the global policy.
        **kwargs: `name` and `trainable`, as on any Keras layer.

    Example:
        >>> import keras
        >>> import numpy as np
        >>> from keras_albert.layers import MaskedLMHead
        >>> embedding = keras.layers.ReversibleEmbedding(100, 4)
        >>> head = MaskedLMHead(embedding)
        >>> encoded = np.zeros((2, 7, 8), "float32")
        >>> tuple(head(encoded, np.array([[1, 3], [2, 0]])).shape)
        (2, 2, 100)
        >>> tuple(head(encoded).shape)
        (2, 7, 100)
    """

    def __init__(
        self,
        token_embedding: keras.layers.Layer,
        activation: Activation = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        refuse_unknown(type(self), kwargs)
        super().__init__(dtype=dtype, **kwargs)
        check_epsilon(layer_norm_epsilon)
        self.token_embedding = token_embedding
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.transform = keras.layers.Dense(
            token_embedding.output_dim,
            activation=get_activation(activation),
            kernel_initializer=albert_initializer(),
            dtype=self.dtype_policy,
            name="transform",
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="layer_norm"
        )

    def build(
        self,
        inputs_shape: tuple[int | None, ...],
        mask_positions_shape: tuple[int | None, ...] | None = None,
    ) -> None:
        """Create the weights for vectors `(batch, length, hidden_dim)`."""
        if not self.token_embedding.built:
            self.token_embedding.build()
        gathered_shape = (*inputs_shape[:1], None, inputs_shape[-1])
        self.transform.build(gathered_shape)
        self.layer_norm.build((*gathered_shape[:2], self.token_embedding.output_dim))
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.token_embedding.input_dim,),
            initializer="zeros",
            # The scores are float32.
            autocast=False,
        )
        self.built = True

    def call(self, inputs: Tensor, mask_positions: Tensor | None = None) -> Tensor:
        """Score the vocabulary.

        Args:
            inputs: Float tensor `(batch, length, hidden_dim)`: the backbone's
                `sequence_output`.
            mask_positions: Integer tensor `(batch, slots)`. Defaults to `None`, all
                positions.

        Returns:
            float32 tensor `(batch, slots or length, vocabulary_size)`: logits.
        """
        x = inputs
        if mask_positions is not None:
            x = gather_tokens(x, mask_positions)
        x = self.layer_norm(run_layer(self.transform, x))
        scores = run_layer(self.token_embedding, x, reverse=True)
        return ops.cast(scores, "float32") + self.output_bias

    def compute_output_spec(
        self, inputs: Tensor, mask_positions: Tensor | None = None
    ) -> keras.KerasTensor:
        """Return the spec of the scores."""
        where = inputs if mask_positions is None else mask_positions
        shape = (*where.shape[:2], self.token_embedding.input_dim)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            token_embedding=keras.layers.serialize(self.token_embedding),
            activation=serialize_activation(self.activation),
            layer_norm_epsilon=self.layer_norm_epsilon,
        )
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MaskedLMHead":
        """Build a head with a separate embedding from the result of `get_config`."""
        embedding = keras.layers.deserialize(config["token_embedding"])
        return cls(**(config | {"token_embedding": embedding}))
