"""Texts as vectors whose cosine says how alike they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import keras
import keras_hub
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.masked_pooling import MaskedPooling
from keras_albert.tasks.base.preprocessor_check import check_preprocessor
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.base.unused_pooler import IdlePooler
from keras_albert.tasks.inputs.labels import encode_scores
from keras_albert.tasks.inputs.preprocessed_inputs import read_ids
from keras_albert.tasks.text_embedding.embed import TextVectors
from keras_albert.tasks.text_embedding.similarity import (
    contrastive_scores,
    cosine_scores,
)
from keras_albert.text.text_embedding.preprocessor import (
    AlbertTextEmbedderPreprocessor,
)
from keras_albert.text.tokenizer.vocabulary_file import piece_probabilities
from keras_albert.types import FloatArray, Tensor


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedder(
    IdlePooler, TextVectors, AlbertTask, keras_hub.models.TextEmbedder
):
    """Turn each text into a vector; those of texts of like meaning are near.

    It is trained on pairs of texts, `x=(first, second)`, in one of two ways:

    - `objective="cosine"`: `y` says how alike the two are, from -1 to 1, and the
      cosine of their vectors learns it, by default with the squared error. Any Keras
      loss of two numbers may stand in its place.
    - `objective="contrastive"`: there is no `y`. For the first text of a pair, its
      second one is to be found among the second texts of the whole batch, by default
      with the cross-entropy over the cosines (InfoNCE, "multiple negatives
      ranking"). The larger the batch, the harder that is, in `evaluate` as well. A
      pair that has a text in common with another is no negative of it.

    Sources: [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084),
    [van den Oord et al., 2018](https://arxiv.org/abs/1807.03748),
    [Arora et al., 2017](https://openreview.net/forum?id=SyK00v5xx).

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertTextEmbedderPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        pooling_mode: string. `"mean"` or `"max"` of the vectors of a text's tokens,
            padding never counted; `"cls"`, the vector of `[CLS]` as the last layer
            gives it, not the pooler's. Defaults to `"mean"`.
        normalize: bool. Whether vectors have length 1, so that their dot product is
            their cosine. Defaults to `True`.
        objective: string. `"cosine"` or `"contrastive"`. Defaults to `"cosine"`.
        temperature: float. What the contrastive objective divides cosines by.
            Defaults to `0.05`.
        inverse_frequency: float or `None`. If set to `a`, the mean is weighted by
            `a / (a + p)`, with `p` the probability of a token in the tokenizer's
            unigram model (smooth inverse frequency), so that frequent words count
            little. The paper uses `1e-3`. Requires `pooling_mode="mean"`. The
            probabilities are saved with the model; without a preprocessor they are
            zeros until they are loaded. Defaults to `None`, equal weights.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If an argument is none of these, or the preprocessor makes inputs
            that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertTextEmbedder, AlbertTextEmbedderPreprocessor,
        ...     AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> first = ["a fox ran", "the fox ran", "a dog ran", "a dog"]
        >>> second = ["the fox ran", "a dog slept", "a dog ran fast", "the sea"]
        >>> vocabulary = train_vocabulary((first + second) * 4, vocabulary_size=32)
        >>> embedder = AlbertTextEmbedder(
        ...     AlbertBackbone(
        ...         vocabulary_size=32, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     AlbertTextEmbedderPreprocessor(AlbertTokenizer(vocabulary)))
        >>> history = embedder.fit((first, second), [0.9, 0.1, 0.8, 0.0], verbose=0)
        >>> embedder.embed(["a fox ran", "the sea"]).shape
        (2, 16)

        A text of any length is read in windows, and has one vector.

        >>> embedder.embed_documents("a fox ran " * 300).shape
        (16,)
    """

    preprocessor_cls = AlbertTextEmbedderPreprocessor

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertTextEmbedderPreprocessor | None = None,
        pooling_mode: Literal["mean", "cls", "max"] = "mean",
        normalize: bool = True,
        objective: Literal["cosine", "contrastive"] = "cosine",
        temperature: float = 0.05,
        inverse_frequency: float | None = None,
        **kwargs: Any,
    ) -> None:
        if objective not in ("cosine", "contrastive"):
            msg = (
                "`objective` is 'cosine' or 'contrastive'. Received: "
                f"objective={objective!r}"
            )
            raise ValueError(msg)
        if not temperature > 0:
            msg = f"`temperature` must be above 0. Received: temperature={temperature}"
            raise ValueError(msg)
        check_preprocessor(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        # In float32 under any policy: the sums of long texts lose little.
        self.pooling = MaskedPooling(
            pooling_mode,
            inverse_frequency,
            backbone.vocabulary_size,
            dtype="float32",
            name="pooling",
        )
        self.unit_length = keras.layers.UnitNormalization(
            dtype="float32", name="unit_length"
        )

        # === Functional model ===
        inputs = backbone.input
        x = backbone(inputs)["sequence_output"]
        is_weighted = inverse_frequency is not None
        ids = inputs["token_ids"] if is_weighted else None
        x = self.pooling(x, inputs["padding_mask"], ids)
        # Known to `compile`, which the constructor calls.
        self.objective = objective
        self.is_self_supervised = self.compares_rows = objective == "contrastive"
        super().__init__(
            inputs=inputs, outputs=self.unit_length(x) if normalize else x, **kwargs
        )

        # === Config ===
        self.pooling_mode = pooling_mode
        self.normalize = normalize
        self.temperature = temperature
        self.inverse_frequency = inverse_frequency
        self._read_probabilities()

    def _read_probabilities(self) -> None:
        """Set the probabilities of tokens to the vocabulary's, once there is one."""
        proto = self.preprocessor and self.preprocessor.tokenizer.proto
        if self.inverse_frequency is not None and proto:
            found = np.zeros(self.backbone.vocabulary_size, "float32")
            known = piece_probabilities(proto)
            found[: len(known)] = known
            self.pooling.token_probabilities.assign(found)

    @classmethod
    def _from_own_preset(cls, directory: Path, **kwargs: Any) -> Self:
        task = super()._from_own_preset(directory, **kwargs)
        # Of a model that was saved without them.
        task._read_probabilities()
        return task

    @property
    def input_spec(self) -> None:
        """Let pairs pass, which have an axis more; see `call`."""
        return

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Embed texts.

        Args:
            inputs: The dict that the preprocessor makes, of tensors
                `(examples, length)`, or for pairs `(examples, 2, length)`.
            training: bool. Whether dropout is on.
            mask: Not used.

        Returns:
            Float tensor `(examples, width)`, or `(examples, 2, width)`.
        """
        shape = inputs["token_ids"].shape
        if len(shape) == 2:
            return super().call(inputs, training=training)
        rows = {
            name: ops.reshape(ids, (-1, ops.shape(ids)[-1]))
            for name, ids in inputs.items()
        }
        vectors = super().call(rows, training=training)
        return ops.reshape(vectors, (-1, shape[1] or 2, vectors.shape[-1]))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Compute the loss of similarities, not of vectors."""
        y, scores = self._compare(x, y, y_pred)
        return super().compute_loss(x, y, scores, sample_weight, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Update the metrics with similarities, not with vectors."""
        y, scores = self._compare(x, y, y_pred)
        return super().compute_metrics(x, y, scores, sample_weight)

    def _compare(self, x: Any, y: Any, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Turn the vectors of a batch of pairs into targets and similarities."""
        if len(vectors.shape) != 3 or vectors.shape[1] not in (2, None):
            msg = (
                "The embedder learns from pairs of texts. Pass them as one argument, "
                f"`x=(first, second)`. Received vectors of shape {vectors.shape}"
            )
            raise ValueError(msg)
        if self.objective == "cosine":
            return y, cosine_scores(vectors)
        scores = contrastive_scores(vectors, x["token_ids"])
        numbers = ops.arange(ops.shape(vectors)[0])
        return numbers, ops.divide(scores, self.temperature)

    def default_loss(self) -> keras.losses.Loss:
        """Give squared error for similarities, cross-entropy for pairs alone."""
        if self.is_self_supervised:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return keras.losses.MeanSquaredError()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Give the root of the squared error, or how many pairs were found."""
        if self.is_self_supervised:
            return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        return [keras.metrics.RootMeanSquaredError(name="rmse")]

    @property
    def target_dtype(self) -> str:
        """The dtype of similarities."""
        return "float32"

    def encode_targets(self, y: Any) -> FloatArray:
        """Turn similarities into float32, and check them.

        Args:
            y: A number from -1 to 1 for each pair.

        Returns:
            float32 array `(pairs, 1)`.

        Raises:
            ValueError: If one is no such number, the message names its row; or if
                the objective takes none.
        """
        if self.is_self_supervised:
            msg = (
                "The contrastive objective takes pairs without similarities. Leave "
                "out `y`, or build the model with objective='cosine'."
            )
            raise ValueError(msg)
        scores = encode_scores(y)
        outside = np.abs(scores[:, 0]) > 1
        if outside.any():
            row = int(outside.argmax())
            msg = (
                f"Row {row} has the similarity {scores[row, 0]}, and a cosine lies "
                "between -1 and 1. Scale the similarities: divide by their maximum."
            )
            raise ValueError(msg)
        return scores

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read input that is preprocessed already, texts or pairs, and check it."""
        ids = inputs.get("token_ids") if isinstance(inputs, Mapping) else None
        if len(getattr(ids, "shape", ())) == 3:
            return read_ids(self.backbone, inputs, ("pairs", "texts", "tokens"))
        return read_ids(self.backbone, inputs)

    def get_config(self) -> dict[str, Any]:
        """Give the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            pooling_mode=self.pooling_mode,
            normalize=self.normalize,
            objective=self.objective,
            temperature=self.temperature,
            inverse_frequency=self.inverse_frequency,
        )
        return config
