"""The ALBERT model without a head, and its named sizes."""

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import keras
import keras_hub

from keras_albert.layers.base_layer import (
    ROW_TOKENS,
    PackedRows,
    albert_initializer,
    config_from_attributes,
    derive_seeds,
    get_activation,
    packed_rows,
    packing_inputs,
)
from keras_albert.layers.embedding import FactorizedEmbedding
from keras_albert.layers.encoder import PoolerInput, SharedTransformerEncoder
from keras_albert.layers.torch_inference import (
    backbone_layers,
    encode,
    fast_call,
    run_backbone,
    use_torch_inference,
)
from keras_albert.presets.checkpoint import Checkpoint
from keras_albert.presets.handles import BUILTIN_PRESETS
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.presets.weight_files import check_stored_weights
from keras_albert.types import Activation, DType, ModelInputs, Tensor
from keras_albert.utils import keras_internals
from keras_albert.utils.arguments import check_choice, check_kwargs, check_positive

__all__ = ["AlbertBackbone", "architecture"]

# (layers, hidden width, heads). Paper, table 1, as released (xlarge: 16 heads of 128).
_PUBLISHED = {
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "xlarge": (24, 2048, 16),
    "xxlarge": (12, 4096, 64),
}
_SMALLER = {"tiny": (6, 256, 4), "small": (12, 512, 8)}


def _arguments(num_layers: int, hidden_dim: int, num_heads: int) -> dict[str, Any]:
    return {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "embedding_dim": 128,
        "hidden_dim": hidden_dim,
        "intermediate_dim": 4 * hidden_dim,
    }


# Arguments of `AlbertBackbone` by the name of a size, for pretraining.
MODEL_SIZES = {
    name: _arguments(*size) for name, size in (_SMALLER | _PUBLISHED).items()
}


def architecture(size: str, version: int = 2) -> dict[str, Any]:
    """Return the constructor arguments of a published model.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), table 1, and the
    released configurations.

    Args:
        size: "base", "large", "xlarge" or "xxlarge".
        version: int. 1 or 2. Version 1 of all but xxlarge was trained with a dropout
            of 0.1; version 2 without. Defaults to `2`.

    Returns:
        Keyword arguments for `AlbertBackbone`.

    Raises:
        ValueError: If the size or version is unknown.

    Example:
        >>> from keras_albert.backbone import architecture
        >>> architecture("base")["hidden_dim"]
        768
    """
    check_choice(_PUBLISHED, size=size)
    check_choice((1, 2), version=version)
    dropout = 0.1 if version == 1 and size != "xxlarge" else 0.0
    return {
        "vocabulary_size": 30_000,
        **_arguments(*_PUBLISHED[size]),
        "dropout": dropout,
        "attention_dropout": dropout,
    }


POOLER_INPUTS = ("cls", "mean")

# The names of vectors, which can be trained with LoRA, and are not decayed.
VECTORS = ("bias", "gamma", "beta")


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertBackbone(PresetMixin, keras_hub.models.Backbone):
    """The ALBERT encoder, which returns a vector per token and one per text.

    A functional Keras model from a dict of `token_ids`, `segment_ids` and
    `padding_mask` (each int32 `(batch, length)`, any length up to
    `max_sequence_length`) to a dict of `sequence_output`
    `(batch, length, hidden_dim)` and `pooled_output` `(batch, hidden_dim)`. With
    the same weights, it equals KerasHub's and transformers' ALBERT; with
    `embedding_dim` equal to `hidden_dim` and `num_groups` to `num_layers`, a BERT.
    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942).

    Args:
        vocabulary_size: int. Number of tokens.
        num_layers: int. Number of layers, which share their weights.
        num_heads: int. Attention heads; must divide `hidden_dim`.
        embedding_dim: int. Width of the embeddings.
        hidden_dim: int. Width of the encoder and of the outputs.
        intermediate_dim: int. Inner width of the feed-forward nets.
        num_groups: int. Groups of layers that share weights. Defaults to `1`.
        num_inner_repetitions: int. Blocks in a group. Defaults to `1`.
        dropout: float. Rate after embeddings, attention and feed-forward nets.
            Defaults to `0.0`, as in the training of version 2.
        attention_dropout: float. Rate on attention probabilities. Defaults to `0.0`.
        max_sequence_length: int. The longest sequence. Defaults to `512`.
        num_segments: int. Number of segments; with one, segment ids are not read.
            Defaults to `2`.
        activation: string or callable. Defaults to `"gelu_approximate"`, the tanh
            form of the reference; `"gelu"` is the erf form of transformers' v1 files,
            `"relu"` the activation of the Chinese models.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        use_embedding_projection: bool or `None`. The `use_projection` of
            `FactorizedEmbedding`. Defaults to `None`.
        pooler_input: string. What the pooler maps to `pooled_output`: `"cls"`, the
            vector of `[CLS]`, as in published checkpoints; or `"mean"`, of all
            tokens, which is better after pretraining on masked tokens alone. Defaults
            to `"cls"`.
        pooler_activation: string. The pooler's: `"tanh"` in ALBERT and BERT, `"gelu"`
            in ELECTRA's classifiers, `"relu"` in DistilBERT's. Defaults to `"tanh"`.
        remat: bool. Whether to recompute each layer in the backward pass: less memory,
            about a third more work. Defaults to `False`.
        unroll: bool or `None`. See `SharedTransformerEncoder`. Defaults to `None`.
        seed: int or `None`. Makes the initial weights and the dropout masks
            reproducible. Defaults to `None`.
        dtype: string or `keras.DTypePolicy`. For instance `"mixed_bfloat16"`;
            LayerNorm and softmax stay in float32. Defaults to `None`, the global
            policy.
        adapter_rank: int or `None`. The rank of what each layer adds to the weights
            that it shares, see `SharedTransformerEncoder`. Defaults to `None`, nothing.
        **kwargs: `name` and `trainable`, as on any Keras model.

    Raises:
        TypeError: If an argument is unknown.
        ValueError: If `num_heads` does not divide `hidden_dim`, a count is below 1
            or a sequence is too long.

    Example:
        >>> import numpy as np
        >>> from keras_albert import AlbertBackbone
        >>> backbone = AlbertBackbone(
        ...     vocabulary_size=100, num_layers=2, num_heads=2, embedding_dim=4,
        ...     hidden_dim=8, intermediate_dim=16)
        >>> outputs = backbone(dict.fromkeys(backbone.input, np.ones((1, 5), "int32")))
        >>> {name: tuple(output.shape) for name, output in sorted(outputs.items())}
        {'pooled_output': (1, 8), 'sequence_output': (1, 5, 8)}
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        num_heads: int,
        embedding_dim: int,
        hidden_dim: int,
        intermediate_dim: int,
        num_groups: int = 1,
        num_inner_repetitions: int = 1,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        activation: Activation = "gelu_approximate",
        layer_norm_epsilon: float = 1e-12,
        use_embedding_projection: bool | None = None,
        pooler_input: str = "cls",
        pooler_activation: str = "tanh",
        remat: bool = False,
        unroll: bool | None = None,
        seed: int | None = None,
        dtype: DType = None,
        adapter_rank: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_kwargs(type(self), kwargs, inherited=("name", "trainable"))
        if max_sequence_length is None:
            raise ValueError(
                "`max_sequence_length` must be an integer, the length of the longest "
                "row. Received: None, the `sequence_length` of a preprocessor that "
                "pads each batch to its longest text. Pass "
                "`preprocessor.max_sequence_length`, or build the preprocessor with a "
                "`sequence_length`."
            )
        check_positive(
            vocabulary_size=vocabulary_size,
            num_heads=num_heads,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            intermediate_dim=intermediate_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
        )
        check_choice(POOLER_INPUTS, pooler_input=pooler_input)
        seeds = derive_seeds(seed, 3)
        self.embedding = FactorizedEmbedding(
            vocabulary_size=vocabulary_size,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            max_sequence_length=max_sequence_length,
            num_segments=num_segments,
            dropout=dropout,
            layer_norm_epsilon=layer_norm_epsilon,
            use_projection=use_embedding_projection,
            seed=next(seeds),
            dtype=dtype,
            name="embedding",
        )
        self.encoder = SharedTransformerEncoder(
            num_layers=num_layers,
            num_heads=num_heads,
            intermediate_dim=intermediate_dim,
            num_groups=num_groups,
            num_inner_repetitions=num_inner_repetitions,
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation=activation,
            layer_norm_epsilon=layer_norm_epsilon,
            remat=remat,
            unroll=unroll,
            seed=next(seeds),
            dtype=dtype,
            adapter_rank=adapter_rank,
            name="encoder",
        )
        self.pooler = keras.layers.Dense(
            hidden_dim,
            activation=get_activation(pooler_activation),
            kernel_initializer=albert_initializer(next(seeds)),
            dtype=dtype,
            name="pooler",
        )
        self.pooler_reads = PoolerInput(pooler_input, dtype=dtype, name="pooler_reads")
        self.pooler_activation = pooler_activation

        inputs = {
            name: keras.Input(shape=(None,), dtype="int32", name=name)
            for name in ("token_ids", "segment_ids", "padding_mask")
        }
        outputs = self._run_layers(inputs)
        with keras_internals.building_model():
            super().__init__(inputs=inputs, outputs=outputs, dtype=dtype, **kwargs)
        if kwargs.get("trainable") is False:
            # Keras sets it before it knows the layers.
            self.trainable = False
        keras_internals.register_parameters(self)

        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.intermediate_dim = intermediate_dim
        self.num_groups = num_groups
        self.num_inner_repetitions = num_inner_repetitions
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.activation = activation
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_embedding_projection = use_embedding_projection
        self.remat = remat
        self.unroll = unroll
        self.seed = seed
        self.adapter_rank = adapter_rank
        # Whether the weights were loaded; this lowers the default learning rate.
        self.pretrained = False
        # The format that it was loaded from; it is exported as the same architecture.
        self.loaded_from: str | None = None

    # The position of `[CLS]`, whose vector is the pooler's input.
    cls_token_index = 0

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike[str],
        load_weights: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Load an encoder; without its weights, a published one needs no network.

        Args:
            preset: string or path. A built-in name (`cls.presets` lists them); a
                local directory with a preset of this package, or files of KerasHub,
                transformers, sentence-transformers or google-research, of an ALBERT,
                BERT, ELECTRA or DistilBERT; a handle: `hf://`, `kaggle://`,
                `modelscope://`; or the address of such a directory in a remote
                storage, such as `s3://bucket/preset`.
            load_weights: bool. `False` leaves all weights random. Defaults to `True`.
            dtype: string or `keras.DTypePolicy`. Defaults to `None`: Keras' policy, or
                the preset's if it is quantized.
            **kwargs: Arguments of the constructor that override the preset's, such as
                `num_layers`.

        Returns:
            The encoder.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_small_en_uncased")
            >>> backbone.num_layers, backbone.hidden_dim
            (6, 384)
        """
        builtin = BUILTIN_PRESETS.get(str(preset))
        if builtin is not None and builtin.handle is not None and not load_weights:
            sizes = architecture(builtin.size, builtin.version)
            return cls(**(sizes | kwargs), dtype=dtype)
        return super().from_preset(preset, load_weights, dtype, **kwargs)

    def quantize(
        self, mode: Any = None, config: Any = None, filters: Any = None, **kwargs: Any
    ) -> Any:
        """Quantize the weights; see `keras.Model.quantize`.

        Args:
            mode: string. `"int8"`, `"int4"` or `"float8"`.
            config: A configuration of Keras. Defaults to `None`.
            filters: The layers to quantize; see Keras. Defaults to `None`, all.
            **kwargs: Other arguments of Keras.

        Returns:
            As in Keras.

        Raises:
            ValueError: If a layer is quantized already, or the mode calibrates layer by
                layer (`"gptq"`, `"awq"`). Nothing is changed then.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_small_en_uncased")
            >>> backbone.quantize("int8")
            >>> sorted({weight.dtype for weight in backbone.weights})
            ['float32', 'int8']
        """
        kind = mode or getattr(config, "mode", config)
        if kind in ("gptq", "awq"):
            raise ValueError(
                f"{kind!r} calibrates one layer after another, but here all layers "
                "share their weights. Quantize to 'int8', 'int4' or 'float8'."
            )
        for layer in keras_internals.all_layers(self):
            if layer.quantization_mode and _is_selected(layer, filters):
                raise ValueError(
                    f"The layer {layer.path!r} is quantized already, to "
                    f"{layer.quantization_mode}. Load the float weights again, or pass "
                    "`filters` that leave it out."
                )
        with warnings.catch_warnings():
            # Keras 3.15 warns of each layer without a matrix, 3.16 of all of them.
            warnings.filterwarnings("ignore", ".* (`quantize`|support quantization)")
            return super().quantize(mode, config=config, filters=filters, **kwargs)

    def enable_lora(
        self, rank: int, target_layer_names: Any = None, train_vectors: bool = False
    ) -> None:
        """Add LoRA to layers and freeze the rest; see `keras_hub.models.Backbone`.

        Args:
            rank: int. The rank of the matrices.
            target_layer_names: List of string. The names of the layers. Defaults to
                `None`: the queries and values of the attention, as in KerasHub.
            train_vectors: bool. Also train biases, LayerNorms and the pooler, which
                `save_to_preset` stores and `save_lora_weights` does not. Defaults to
                `False`.

        Raises:
            ValueError: If a layer has LoRA already, or `rank` is below 1.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2)
            >>> classifier.backbone.enable_lora(4)
            >>> classifier.compile(learning_rate=1e-3)  # and fit
        """
        check_positive(rank=rank)
        super().enable_lora(rank, target_layer_names)
        also = {weight.path for weight in self.weights if weight.name in VECTORS}
        if not self.pooler.lora_enabled:
            also.add("pooler/kernel")
        for weight in self.weights:
            weight.trainable = weight.name.startswith("lora_") or (
                train_vectors and weight.path in also
            )
        keras_internals.register_parameters(self)

    def load_weights(
        self,
        filepath: str | os.PathLike[str],
        skip_mismatch: bool = False,
        **kwargs: Any,
    ) -> None:
        """Load weights from a file, all of them or none.

        Args:
            filepath: string or path. As in `keras.Model.load_weights`.
            skip_mismatch: bool. Skip weights that do not fit. Defaults to `False`.
            **kwargs: As in Keras.

        Raises:
            ValueError: If the file does not contain exactly the weights of this model.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_tiny_en_uncased")
            >>> backbone.save_weights("tiny.weights.h5")
            >>> copy = AlbertBackbone(**backbone.get_config())
            >>> copy.load_weights("tiny.weights.h5")
            >>> bool((copy.weights[0] == backbone.weights[0]).all())
            True
        """
        name = os.fspath(filepath)
        if name.endswith((".weights.h5", ".weights.json")) and not skip_mismatch:
            check_stored_weights(self, Path(name))
        super().load_weights(name, skip_mismatch=skip_mismatch, **kwargs)

    def load_own_variables(self, store: Any) -> None:
        """Mark the model as pretrained; Keras calls this when it reads any file."""
        super().load_own_variables(store)
        self.pretrained = True

    @classmethod
    def _from_checkpoint(
        cls, checkpoint: Checkpoint, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        return checkpoint.load_backbone(cls, load_weights, **kwargs)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Build a backbone from the result of `get_config`."""
        quantized = config.get("quantized_dtype")
        if quantized and config.get("dtype") is None:
            # KerasHub's own classes replace the saved policies by `None`, and the int8
            # weights that they load next would not fit.
            config = config | {"dtype": quantized}
        arguments = {k: v for k, v in config.items() if k != "quantized_dtype"}
        return super().from_config(arguments)

    def call(
        self,
        inputs: ModelInputs,
        training: bool | None = None,
        mask: Any = None,
        num_layers: int | None = None,
    ) -> dict[str, Tensor]:
        """Run the model, or some of its layers, on its input dict.

        Packed texts also have `row_tokens` and `token_places`; see `PackedRows`.
        """
        num_layers = self.num_layers if num_layers is None else num_layers
        if use_torch_inference(inputs, backbone_layers(self), training):
            return run_backbone(self, inputs, num_layers)
        is_graph = num_layers == self.encoder.num_layers
        outputs: dict[str, Tensor]
        try:
            if is_graph and ROW_TOKENS not in inputs:
                inputs = select_inputs(self, inputs)
                outputs = super().call(inputs, training=training, mask=mask)
            else:
                outputs = self._run_layers(inputs, training, num_layers)
        except (RuntimeError, TypeError) as error:
            keras_internals.explain_held(error, self.variables)
            raise
        return outputs

    def _run_layers(
        self,
        inputs: ModelInputs,
        training: bool | None = None,
        num_layers: int | None = None,
    ) -> dict[str, Tensor]:
        """Run the layers, for the functional model or instead of it."""
        x, given = self._embed(inputs, training)
        x, first = self.encoder(x, return_cls=True, num_layers=num_layers, **given)
        pooled = self.pooler_reads(x, first, inputs["padding_mask"])
        return {"sequence_output": x, "pooled_output": self.pooler(pooled)}

    def _embed(
        self, inputs: ModelInputs, training: bool | None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return embedded tokens, and what else the encoder takes."""
        given = {"training": training, "rows": packed_rows(inputs)}
        x = self.embedding(
            inputs["token_ids"], segment_ids=inputs["segment_ids"], **given
        )
        return x, given | {"padding_mask": inputs["padding_mask"]}

    def compute_output_spec(
        self, inputs: ModelInputs, *args: Any, **kwargs: Any
    ) -> dict[str, keras.KerasTensor]:
        """Return symbolic outputs, which no other argument changes."""
        batch, length = inputs["token_ids"].shape
        sizes = {"sequence_output": (batch, length), "pooled_output": (batch,)}
        return {
            name: keras.KerasTensor((*sizes[name], spec.shape[-1]), spec.dtype)
            for name, spec in self.output.items()
        }

    @property
    def pooler_input(self) -> str:
        """The vector that the pooler maps to `pooled_output`."""
        return str(self.pooler_reads.mode)

    @property
    def token_embedding(self) -> keras.layers.Layer:
        """The token embeddings, a `keras.layers.ReversibleEmbedding`."""
        return self.embedding.token_embedding

    def pool(self, sequence: Tensor, padding_mask: Tensor) -> Tensor:
        """Return the `pooled_output` of a hidden state `(batch, length, dim)`."""
        return fast_call(self.pooler, self._read_pooler_input(sequence, padding_mask))

    def _read_pooler_input(
        self, x: Tensor, padding_mask: Tensor, rows: PackedRows | None = None
    ) -> Tensor:
        """Return the pooler's input of a hidden state, in `rows` if they are shared."""
        if rows is None:
            first = x[:, self.cls_token_index, :]
        else:
            first, x = rows.first(x), rows.split(x)
        return self.pooler_reads.call(x, first, padding_mask)

    def all_outputs(self, inputs: ModelInputs) -> dict[str, Tensor | list[Tensor]]:
        """Run the model and also return hidden states and attention scores.

        Args:
            inputs: The model's input dict.

        Returns:
            The model's outputs plus `hidden_states`, a list of `num_layers + 1`
            tensors `(batch, length, hidden_dim)`, and `attention_scores`, a list of
            `num_layers * num_inner_repetitions` tensors
            `(batch, num_heads, length, length)`.

        Example:
            >>> import numpy as np
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_small_en_uncased")
            >>> inputs = dict.fromkeys(backbone.input, np.ones((1, 3), "int32"))
            >>> outputs = backbone.all_outputs(inputs)
            >>> len(outputs["hidden_states"]), len(outputs["attention_scores"])
            (7, 6)
        """
        x, given = self._embed(inputs, training=None)
        x, hidden_states, attention_scores = self.encoder(
            x,
            return_hidden_states=True,
            return_attention_scores=True,
            num_layers=self.num_layers,
            **given,
        )
        return {
            "sequence_output": x,
            "pooled_output": self.pool(x, inputs["padding_mask"]),
            "hidden_states": hidden_states,
            "attention_scores": attention_scores,
        }

    def pooled_by_layer(
        self, inputs: ModelInputs, training: bool | None = None
    ) -> Tensor:
        """Return `pooled_output` after each layer, `(batch, num_layers, dim)`."""
        x, given = self._embed(inputs, training)
        mask, rows = given["padding_mask"], given["rows"]
        _, vectors = self.encoder(
            x,
            pool_each_layer=lambda x: self._read_pooler_input(x, mask, rows),
            num_layers=self.num_layers,
            **given,
        )
        return self.pooler(vectors)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config |= config_from_attributes(self, AlbertBackbone)
        if self.adapter_rank is None:
            del config["adapter_rank"]
        if config["dtype"]["class_name"] == "DTypePolicyMap":
            config["quantized_dtype"] = config["dtype"]
        return config


def select_inputs(model: Any, inputs: Any) -> Any:
    """Return only the inputs of a functional model: Keras sorts a dict by name."""
    if not isinstance(inputs, Mapping) or len(inputs) <= len(model.input):
        return inputs
    return {name: inputs[name] for name in model.input}


def backbone_inputs(backbone: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of a task that its backbone reads: it depends on no others."""
    return {**select_inputs(backbone, inputs), **packing_inputs(inputs)}


def run_encoder(
    backbone: Any,
    inputs: Mapping[str, Any],
    training: bool | None = None,
    num_layers: int | None = None,
) -> Tensor:
    """Return `sequence_output`; what a compiler leaves out, PyTorch does not run."""
    is_own = type(backbone).call is AlbertBackbone.call
    num_layers = num_layers or backbone.num_layers
    if is_own and use_torch_inference(inputs, backbone_layers(backbone), training):
        return encode(backbone, inputs, num_layers)[0]
    outputs = fast_call(backbone, inputs, training=training, num_layers=num_layers)
    return outputs["sequence_output"]


def _is_selected(layer: keras.layers.Layer, filters: Any) -> bool:
    """Return whether the `filters` of `quantize` select a layer, as in Keras."""
    if filters is None or callable(filters):
        return filters is None or bool(filters(layer))
    patterns = [filters] if isinstance(filters, str) else filters
    return any(re.search(pattern, layer.name) for pattern in patterns)
