"""ALBERT's embedding, factorized into V x E and E x H."""

from typing import Any

import keras
import keras_hub
from keras import ops

from keras_albert.layers.base_layer import (
    AlbertLayer,
    PackedRows,
    albert_initializer,
    derive_seeds,
)
from keras_albert.layers.run_layers import run_layer
from keras_albert.types import DType, Tensor
from keras_albert.utils.arguments import check_rates


@keras.saving.register_keras_serializable(package="keras_albert")
class FactorizedEmbedding(AlbertLayer):
    """Token, position and segment embeddings of width E, projected to width H.

    LayerNorm, dropout and the projection are applied to the sum of the three.
    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        vocabulary_size: int. Number of tokens, V.
        embedding_dim: int. Width of the embeddings, E.
        hidden_dim: int. Width of the output, H.
        max_sequence_length: int. Number of position embeddings. Defaults to `512`.
        num_segments: int. Number of segments. Defaults to `2`.
        dropout: float. Rate after the LayerNorm. Defaults to `0.0`.
        layer_norm_epsilon: float. Defaults to `1e-12`.
        use_projection: bool or `None`. Whether to project E to H. Defaults to
            `None`: only if the widths differ, as in the reference; transformers
            always projects.
        seed: int or `None`. Seed of the initial weights and of the dropout masks.
            Defaults to `None`.
        dtype: string or `keras.DTypePolicy`. Defaults to `None`, the global policy.
        **kwargs: `name` and `trainable`, as on any Keras layer.

    Raises:
        ValueError: If the widths differ and `use_projection` is `False`, or if a
            sequence is longer than `max_sequence_length`.

    Example:
        >>> import numpy as np
        >>> from keras_albert.layers import FactorizedEmbedding
        >>> embedding = FactorizedEmbedding(100, embedding_dim=4, hidden_dim=8)
        >>> tuple(embedding(np.array([[2, 7, 3]])).shape)
        (1, 3, 8)
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        hidden_dim: int,
        max_sequence_length: int = 512,
        num_segments: int = 2,
        dropout: float = 0.0,
        layer_norm_epsilon: float = 1e-12,
        use_projection: bool | None = None,
        seed: int | None = None,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        check_rates(dropout=dropout, layer_norm_epsilon=layer_norm_epsilon)
        if use_projection is None:
            use_projection = embedding_dim != hidden_dim
        if not use_projection and embedding_dim != hidden_dim:
            raise ValueError(
                "`use_projection=False` requires that `embedding_dim` equals "
                "`hidden_dim`. Pass `use_projection=True`, or equal widths. Received: "
                f"embedding_dim={embedding_dim}, hidden_dim={hidden_dim}, "
                "use_projection=False"
            )
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.hidden_dim = hidden_dim
        self.max_sequence_length = max_sequence_length
        self.num_segments = num_segments
        self.dropout = dropout
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_projection = use_projection
        self.seed = seed
        seeds = derive_seeds(seed, 5)
        policy: Any = {"dtype": self.dtype_policy}
        self.token_embedding = keras.layers.ReversibleEmbedding(
            *(vocabulary_size, embedding_dim),
            embeddings_initializer=albert_initializer(next(seeds)),
            # The head of a masked LM multiplies in the compute dtype, as other layers
            # do; without this, in float32 under mixed precision.
            reverse_dtype=self.compute_dtype,
            name="token_embedding",
            **policy,
        )
        initializer = albert_initializer(next(seeds))
        self.position_embedding = keras_hub.layers.PositionEmbedding(
            max_sequence_length, initializer, name="position_embedding", **policy
        )
        initializer = albert_initializer(next(seeds))
        self.segment_embedding = keras.layers.Embedding(
            *(num_segments, embedding_dim, initializer),
            name="segment_embedding",
            **policy,
        )
        self.layer_norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, name="layer_norm", **policy
        )
        self.dropout_layer = keras.layers.Dropout(
            dropout, seed=next(seeds), name="dropout", **policy
        )
        self.projection = None
        if use_projection:
            initializer = albert_initializer(next(seeds))
            self.projection = keras.layers.Dense(
                hidden_dim, kernel_initializer=initializer, name="projection", **policy
            )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the weights for token ids `(batch, length)`."""
        ids_shape = tuple(input_shape[:2])
        embedded_shape = (*ids_shape, self.embedding_dim)
        self.token_embedding.build(ids_shape)
        self.position_embedding.build(embedded_shape)
        self.segment_embedding.build(ids_shape)
        self.layer_norm.build(embedded_shape)
        if self.projection is not None:
            self.projection.build(embedded_shape)
        self.built = True

    def call(
        self,
        inputs: Tensor,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        rows: PackedRows | None = None,
    ) -> Tensor:
        """Embed token ids.

        Args:
            inputs: Integer tensor `(batch, length)`.
            segment_ids: Integer tensor `(batch, length)`. Not read if there is only
                one segment. Defaults to `None`: segment 0 for every token.
            training: bool. Whether dropout is on.
            rows: The rows that texts share, a `PackedRows`. Defaults to `None`.

        Returns:
            Float tensor `(batch, length, hidden_dim)`; `(rows, width, hidden_dim)` if
            texts share rows.

        Example:
            >>> import numpy as np
            >>> from keras_albert.layers import FactorizedEmbedding
            >>> embedding = FactorizedEmbedding(100, embedding_dim=8, hidden_dim=16)
            >>> tuple(embedding(np.array([[2, 30, 3]])).shape)
            (1, 3, 16)
        """
        self.check_length(inputs.shape[1])
        if segment_ids is None or self.num_segments == 1:
            segment_ids = ops.zeros_like(inputs)
        if rows is not None:
            inputs, segment_ids = rows.join(inputs), rows.join(segment_ids)
        # A quantized embedding has the dtype of its scales.
        x = ops.cast(run_layer(self.token_embedding, inputs), self.compute_dtype)
        if rows is None:
            positions = run_layer(self.position_embedding, x)
        else:
            table = ops.convert_to_tensor(self.position_embedding.position_embeddings)
            positions = ops.take(table, rows.positions(), axis=0)
        segments = run_layer(self.segment_embedding, segment_ids)
        segments = ops.cast(segments, self.compute_dtype)
        x = x + positions + segments
        x = run_layer(self.layer_norm, x)
        x = run_layer(self.dropout_layer, x, training=training)
        return x if self.projection is None else run_layer(self.projection, x)

    def check_length(self, length: int | None) -> None:
        """Raise if a row is longer than there are positions."""
        if length is not None and length > self.max_sequence_length:
            raise ValueError(
                f"The input has {length} tokens per row, but there are only "
                f"{self.max_sequence_length} position embeddings. Truncate the input "
                "(the preprocessor's `sequence_length`), or build the model with "
                f"`max_sequence_length={length}` or more."
            )

    def compute_output_spec(
        self,
        inputs: Tensor,
        segment_ids: Tensor | None = None,
        training: bool | None = None,
        rows: PackedRows | None = None,
    ) -> Any:
        """Return the spec of the output."""
        self.check_length(inputs.shape[1])
        shape = (*inputs.shape, self.hidden_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)
