"""The head for answer spans, with ends conditioned on starts."""

from typing import Any

import keras
from keras import ops

from keras_albert.layers.gather_tokens import gather_tokens
from keras_albert.layers.randomness import albert_initializer
from keras_albert.types import DType, Tensor
from keras_albert.utils.arguments import check_epsilon, check_rates, refuse_unknown


@keras.saving.register_keras_serializable(package="keras_albert")
class ConditionalSpanHead(keras.layers.Layer):
    """Logits of starts, of ends given starts, and of having no answer.

    In training, the end is predicted from the true start. In prediction it is
    unknown, and the most likely starts are used instead: -1 in column k of
    `start_positions` is the k-th most likely start of the row, counted from 0.

    Source: the head of google-research/albert for SQuAD v2, which is that of
    [Yang et al., 2019](https://arxiv.org/abs/1906.08237).

    Args:
        dropout: float. Rate before the answerability logit. Defaults to `0.1`.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        dtype: string or `keras.DTypePolicy`. Defaults to `None`, the global policy.
            Logits are always float32.
        **kwargs: `name`, as on any Keras layer.

    Example:
        >>> import numpy as np
        >>> head = ConditionalSpanHead()
        >>> logits = head(
        ...     np.zeros((1, 6, 8), "float32"),
        ...     segment_ids=np.array([[0, 0, 0, 1, 1, 1]]),
        ...     padding_mask=np.ones((1, 6), "int32"),
        ...     start_positions=np.array([[-1, -1]]))
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
        refuse_unknown(type(self), kwargs)
        super().__init__(dtype=dtype, **kwargs)
        check_rates(dropout=dropout)
        check_epsilon(layer_norm_epsilon)
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon

    def build(self, input_shape: tuple[Any, ...]) -> None:
        """Create the weights for inputs `(batch, length, width)`."""
        width = input_shape[-1]
        self.start = _dense(1, "start", dtype="float32")
        self.end_dense = _dense(
            width, "end_dense", activation="tanh", dtype=self.dtype_policy
        )
        self.end_layer_norm = keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name="end_layer_norm",
        )
        self.end = _dense(1, "end", dtype="float32")
        self.answerability_dense = _dense(
            width, "answerability_dense", activation="tanh", dtype=self.dtype_policy
        )
        self.answerability_dropout = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name="answerability_dropout"
        )
        self.answerability = _dense(1, "answerability", use_bias=False, dtype="float32")
        for layer in (self.start, self.end_layer_norm, self.end, self.answerability):
            layer.build((None, width))
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
        # The layer on [token, start] in two halves: that of the tokens, which is
        # nearly all of the work, is the same for all starts.
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

    def compute_output_shape(
        self, input_shape: Any, *shapes: Any, **named_shapes: Any
    ) -> dict[str, tuple[int | None, ...]]:
        """Return the output shapes; the number of starts is known in `call` only."""
        batch, length = input_shape[:2]
        return {
            "start_logits": (batch, length),
            "end_logits": (batch, None, length),
            "answerability": (batch, 1),
        }

    def compute_output_spec(
        self, inputs: Any, *masks: Any, **kwargs: Any
    ) -> dict[str, keras.KerasTensor]:
        """Return symbolic outputs, float32 under any policy."""
        starts = kwargs["start_positions"] if "start_positions" in kwargs else masks[-1]
        shapes = self.compute_output_shape(inputs.shape)
        shapes["end_logits"] = (inputs.shape[0], starts.shape[1], inputs.shape[1])
        return {name: keras.KerasTensor(x, "float32") for name, x in shapes.items()}

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(dropout=self.dropout, layer_norm_epsilon=self.layer_norm_epsilon)
        return config


def fill_starts(start_positions: Tensor, start_logits: Tensor) -> Tensor:
    """Replace -1 by the most likely starts.

    A row with fewer positions than requested starts repeats its last one.
    """
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
    """Mark the positions that may begin or end an answer.

    A row is `[CLS] question [SEP] context [SEP]`. The positions are those of the
    context and `[CLS]`, which means "no answer here".
    """
    # The last token of a row is its second [SEP], followed by padding or nothing. A
    # mask that is shifted by one has a length for which PyTorch traces no program.
    tokens = ops.cast(padding_mask, "int32")
    total = ops.sum(tokens, axis=1, keepdims=True)
    is_followed = ops.less(ops.cumsum(tokens, axis=1), total)
    in_context = ops.logical_and(ops.equal(segment_ids, 1), is_followed)
    ones = ops.ones_like(segment_ids)
    is_first = ops.equal(ops.cumsum(ones, axis=1), 1)
    return ops.logical_or(in_context, is_first)


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Set the logits of masked positions to `MASKED_LOGIT`."""
    return ops.where(mask, logits, MASKED_LOGIT)
