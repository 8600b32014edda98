"""ALBERT's encoder: a few blocks, run many times."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_albert.layers import run_layers
from keras_albert.layers.adapters import LayerAdapters
from keras_albert.layers.base_layer import (
    AlbertLayer,
    PackedRows,
    StepSeed,
    derive_seeds,
    serialize_activation,
)
from keras_albert.layers.block import TransformerBlock, merge_masks
from keras_albert.layers.torch_inference import (
    encoder_layers,
    torch_step,
    use_torch_inference,
)
from keras_albert.types import Activation, DType, FloatArray, Tensor
from keras_albert.utils.arguments import (
    MAX_LAYERS,
    check_at_most,
    check_choice,
    check_depth,
    check_finite_and_positive,
    check_positive,
    check_rates,
)

# Arguments of `call` that add outputs.
_ALSO_RETURNED = ("return_hidden_states", "return_attention_scores", "pool_each_layer")


@keras.saving.register_keras_serializable(package="keras_albert")
class SharedTransformerEncoder(AlbertLayer):
    """A transformer encoder whose layers share their weights.

    `num_layers` virtual layers are divided among `num_groups` groups; each group
    contains `num_inner_repetitions` blocks with separate weights. Virtual layer `i`
    runs group `i * num_groups // num_layers`.
    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        num_layers: int. Number of virtual layers, each of which runs one group.
        num_heads: int. Attention heads of a block; must divide the input's width.
        intermediate_dim: int. Width of a block's feed-forward net.
        num_groups: int. Groups of blocks, at most `num_layers`. Defaults to `1`.
        num_inner_repetitions: int. Blocks in a group. Defaults to `1`.
        dropout: float. Rate after attention and feed-forward net; a new mask for
            each virtual layer. Defaults to `0.0`.
        attention_dropout: float. Rate on attention probabilities. Defaults to `0.0`.
        activation: string or callable. Defaults to `"gelu_approximate"`.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        remat: bool. Whether to recompute a virtual layer in the backward pass instead
            of keeping its activations: less memory, about a third more work. Defaults
            to `False`.
        unroll: bool or `None`. `True` unrolls the virtual layers in the program,
            `False` runs a compiled loop, so that a program does not grow with depth.
            Defaults to `None`: the faster one on the backend; PyTorch always unrolls.
        seed: int or `None`. Seed of the initial weights and of the dropout masks.
            Defaults to `None`.
        dtype: string or `keras.DTypePolicy`. Defaults to `None`, the global policy.
        adapter_rank: int or `None`. What a virtual layer adds to the weights that it
            shares: to each matrix one of this rank (LoRA by depth,
            [Bae et al., 2025](https://arxiv.org/abs/2410.20672)), and to each vector
            a vector. Defaults to `None`, which shares all weights.
        **kwargs: `name` and `trainable`, as on any Keras layer.

    Raises:
        ValueError: If a count is below 1, or `num_groups` exceeds `num_layers`.

    Example:
        >>> import numpy as np
        >>> from keras_albert.layers import SharedTransformerEncoder
        >>> encoder = SharedTransformerEncoder(12, num_heads=2, intermediate_dim=16)
        >>> x = np.zeros((1, 3, 8), "float32")
        >>> tuple(encoder(x, padding_mask=np.array([[1, 1, 0]])).shape)
        (1, 3, 8)
    """

    def __init__(
        self,
        num_layers: int,
        num_heads: int,
        intermediate_dim: int,
        num_groups: int = 1,
        num_inner_repetitions: int = 1,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation: Activation = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        remat: bool = False,
        unroll: bool | None = None,
        seed: int | None = None,
        dtype: DType = None,
        adapter_rank: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        check_rates(
            dropout=dropout,
            attention_dropout=attention_dropout,
            layer_norm_epsilon=layer_norm_epsilon,
        )
        check_positive(
            num_groups=num_groups, num_inner_repetitions=num_inner_repetitions
        )
        check_depth(num_layers, num_groups)
        check_at_most(MAX_LAYERS, num_inner_repetitions=num_inner_repetitions)
        if adapter_rank is not None:
            check_positive(adapter_rank=adapter_rank)
        self.num_layers = num_layers
        self.num_groups = num_groups
        self.num_inner_repetitions = num_inner_repetitions
        self.adapter_rank = adapter_rank
        # Built with the encoder, if it has a rank.
        self.adapters: LayerAdapters | None = None
        self.remat = remat
        self.unroll = unroll
        self.seed = seed
        self._block_arguments: dict[str, Any] = {
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "activation": activation,
            "layer_norm_epsilon": layer_norm_epsilon,
        }
        seeds = derive_seeds(seed, num_groups * num_inner_repetitions + 2)
        # One flat list, so that Keras tracks, saves and quantizes every block.
        self.blocks = [
            TransformerBlock(
                **self._block_arguments,
                seed=next(seeds),
                dtype=self.dtype_policy,
                name=f"group_{group}_block_{inner}",
            )
            for group in range(num_groups)
            for inner in range(num_inner_repetitions)
        ]
        seed_of_dropout, self._seed_of_adapters = seeds
        self.seed_generator = None
        if dropout or attention_dropout:
            self.seed_generator = keras.random.SeedGenerator(seed_of_dropout)
        self.supports_masking = True

    def group_of(self, layer: int, num_layers: int | None = None) -> int:
        """Return the group that a virtual layer runs; both are counted from 0."""
        return layer * self.num_groups // (num_layers or self.num_layers)

    def check_depth(self, num_layers: Any) -> None:
        """Raise for a number of layers that the encoder cannot run."""
        check_depth(num_layers, self.num_groups)
        if self.adapter_rank is None or num_layers == self.num_layers:
            return
        for group in range(self.num_groups):
            own = self._layers_of(group, self.num_layers)
            if len(self._layers_of(group, num_layers)) > len(own):
                raise ValueError(
                    f"This encoder has adapters for {self.num_layers} layers, "
                    f"{len(own)} of them in group {group}, and cannot run more. "
                    f"Received: num_layers={num_layers}"
                )

    def run_number(
        self, layer: Any, inner: int, group: int, num_layers: int | None = None
    ) -> Any:
        """Return the number of the adapters of a block, in the type of `layer`."""
        # If fewer layers run, a group has the adapters of its first layers.
        first, own_first = (
            self._layers_of(group, depth or self.num_layers).start
            for depth in (num_layers, None)
        )
        return (layer + own_first - first) * self.num_inner_repetitions + inner

    def layer_weights(
        self, layer: int, num_layers: int | None = None
    ) -> list[list[FloatArray]]:
        """Return the weights of each block of a virtual layer, with its adapters."""
        group = self.group_of(layer, num_layers)
        found: list[list[FloatArray]] = []
        for inner, block in enumerate(self.group_blocks(group)):
            if self.adapters is None:
                found.append(block.get_weights())
                continue
            number = self.run_number(layer, inner, group, num_layers)
            found.append(self.adapters.merged_weights(block, number))
        return found

    def _layers_of(self, group: int, num_layers: int) -> range:
        first, end = (-(-g * num_layers // self.num_groups) for g in (group, group + 1))
        return range(first, end)

    def group_blocks(self, group: int) -> list[TransformerBlock]:
        """Return the blocks of a group, in the order in which they run."""
        count = self.num_inner_repetitions
        return list(self.blocks[group * count : (group + 1) * count])

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for inputs `(batch, length, width)`."""
        for block in self.blocks:
            block.build(input_shape)
        width = input_shape[-1]
        # Blocks refuse an unknown width.
        if self.adapter_rank is not None and width is not None:
            count = self.num_layers * self.num_inner_repetitions
            inner = self._block_arguments["intermediate_dim"]
            self.adapters = LayerAdapters(
                *(count, self.adapter_rank, width, inner, self._seed_of_adapters),
                dtype=self.dtype_policy,
                name="adapters",
            )
        self.built = True

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        training: bool | None = None,
        return_hidden_states: bool = False,
        return_attention_scores: bool = False,
        pool_each_layer: Callable[[Tensor], Tensor] | None = None,
        return_cls: bool = False,
        num_layers: int | None = None,
        rows: PackedRows | None = None,
    ) -> Any:
        """Run all virtual layers.

        Args:
            inputs: Float tensor `(batch, length, width)`.
            padding_mask: Integer or boolean tensor `(batch, length)`; zero at
                padding, which no position attends to.
            attention_mask: Integer or boolean tensor `(batch, length, length)` or
                `(batch, heads or 1, length, length)`; nonzero where a query (the row)
                may attend to a key (the column).
            training: bool. Whether dropout is on.
            return_hidden_states: bool. Also return the list of the input and each
                virtual layer's output. Defaults to `False`.
            return_attention_scores: bool. Also return the list of each block's
                attention probabilities. Defaults to `False`.
            pool_each_layer: Callable or `None`. Maps a hidden state, in the rows of
                `inputs`, to a vector `(batch, width)`; also return this vector of each
                virtual layer's output, `(batch, num_layers, width)`. Defaults to
                `None`.
            return_cls: bool. Also return the last hidden state of each text's first
                token, `(batch, width)`; not with the lists. Defaults to `False`.
            num_layers: int. How many virtual layers to run, since all share their
                weights. Defaults to `None`, the encoder's.
            rows: The rows that texts share, a `PackedRows`; `inputs` are then
                `(rows, width, dim)`. Defaults to `None`.

        Returns:
            The last hidden state `(batch, length, width)`, followed by each
            requested list, or by what else is requested.

        Raises:
            ValueError: If texts share rows, and an argument needs a row for each text;
                or if `num_layers` is below 1, below `num_groups`, or more than
                the encoder has adapters for.

        Example:
            >>> import numpy as np
            >>> from keras_albert.layers import SharedTransformerEncoder
            >>> encoder = SharedTransformerEncoder(
            ...     num_layers=3, num_heads=2, intermediate_dim=32)
            >>> last, states = encoder(np.ones((1, 5, 16)), return_hidden_states=True)
            >>> tuple(last.shape), len(states)
            ((1, 5, 16), 4)
        """
        if num_layers is None:
            num_layers = self.num_layers
        self.check_depth(num_layers)
        if rows is not None:
            if attention_mask is not None or (
                return_hidden_states or return_attention_scores
            ):
                raise ValueError(
                    "An `attention_mask`, hidden states and attention scores need a "
                    "row for each text, and the texts of this batch share rows. Build "
                    "the preprocessor with pack_sequences=False."
                )
            padding_mask, attention_mask = None, rows.attention_mask()
        mask = merge_masks(padding_mask, attention_mask)
        seed = None
        if training and self.seed_generator is not None:
            seed = StepSeed.draw(self.seed_generator)
        if return_hidden_states or return_attention_scores:
            return self._run_with_intermediates(
                *(inputs, mask, seed, training, num_layers),
                *(return_hidden_states, return_attention_scores),
            )
        unroll = run_layers.unrolls_by_default() if self.unroll is None else self.unroll
        x = inputs
        if pool_each_layer is not None:
            vectors = ops.ones((num_layers, 1), inputs.dtype)
            x = (inputs, ops.zeros_like(pool_each_layer(inputs))[:, None, :] * vectors)
        for group in range(self.num_groups):
            step = self._group_step(group, mask, seed, training, num_layers)
            if pool_each_layer is not None:
                step = _keep_vectors(step, pool_each_layer, num_layers)
            layers = self._layers_of(group, num_layers)
            x = run_layers.scan_layers(
                step, x, layers.start, len(layers), unroll=unroll, remat=self.remat
            )
        also: list[Tensor] = []
        if pool_each_layer is not None:
            x, *also = x
        sequence = x if rows is None else rows.split(x)
        if return_cls:
            also.append(sequence[:, 0] if rows is None else rows.first(x))
        return (sequence, *also) if also else sequence

    def run_virtual_layer(
        self, inputs: Tensor, padding_mask: Tensor | None = None, layer: int = 0
    ) -> Tensor:
        """Run a layer of the only group, without dropout; `layer` may be a tensor."""
        mask = merge_masks(padding_mask, None)
        return self._group_step(0, mask, None, False)(layer, inputs)

    def _group_step(
        self,
        group: int,
        mask: Tensor | None,
        seed: StepSeed | None,
        training: bool | None,
        num_layers: int | None = None,
        scores: list[Tensor] | None = None,
    ) -> Any:
        """Return a virtual layer as a function of only its number and its input."""
        # Weights are read and cast once, here, so that a loop carries one copy instead
        # of keeping one per iteration. Attention scores are added to `scores`, if a
        # list.
        if scores is None and use_torch_inference(
            layers=encoder_layers(self), training=training
        ):
            return torch_step(self, mask, num_layers or self.num_layers)
        blocks, adapters = self.group_blocks(group), self.adapters
        own = [] if adapters is None else [v.value for v in adapters.variables]
        variables = [v for block in blocks for v in block.variables]

        def step(
            values: list[Tensor], own: list[Tensor], x: Tensor, layer: Any
        ) -> Tensor:
            scope = keras.StatelessScope()
            for variable, value in zip(variables, values, strict=True):
                # The constructor would cast back to float32.
                scope.add_update((variable, value))
            with scope:
                for inner, block in enumerate(blocks):
                    number = layer * self.num_inner_repetitions + inner
                    options: dict[str, Any] = {}
                    if adapters is not None:
                        run = self.run_number(layer, inner, group, num_layers)
                        options["adapters"] = adapters.adapt(scope, block, own, run)
                    if scores is not None:
                        options["return_attention_scores"] = True
                    x = run_layers.run_layer(
                        block,
                        x,
                        attention_mask=mask,
                        seed=seed and seed.at(number),
                        training=training,
                        **options,
                    )
                    if scores is not None:
                        x, block_scores = x
                        scores.append(block_scores)
            return x

        if self.remat and training and scores is None:
            step = keras.remat(step)
        values = [v.value for v in variables]
        return lambda layer, x: step(values, own, x, layer)

    def _run_with_intermediates(
        self,
        x: Tensor,
        mask: Tensor | None,
        seed: StepSeed | None,
        training: bool | None,
        num_layers: int,
        return_hidden_states: bool,
        return_attention_scores: bool,
    ) -> tuple[Any, ...]:
        hidden_states = [x]
        scores: list[Tensor] = []
        for group in range(self.num_groups):
            step = self._group_step(group, mask, seed, training, num_layers, scores)
            for layer in self._layers_of(group, num_layers):
                x = step(layer, x)
                hidden_states.append(x)
        states = (hidden_states,) if return_hidden_states else ()
        return (x, *states, *((scores,) if return_attention_scores else ()))

    def compute_output_spec(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Return the spec of the output without running all layers."""
        if any(kwargs.get(name) not in (None, False) for name in _ALSO_RETURNED):
            return super().compute_output_spec(inputs, *args, **kwargs)
        sequence = keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
        if not kwargs.get("return_cls"):
            return sequence
        shape = (inputs.shape[0], inputs.shape[-1])
        return sequence, keras.KerasTensor(shape, dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        activation = serialize_activation(self._block_arguments["activation"])
        config |= self._block_arguments | {"activation": activation}
        if self.adapter_rank is None:
            del config["adapter_rank"]
        return config


def _keep_vectors(
    step: Any, pool_each_layer: Callable[[Tensor], Tensor], num_layers: int
) -> Any:
    """Return a step that also carries the vectors of all layers."""

    def step_and_keep(layer: Any, carried: tuple[Tensor, Tensor]) -> Any:
        x = step(layer, carried[0])
        place = ops.one_hot(layer, num_layers, dtype=x.dtype)
        vectors = place[:, None] * pool_each_layer(x)[:, None, :]
        return x, carried[1] + vectors

    return step_and_keep


POOLING_MODES = ("mean", "cls", "max")
HEAD_POOLING_MODES = ("pooler", "normalized_mean")


def masked_mean(sequence: Tensor, padding_mask: Tensor) -> Tensor:
    """Return the mean of each sequence, without padding."""
    mask = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
    return _weighted_mean(sequence, mask, ops.cast(mask, sequence.dtype))


def _weighted_mean(sequence: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    total = ops.sum(ops.where(mask, ops.multiply(sequence, weights), 0.0), axis=1)
    count = ops.maximum(ops.sum(weights, axis=1), keras.config.epsilon())
    return ops.divide(total, count)


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedPooling(AlbertLayer):
    """Pool over a sequence; with `inverse_frequency` a, token weights are a/(a + p)."""

    def __init__(
        self,
        mode: str,
        inverse_frequency: float | None = None,
        vocabulary_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_choice(POOLING_MODES, mode=mode)
        if inverse_frequency is not None:
            check_finite_and_positive(inverse_frequency=inverse_frequency)
            if mode != "mean":
                raise ValueError(
                    "`inverse_frequency` requires the pooling mode 'mean'. Received: "
                    f"{mode!r}"
                )
        super().__init__(**kwargs)
        self.mode = mode
        self.inverse_frequency = inverse_frequency
        self.vocabulary_size = vocabulary_size

    def build(self, sequence_shape: Any) -> None:
        """Create the probabilities of the tokens."""
        if self.inverse_frequency is not None:
            self.token_probabilities = self.add_weight(
                shape=(self.vocabulary_size,),
                initializer="zeros",
                trainable=False,
                name="token_probabilities",
            )

    def call(
        self, sequence: Tensor, padding_mask: Tensor, token_ids: Tensor | None = None
    ) -> Tensor:
        """Pool the sequence."""
        if self.mode == "cls":
            return sequence[:, 0, :]
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        if self.mode == "max":
            return ops.max(ops.where(mask, sequence, -1e9), axis=1)
        weights = ops.cast(mask, sequence.dtype)
        if (a := self.inverse_frequency) is not None:
            found = ops.take(self.token_probabilities, token_ids, axis=0)
            found = ops.divide(a, ops.add(found, a))
            weights = ops.multiply(weights, ops.expand_dims(found, -1))
        return _weighted_mean(sequence, mask, weights)

    def compute_output_shape(
        self, sequence_shape: Any, padding_mask_shape: Any, token_ids_shape: Any = None
    ) -> Any:
        """Return the output shape."""
        return (sequence_shape[0], sequence_shape[-1])


@keras.saving.register_keras_serializable(package="keras_albert")
class PoolerInput(AlbertLayer):
    """The vector that a pooler reads."""

    def __init__(self, mode: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = mode

    def call(self, sequence: Tensor, first: Tensor, padding_mask: Tensor) -> Tensor:
        """Return the vector that `mode` names."""
        return first if self.mode == "cls" else masked_mean(sequence, padding_mask)

    def compute_output_spec(self, sequence: Tensor, first: Tensor, mask: Any) -> Any:
        """Return the spec of the vector."""
        return keras.KerasTensor(first.shape, first.dtype)


@keras.saving.register_keras_serializable(package="keras_albert")
class HeadPooling(AlbertLayer):
    """The vector that a classifier's head reads; `mode` may be set later."""

    def __init__(self, mode: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_choice(HEAD_POOLING_MODES, pooling_mode=mode)
        self.mode = mode

    def call(self, sequence: Tensor, pooled: Tensor, padding_mask: Tensor) -> Tensor:
        """Return the pooler's output, or the mean of the tokens, of length 1."""
        if self.mode == "pooler":
            return pooled
        mean = masked_mean(sequence, padding_mask)
        # Squares may be too large for float16.
        return ops.cast(ops.normalize(ops.cast(mean, "float32")), mean.dtype)

    def compute_output_spec(self, sequence: Tensor, pooled: Tensor, mask: Any) -> Any:
        """Return the spec of the vector."""
        return keras.KerasTensor(pooled.shape, pooled.dtype)
