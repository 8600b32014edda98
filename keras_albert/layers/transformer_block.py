"""One post-layer-norm transformer block."""

import functools
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_albert.layers import run_layers
from keras_albert.layers.attention import attend, attend_fused, use_fused_attention
from keras_albert.layers.base_layer import (
    AlbertLayer,
    StepSeed,
    albert_initializer,
    derive_seeds,
    get_activation,
)
from keras_albert.types import Activation, DType, Tensor
from keras_albert.utils.arguments import check_rates

# Dropouts in a block: attention probabilities, attention output, feed-forward.
DROPOUTS_PER_BLOCK = 3

# The dense layers of a block.
DENSE_LAYERS = (
    *("query", "key", "value", "attention_output"),
    *("feedforward_intermediate", "feedforward_output"),
)
_NORM_LAYERS = ("attention_layer_norm", "feedforward_layer_norm")


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
        self._activate = get_activation(activation)
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
        x = self._activate(dense("feedforward_intermediate", attended))
        x = dense("feedforward_output", x)
        x = ops.add(attended, drop(x, self.dropout, site=2))
        x = run_layers.run_layer(self.feedforward_layer_norm, x)
        return (x, scores) if return_attention_scores else x

    def compute_output_shape(
        self, input_shape: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """Return the output shape, which is the input's."""
        return input_shape


def bare_weights(
    block: TransformerBlock, may_pack: bool
) -> dict[tuple[str, str], Any] | None:
    """Return PyTorch's tensors for `run_bare`; `None` if it cannot run."""
    dense = {name: getattr(block, name) for name in DENSE_LAYERS}
    norms = {name: getattr(block, name) for name in _NORM_LAYERS}
    layers = dense | norms
    is_own = type(block) is TransformerBlock
    if not (
        is_own
        and run_layers.is_bare()
        and run_layers.has_plain_weights(*layers.values())
    ):
        return None
    pairs = [(name, kind) for name in dense for kind in ("kernel", "bias")]
    pairs += [(name, kind) for name in norms for kind in ("gamma", "beta")]
    found = {pair: getattr(layers[pair[0]], pair[1]) for pair in pairs}
    # A kernel with LoRA is a tensor.
    weights = {pair: getattr(w, "value", w) for pair, w in found.items()}
    if not may_pack:
        return weights
    for name, parts in _PRODUCTS.items():
        kernels = [weights[part, "kernel"] for part in parts]
        weights[name, "packed"] = run_layers.pack_kernels(*kernels)
    if weights["attention", "packed"] is not None:
        biases = [weights[name, "bias"] for name in _PRODUCTS["attention"]]
        weights["attention", "bias"] = ops.concatenate(biases)
    return weights


# The dense layers of each product, if their kernels are packed.
_PRODUCTS = {"attention": DENSE_LAYERS[:3]} | {x: (x,) for x in DENSE_LAYERS[3:]}


def run_bare(
    block: TransformerBlock,
    inputs: Any,
    weights: Mapping[tuple[str, str], Any],
    attention_mask: Tensor | None,
    adapters: Mapping[str, tuple[Any, ...]],
) -> Tensor:
    """Compute as the block without training, by PyTorch's functions alone.

    Keras' operations take as long as the products of a few tokens. A mask is the
    numbers that are added to logits.
    """
    from torch.nn import functional  # noqa: PLC0415  (it is the backend)

    head_dim = inputs.shape[-1] // block.num_heads
    shape = (*inputs.shape[:2], block.num_heads, head_dim)

    def dense(name: str, x: Any, activation: Any = None) -> Any:
        own = weights[name, "kernel"], weights[name, "bias"]
        packed = weights.get((name, "packed"))
        factors = adapters.get(name)
        if not factors:
            return run_layers.bare_product(x, *own, activation, packed)
        output = run_layers.bare_product(x, *own, packed=packed)
        for matrix in factors:
            x = run_layers.bare_product(x, matrix, None)
        return output + x if activation is None else activation(output + x)

    def norm(name: str, x: Any) -> Any:
        vectors = weights[name, "gamma"], weights[name, "beta"]
        return functional.layer_norm(
            x, x.shape[-1:], *vectors, block.layer_norm_epsilon
        )

    joined = weights.get(("attention", "packed"))
    if joined is None or adapters:
        parts = [dense(name, inputs).view(shape) for name in DENSE_LAYERS[:3]]
    else:
        bias = weights["attention", "bias"]
        x = run_layers.bare_product(inputs, joined, bias, packed=joined)
        parts = x.view(*shape[:2], 3, *shape[2:]).unbind(2)
    query, key, value = (part.transpose(1, 2) for part in parts)
    x = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask
    )
    x = dense("attention_output", x.transpose(1, 2).reshape(inputs.shape))
    attended = norm("attention_layer_norm", inputs + x)
    x = dense("feedforward_intermediate", attended, block._activate)
    x = attended + dense("feedforward_output", x)
    return norm("feedforward_layer_norm", x)
