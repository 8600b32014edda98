"""Layers of the tasks' heads."""

from typing import Any

import keras
from keras import ops

from keras_albert.layers.base_layer import (
    AlbertLayer,
    albert_initializer,
    get_activation,
)
from keras_albert.layers.run_layers import run_layer
from keras_albert.types import Activation, DType, Tensor
from keras_albert.utils import arguments


def gather_tokens(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors of `x` at `positions` `(batch, slots)`."""
    if keras.config.backend() != "torch":
        return ops.take_along_axis(x, ops.expand_dims(positions, -1), axis=1)
    import torch  # noqa: PLC0415  (it is the backend)

    # Keras' operation makes the shape a constant when PyTorch traces it.
    index = ops.expand_dims(ops.cast(positions, "int64"), -1)
    return torch.gather(x, 1, index.expand(-1, -1, x.shape[-1]))


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedLMHead(AlbertLayer):
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
    """

    def __init__(
        self,
        token_embedding: keras.layers.Layer,
        activation: Activation = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        arguments.check_rates(layer_norm_epsilon=layer_norm_epsilon)
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

        Example:
            >>> import numpy as np
            >>> from keras_albert.layers import FactorizedEmbedding, MaskedLMHead
            >>> embedding = FactorizedEmbedding(100, embedding_dim=8, hidden_dim=16)
            >>> vectors = embedding(np.array([[2, 4, 3]]))
            >>> head = MaskedLMHead(embedding.token_embedding)
            >>> tuple(head(vectors, np.array([[1]])).shape)
            (1, 1, 100)
        """
        gathers = mask_positions is not None
        x = gather_tokens(inputs, mask_positions) if gathers else inputs
        x = run_layer(self.layer_norm, run_layer(self.transform, x))
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
        embedding = keras.layers.serialize(self.token_embedding)
        return super().get_config() | {"token_embedding": embedding}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MaskedLMHead":
        """Build a head with a separate embedding from the result of `get_config`."""
        embedding = keras.layers.deserialize(config["token_embedding"])
        return cls(**(config | {"token_embedding": embedding}))


@keras.saving.register_keras_serializable(package="keras_albert")
class ChoicesToRows(keras.layers.Layer):
    """Reshape the choices of all questions to the rows of one batch."""

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Reshape each `(questions, choices, length)` to `(rows, length)`."""
        rows = {
            name: ops.reshape(x, (-1, ops.shape(x)[-1])) for name, x in inputs.items()
        }
        mask = rows["padding_mask"]
        is_empty = ops.equal(ops.max(mask, axis=-1, keepdims=True), 0)
        is_first = ops.equal(ops.arange(ops.shape(mask)[-1], dtype="int32"), 0)
        shown = ops.logical_and(is_empty, ops.expand_dims(is_first, 0))
        rows["padding_mask"] = ops.maximum(mask, ops.cast(shown, mask.dtype))
        return rows

    def compute_output_spec(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the output shapes."""
        return {
            name: keras.KerasTensor((None, ids.shape[-1]), ids.dtype)
            for name, ids in inputs.items()
        }


# The score of a missing choice: its probability is zero, and it is finite, so that no
# difference of two scores is NaN.
MISSING_CHOICE = -1e9


@keras.saving.register_keras_serializable(package="keras_albert")
class ChoiceScores(keras.layers.Layer):
    """Reshape the scores of rows to one row of choices for each question."""

    def call(self, scores: Tensor, padding_mask: Tensor) -> Tensor:
        """Reshape `(rows, 1)` to `(questions, choices)`."""
        scores = ops.reshape(scores, ops.shape(padding_mask)[:2])
        is_present = ops.any(ops.cast(padding_mask, "bool"), axis=-1)
        return ops.where(is_present, scores, ops.cast(MISSING_CHOICE, scores.dtype))

    def compute_output_spec(self, scores: Any, padding_mask: Any) -> Any:
        """Return the output shape."""
        return keras.KerasTensor(padding_mask.shape[:2], scores.dtype)


@keras.saving.register_keras_serializable(package="keras_albert")
class ConditionalSpanHead(AlbertLayer):
    """Logits of starts, of ends given starts, and of having no answer.

    In training, the end is predicted from the true start. In prediction it is
    unknown, and the most likely starts are used instead: -1 in column k of
    `start_positions` is the k-th most likely start of the row, counted from 0.

    Source: google-research/albert's head for SQuAD v2, from
    [Yang et al., 2019](https://arxiv.org/abs/1906.08237).

    Args:
        dropout: float. Rate before the answerability logit. Defaults to `0.1`.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        dtype: string or `keras.DTypePolicy`. Defaults to `None`, the global policy.
            Logits are always float32.
        **kwargs: `name`, as on any Keras layer.

    Example:
        >>> import numpy as np
        >>> head, ones = ConditionalSpanHead(), np.ones((1, 6), "int32")
        >>> tokens, starts = np.zeros((1, 6, 8), "float32"), np.array([[-1, -1]])
        >>> logits = head(
        ...     tokens, segment_ids=ones, padding_mask=ones, start_positions=starts)
        >>> {name: tuple(part.shape) for name, part in sorted(logits.items())}
        {'answerability': (1, 1), 'end_logits': (1, 2, 6), 'start_logits': (1, 6)}
    """

    def __init__(
        self,
        dropout: float = 0.1,
        layer_norm_epsilon: float = 1e-12,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        arguments.check_rates(dropout=dropout, layer_norm_epsilon=layer_norm_epsilon)
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, input_shape: tuple[Any, ...]) -> None:
        """Create the weights for inputs `(batch, length, width)`."""
        width = input_shape[-1]
        policy: Any = {"dtype": self.dtype_policy}
        epsilon = self.layer_norm_epsilon
        self.start = _dense(1, "start", dtype="float32")
        self.end_dense = _dense(width, "end_dense", activation="tanh", **policy)
        self.end_layer_norm = keras.layers.LayerNormalization(
            epsilon=epsilon, name="end_layer_norm", **policy
        )
        self.end = _dense(1, "end", dtype="float32")
        self.answerability_dense = _dense(
            width, "answerability_dense", activation="tanh", **policy
        )
        self.answerability_dropout = keras.layers.Dropout(
            self.dropout, name="answerability_dropout", **policy
        )
        self.answerability = _dense(1, "answerability", use_bias=False, dtype="float32")
        for layer in (self.start, self.end, self.answerability):
            layer.build((None, width))
        # Keras 3.16 counts axes from the first: its inputs have one of starts.
        self.end_layer_norm.build((None, None, None, width))
        for layer in (self.end_dense, self.answerability_dense):
            layer.build((None, 2 * width))
        self.built = True

    def call(
        self,
        inputs: Tensor,
        segment_ids: Tensor,
        padding_mask: Tensor,
        start_positions: Tensor,
        training: bool | None = None,
    ) -> dict[str, Tensor]:
        """Compute the logits.

        Args:
            inputs: Float tensor `(batch, length, width)`, the backbone's
                `sequence_output`.
            segment_ids: Integer tensor `(batch, length)`, 1 in the context.
            padding_mask: Integer tensor `(batch, length)`, 0 at padding.
            start_positions: Integer tensor `(batch, starts)`. The starts to predict
                ends for; -1 for the most likely ones of the row.
            training: bool. Whether dropout is on.

        Returns:
            A dict of float32 tensors: `start_logits` `(batch, length)`, `end_logits`
            `(batch, starts, length)` and `answerability` `(batch, 1)`, which is high
            where there is no answer.

        Example:
            >>> import numpy as np
            >>> from keras_albert.layers import ConditionalSpanHead
            >>> head = ConditionalSpanHead()
            >>> ones, starts = np.ones((1, 6)), np.array([[2, 3]])
            >>> outputs = head(np.ones((1, 6, 16)), ones, ones, starts)
            >>> tuple(outputs["end_logits"].shape)
            (1, 2, 6)
        """
        mask = span_mask(segment_ids, padding_mask)
        start_logits = mask_logits(ops.squeeze(self.start(inputs), -1), mask)
        starts = fill_starts(start_positions, start_logits)
        features = gather_tokens(inputs, starts)
        end_logits = self._end_logits(inputs, features)
        return {
            "start_logits": start_logits,
            "end_logits": mask_logits(end_logits, ops.expand_dims(mask, 1)),
            "answerability": self._answerability(inputs, start_logits, training),
        }

    def _end_logits(self, inputs: Tensor, features: Tensor) -> Tensor:
        # The dense layer on [token, start] in two halves: the first, nearly all of the
        # work, is the same for all starts.
        width = inputs.shape[-1]
        kernel = ops.convert_to_tensor(self.end_dense.kernel)
        inputs, features, kernel = (
            ops.cast(x, self.compute_dtype) for x in (inputs, features, kernel)
        )
        of_tokens = ops.expand_dims(ops.matmul(inputs, kernel[:width]), 1)
        of_starts = ops.matmul(features, kernel[width:])
        bias = ops.cast(self.end_dense.bias, self.compute_dtype)
        x = of_tokens + ops.expand_dims(of_starts + bias, 2)
        x = self.end_layer_norm(self.end_dense.activation(x))
        return ops.squeeze(self.end(x), -1)

    def _answerability(
        self, inputs: Tensor, start_logits: Tensor, training: bool | None
    ) -> Tensor:
        weights = ops.cast(ops.softmax(start_logits, axis=-1), self.compute_dtype)
        inputs = ops.cast(inputs, self.compute_dtype)
        expected = ops.squeeze(ops.matmul(ops.expand_dims(weights, 1), inputs), 1)
        x = ops.concatenate([expected, inputs[:, 0]], axis=-1)
        x = self.answerability_dense(x)
        return self.answerability(self.answerability_dropout(x, training=training))

    def compute_output_spec(
        self,
        inputs: Any,
        segment_ids: Any,
        padding_mask: Any,
        start_positions: Any,
        training: bool | None = None,
    ) -> dict[str, keras.KerasTensor]:
        """Return symbolic outputs, float32 under any policy."""
        batch, length = inputs.shape[:2]
        shapes = {
            "start_logits": (batch, length),
            "end_logits": (batch, start_positions.shape[1], length),
            "answerability": (batch, 1),
        }
        return {name: keras.KerasTensor(x, "float32") for name, x in shapes.items()}


def fill_starts(start_positions: Tensor, start_logits: Tensor) -> Tensor:
    """Replace -1 by the most likely starts; a short row repeats its last one."""
    order = ops.cast(ops.argsort(-start_logits, axis=-1), "int32")
    start_positions = ops.cast(start_positions, "int32")
    rank = ops.cumsum(ops.ones_like(start_positions), axis=1) - 1
    # Sizes are computed from tensors: PyTorch's trace would keep them as constants.
    length = ops.sum(ops.ones_like(order), axis=1, keepdims=True)
    rank = ops.minimum(rank, length - 1)
    likeliest = ops.squeeze(gather_tokens(ops.expand_dims(order, -1), rank), -1)
    return ops.where(start_positions >= 0, start_positions, likeliest)


def _dense(units: int, name: str, **kwargs: Any) -> keras.layers.Dense:
    return keras.layers.Dense(
        units, kernel_initializer=albert_initializer(), name=name, **kwargs
    )


# The logit of a masked position, as in the reference.
MASKED_LOGIT = -1e30


def span_mask(segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    """Mark the positions of the context, and `[CLS]`, which means "no answer"."""
    # The last token of a row is its second [SEP], followed by padding or nothing.
    tokens = ops.cast(padding_mask, "int32")
    place = ops.cumsum(tokens, axis=1)
    in_context = ops.equal(segment_ids, 1) & (place < place[:, -1:])
    # Equal at the first token alone.
    return in_context | ops.equal(place, tokens)


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Set the logits of masked positions to `MASKED_LOGIT`."""
    return ops.where(mask, logits, MASKED_LOGIT)


@keras.saving.register_keras_serializable(package="keras_albert")
class ExitHeads(AlbertLayer):
    """A dense layer for each virtual layer, as one tensor of weights."""

    # Source: [Zhou et al., 2020](https://arxiv.org/abs/2006.04152).

    def __init__(
        self,
        num_exits: int,
        units: int,
        activation: Activation | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        arguments.check_positive(num_exits=num_exits, units=units)
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
        """Run the head `exit`, or the first heads on `(batch, layers, width)`."""
        if isinstance(exit, int) and exit >= self.num_exits:
            # Backends would run another head.
            raise ValueError(
                f"The model has heads after {self.num_exits} layers. Received: "
                f"num_layers={exit + 1}. Run fewer, or train a deeper model."
            )
        if exit is None:
            layers = inputs.shape[1]
            kernel, bias = self.kernel[:layers], self.bias[:layers]
            outputs = ops.einsum("beh,ehc->bec", inputs, kernel)
        else:
            kernel, bias = (ops.take(x, exit, axis=0) for x in (self.kernel, self.bias))
            outputs = ops.matmul(inputs, kernel)
        return self.activation(outputs + bias)
