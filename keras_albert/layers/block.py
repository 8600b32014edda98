"""One post-layer-norm transformer block, and its attention."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from keras_albert.layers import run_layers
from keras_albert.layers.base_layer import (
    AlbertLayer,
    StepSeed,
    albert_initializer,
    derive_seeds,
    get_activation,
)
from keras_albert.layers.torch_inference import added_mask
from keras_albert.types import Activation, DType, Tensor
from keras_albert.utils.arguments import check_rates

# Dropouts in a block: attention probabilities, attention output, feed-forward.
DROPOUTS_PER_BLOCK = 3


@keras.saving.register_keras_serializable(package="keras_albert")
class TransformerBlock(AlbertLayer):
    """Self-attention and a feed-forward net, each followed by add and LayerNorm.

    The layer keeps no random state: the `seed` argument of `call` determines its
    dropout, so that the block can run inside a compiled loop.
    Source: [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), in the
    arrangement of [Lan et al., 2020](https://arxiv.org/abs/1909.11942).

    Args:
        num_heads: int. Attention heads; must divide the width of the input.
        intermediate_dim: int. Width of the feed-forward net's inner layer.
        dropout: float. Rate after the attention and after the feed-forward net.
            Defaults to `0.0`.
        attention_dropout: float. Rate on the attention probabilities. Defaults to
            `0.0`; above 0, training cannot use a fused attention kernel.
        activation: string or callable. Defaults to `"gelu_approximate"`.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        seed: int or `None`. Seed of the initial weights. Defaults to `None`.
        dtype: string or `keras.DTypePolicy`. LayerNorm and softmax always compute
            in float32. Defaults to `None`, the global policy.
        **kwargs: `name` and `trainable`, as on any Keras layer.

    Raises:
        ValueError: If `num_heads` does not divide the width of the input.

    Example:
        >>> import numpy as np
        >>> from keras_albert.layers import TransformerBlock
        >>> block = TransformerBlock(num_heads=2, intermediate_dim=16)
        >>> tuple(block(np.zeros((1, 3, 8), "float32")).shape)
        (1, 3, 8)
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation: Activation = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        seed: int | None = None,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        check_rates(
            dropout=dropout,
            attention_dropout=attention_dropout,
            layer_norm_epsilon=layer_norm_epsilon,
        )
        self.num_heads = num_heads
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.seed = seed
        self._seeds = derive_seeds(seed, 6)
        self.activate = get_activation(activation)
        self.supports_masking = True

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        return keras.layers.Dense(
            units,
            kernel_initializer=albert_initializer(next(self._seeds)),
            dtype=self.dtype_policy,
            name=name,
        )

    def _layer_norm(self, name: str) -> keras.layers.LayerNormalization:
        return keras.layers.LayerNormalization(
            epsilon=self.layer_norm_epsilon, dtype=self.dtype_policy, name=name
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for inputs `(batch, length, width)`."""
        width = input_shape[-1]
        if width is None or width % self.num_heads:
            raise ValueError(
                f"The width {width} is not a multiple of `num_heads={self.num_heads}`. "
                "Change `hidden_dim` or `num_heads`."
            )
        self.query = self._dense(width, "query")
        self.key = self._dense(width, "key")
        self.value = self._dense(width, "value")
        self.attention_output = self._dense(width, "attention_output")
        self.attention_layer_norm = self._layer_norm("attention_layer_norm")
        self.feedforward_intermediate = self._dense(
            self.intermediate_dim, "feedforward_intermediate"
        )
        self.feedforward_output = self._dense(width, "feedforward_output")
        self.feedforward_layer_norm = self._layer_norm("feedforward_layer_norm")
        inner_shape = (*input_shape[:-1], self.intermediate_dim)
        for layer in (self.query, self.key, self.value, self.attention_output):
            layer.build(input_shape)
        self.attention_layer_norm.build(input_shape)
        self.feedforward_intermediate.build(input_shape)
        self.feedforward_output.build(inner_shape)
        self.feedforward_layer_norm.build(input_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        seed: StepSeed | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        adapters: Mapping[str, tuple[Tensor, ...]] | None = None,
    ) -> Any:
        """Run the block.

        Args:
            inputs: Float tensor `(batch, length, width)`.
            attention_mask: Boolean tensor that broadcasts to
                `(batch, heads, length, length)`; True where a query may attend to a
                key.
            seed: `StepSeed`. The step's seed for this block. Required only for
                dropout.
            training: bool. Whether dropout is on.
            return_attention_scores: bool. Also return the probabilities,
                `(batch, heads, length, length)`. Defaults to `False`.
            adapters: Matrices by the name of a dense layer, such as `"query"`, whose
                product is added to its kernel. Defaults to `None`.

        Returns:
            The output, or `(output, probabilities)`.

        Example:
            >>> import numpy as np
            >>> from keras_albert.layers import TransformerBlock
            >>> block = TransformerBlock(num_heads=2, intermediate_dim=32)
            >>> output, scores = block(
            ...     np.ones((1, 5, 16)), return_attention_scores=True)
            >>> tuple(output.shape), tuple(scores.shape)
            ((1, 5, 16), (1, 2, 5, 5))
        """
        if training and seed is None and (self.dropout or self.attention_dropout):
            raise ValueError(
                "A `TransformerBlock` with dropout needs a `seed` to train. Call it "
                "through `SharedTransformerEncoder`, which draws one in each step."
            )

        def drop(x: Tensor, rate: float, site: int) -> Tensor:
            if seed is None or not (training and rate):
                return x
            site_seed = seed.at(site, DROPOUTS_PER_BLOCK)
            return keras.random.dropout(x, rate, seed=site_seed)

        # With -1, TensorFlow would lose the static width of a head.
        head_dim = inputs.shape[-1] // self.num_heads
        shape = (*ops.shape(inputs)[:2], self.num_heads, head_dim)
        factors = adapters or {}

        def dense(name: str, x: Tensor) -> Tensor:
            return run_layers.run_dense(getattr(self, name), x, factors.get(name, ()))

        query, key, value = (
            ops.reshape(dense(name, inputs), shape)
            for name in ("query", "key", "value")
        )
        is_open = return_attention_scores or (training and self.attention_dropout)
        scores = None
        if is_open or not use_fused_attention(query, training):
            drop_scores = functools.partial(drop, rate=self.attention_dropout, site=0)
            x, scores = attend(query, key, value, attention_mask, drop_scores)
        else:
            x = attend_fused(query, key, value, attention_mask)
        x = dense("attention_output", ops.reshape(x, ops.shape(inputs)))
        x = ops.add(inputs, drop(x, self.dropout, site=1))
        attended = run_layers.run_layer(self.attention_layer_norm, x)
        x = self.activate(dense("feedforward_intermediate", attended))
        x = dense("feedforward_output", x)
        x = ops.add(attended, drop(x, self.dropout, site=2))
        x = run_layers.run_layer(self.feedforward_layer_norm, x)
        return (x, scores) if return_attention_scores else x

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """Return the output shape, which is the input's."""
        return input_shape


# The longest input that counts as short; above it, another implementation is faster.
_SHORT = 128


def use_fused_attention(query: Tensor, training: bool | None) -> bool:
    """Return whether to use the backend's fused attention."""
    backend = keras.config.backend()
    dtype = keras.backend.standardize_dtype(query.dtype)
    if backend == "tensorflow":
        # Keras' implementation passes over the logits four times before the softmax,
        # `attend` once: 4% of a training step of 4 x 512 tokens.
        return False
    is_short = query.shape[1] <= _SHORT
    if backend == "jax":
        # JAX's kernels are for 16 bits, but float16 compiles for some GPUs only. In
        # float32 a training step of 8 x 128 takes 3% less time than with explicit
        # attention, and one of 4 x 512 takes 7% more.
        return bool(dtype == "bfloat16" or (dtype == "float32" and is_short))
    # The fused backward pass in 16 bits takes 2.4 times as long as the explicit one
    # for 8 x 128 tokens, half as long for 4 x 512.
    is_slow = dtype != "float32" and getattr(query, "is_cpu", False) and is_short
    return not (training and is_slow)


def attend_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Attend by the backend's function; `mask` is True where a query may look."""
    if keras.config.backend() != "torch":
        if mask is not None:
            # cuDNN's kernel, which JAX uses on GPUs, refuses a mask for all queries.
            lengths = ops.shape(query)[1], ops.shape(key)[1]
            mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], *lengths))
        return ops.dot_product_attention(query, key, value, mask=mask)
    import torch  # noqa: PLC0415  (it is the backend)

    if mask is not None:
        mask = added_mask(mask, query.dtype)
    # Keras would copy all three first, and check for CUDA, which stops `torch.compile`.
    heads_first = (each.transpose(1, 2) for each in (query, key, value))
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(*heads_first, attn_mask=mask).transpose(1, 2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    drop: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Attend explicitly, with dropout; also return float32 probabilities."""
    # Queries and masks are smaller than logits, so scaling and masking start there;
    # a sum costs nothing in the backward pass.
    scaled = query * (1 / math.sqrt(query.shape[-1]))
    logits = ops.cast(ops.einsum("bthd,bshd->bhts", scaled, key), "float32")
    if mask is not None:
        # Finite, as above.
        logits = logits + ops.where(mask, 0.0, -1e30)
    scores = ops.softmax(logits, axis=-1)
    kept = ops.cast(drop(scores), value.dtype)
    return ops.einsum("bhts,bshd->bthd", kept, value), scores


def merge_masks(
    padding_mask: Tensor | None, attention_mask: Tensor | None
) -> Tensor | None:
    """Merge both masks into one for all layers, `None` if nothing is masked."""
    mask = None
    if padding_mask is not None:
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), (1, 2))
    if attention_mask is None:
        return mask
    other = ops.cast(attention_mask, "bool")
    other = ops.expand_dims(other, 1) if len(other.shape) == 3 else other
    return other if mask is None else ops.logical_and(mask, other)
