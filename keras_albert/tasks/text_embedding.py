"""Text embedding: vectors whose cosine is the similarity of texts."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import keras
import keras_hub
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone.albert_backbone import AlbertBackbone, select_inputs
from keras_albert.layers.attention import packing_inputs
from keras_albert.layers.heads import MaskedPooling
from keras_albert.tasks.base.outputs import DocumentOutputs
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.inputs.datasets import is_dataset
from keras_albert.tasks.inputs.labels import encode_scores
from keras_albert.tasks.inputs.model_input import preprocess_batch
from keras_albert.tasks.inputs.preprocessed_inputs import holds_ids, read_ids
from keras_albert.text.packing import TextWindows
from keras_albert.text.reading import TextBatch
from keras_albert.text.tasks.text_embedding import AlbertTextEmbedderPreprocessor
from keras_albert.types import FloatArray, Mode, Tensor, Texts


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedder(DocumentOutputs, AlbertTask, keras_hub.models.TextEmbedder):
    """Compute a vector for each text; texts with similar meanings have similar vectors.

    It is trained on pairs of texts, `x=(first, second)`, in one of two ways:

    - `objective="cosine"`: `y` is the similarity of the two, from -1 to 1. The cosine
      of their vectors is trained to equal it, by default with the squared error; any
      Keras loss of two numbers is possible.
    - `objective="contrastive"`: there is no `y`. The second text of a pair must be
      found among the second texts of the batch, by default with the cross-entropy over
      the cosines (InfoNCE, "multiple negatives ranking"). A larger batch makes this
      harder, in `evaluate` too. Pairs with a text in common are not negatives of each
      other.

    Sources: [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084),
    [van den Oord et al., 2018](https://arxiv.org/abs/1807.03748),
    [Arora et al., 2017](https://openreview.net/forum?id=SyK00v5xx).

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertTextEmbedderPreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        pooling_mode: string. `"mean"` or `"max"` of the vectors of a text's tokens
            without padding; or `"cls"`, the vector of `[CLS]` in the last layer, not
            the pooler's. Defaults to `"mean"`.
        normalize: bool. Whether vectors have length 1, so that their dot product is
            their cosine. Defaults to `True`.
        objective: string. `"cosine"` or `"contrastive"`. Defaults to `"cosine"`.
        temperature: float. The divisor of the cosines in the contrastive objective.
            Defaults to `0.05`.
        inverse_frequency: float or `None`. If set to `a`, the mean is weighted by
            `a / (a + p)`, with `p` the probability of a token in the tokenizer's
            unigram model (smooth inverse frequency), so that frequent words have little
            weight. The paper uses `1e-3`. Requires `pooling_mode="mean"` and a
            SentencePiece vocabulary, since a WordPiece has no probabilities. They are
            saved with the model; without a preprocessor they are zeros until they are
            loaded. Defaults to `None`, equal weights.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If an argument is invalid, or the preprocessor makes inputs that the
            backbone cannot read.

    Example:
        >>> from keras_albert import AlbertTextEmbedder
        >>> embedder = AlbertTextEmbedder.from_preset("albert_tiny_en_uncased")
        >>> first = ["a fox ran", "the fox ran", "a dog ran", "a dog"]
        >>> second = ["the fox ran", "a dog slept", "a dog ran fast", "the sea"]
        >>> history = embedder.fit((first, second), [0.9, 0.1, 0.8, 0.0], verbose=0)
        >>> embedder.embed(["a fox ran", "the sea"]).shape
        (2, 256)

        A text of any length is read in windows, and has one vector.

        >>> embedder.embed_documents("a fox ran " * 300).shape
        (256,)
    """

    preprocessor_cls = AlbertTextEmbedderPreprocessor
    uses_pooler = False

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
            raise ValueError(
                "`objective` is 'cosine' or 'contrastive'. Received: "
                f"objective={objective!r}"
            )
        if not temperature > 0:
            msg = f"`temperature` must be above 0. Received: temperature={temperature}"
            raise ValueError(msg)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        # In float32 under any policy, for the precision of sums over long texts.
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
        self.normalize = normalize
        self.inverse_frequency = inverse_frequency
        # Read by `compile`, which the constructor calls.
        self.objective = objective
        self.is_self_supervised = self.compares_rows = objective == "contrastive"
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        # === Config ===
        self.pooling_mode = pooling_mode
        self.temperature = temperature
        self._read_probabilities()

    def _run_layers(self, inputs: Any, training: bool | None = None) -> Any:
        x = self.backbone(inputs, training=training)["sequence_output"]
        is_weighted = self.inverse_frequency is not None
        ids = inputs["token_ids"] if is_weighted else None
        x = self.pooling(x, inputs["padding_mask"], ids)
        return self.unit_length(x) if self.normalize else x

    def _read_probabilities(self) -> None:
        """Set the probabilities of tokens to the vocabulary's, once there is one."""
        tokenizer = self.preprocessor and self.preprocessor.tokenizer
        if self.inverse_frequency is not None and tokenizer and tokenizer.proto:
            found = np.zeros(self.backbone.vocabulary_size, "float32")
            known = tokenizer.vocabulary.probabilities()
            found[: len(known)] = known
            self.pooling.token_probabilities.assign(found)

    @classmethod
    def _from_checkpoint(
        cls,
        checkpoint: Any,
        load_weights: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Self:
        task = super()._from_checkpoint(checkpoint, load_weights, dtype, **kwargs)
        is_weighted = task.inverse_frequency is not None
        if is_weighted and not np.any(
            keras.ops.convert_to_numpy(task.pooling.token_probabilities)
        ):
            # It was saved without them.
            task._read_probabilities()
        return task

    @property
    def input_spec(self) -> None:
        """None, since pairs have one more axis; see `call`."""
        return

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Embed texts.

        Args:
            inputs: The dict of the preprocessor, of tensors `(examples, length)`, or
                for pairs `(examples, 2, length)`.
            training: bool. Whether dropout is active.
            mask: Not used.

        Returns:
            Float tensor `(examples, width)`, or `(examples, 2, width)`.
        """
        shape = inputs["token_ids"].shape
        if len(shape) == 2:
            return super().call(inputs, training=training)
        ids = select_inputs(self, inputs)
        rows = {
            name: ops.reshape(array, (-1, ops.shape(array)[-1]))
            for name, array in ids.items()
        }
        vectors = super().call(rows | packing_inputs(inputs), training=training)
        return ops.reshape(vectors, (-1, shape[1] or 2, vectors.shape[-1]))

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> keras.KerasTensor:
        """Return symbolic vectors, of texts or of pairs."""
        rows = {
            name: keras.KerasTensor((None, *ids.shape[-1:]), ids.dtype)
            for name, ids in inputs.items()
        }
        vectors = super().compute_output_spec(rows, training=training, mask=mask)
        texts = inputs["token_ids"].shape[:-1]
        return keras.KerasTensor((*texts, vectors.shape[-1]), vectors.dtype)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Compute the loss of similarities instead of vectors."""
        y, scores = self._compare(x, y, y_pred)
        return super().compute_loss(x, y, scores, sample_weight, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Update the metrics with similarities instead of vectors."""
        y, scores = self._compare(x, y, y_pred)
        return super().compute_metrics(x, y, scores, sample_weight)

    def _compare(self, x: Any, y: Any, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets and similarities of a batch of pairs."""
        check_pairs(vectors)
        if self.objective == "cosine":
            return y, cosine_scores(vectors)
        scores = contrastive_scores(vectors, x["token_ids"])
        numbers = ops.arange(ops.shape(vectors)[0])
        return numbers, ops.divide(scores, self.temperature)

    @property
    def outputs_are_logits(self) -> bool | None:  # type: ignore[override]
        """Whether a loss reads logits of all pairs, and not the cosine of one pair."""
        return True if self.is_self_supervised else None

    def default_loss(self) -> keras.losses.Loss:
        """Return squared error for similarities, cross-entropy for pairs alone."""
        if self.is_self_supervised:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return keras.losses.MeanSquaredError()

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Return the root of the squared error, or the accuracy of finding pairs."""
        if self.is_self_supervised:
            return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
        return [keras.metrics.RootMeanSquaredError(name="rmse")]

    @property
    def target_dtype(self) -> str:
        """The dtype of similarities."""
        return "float32"

    def check_id_targets(self, ids: dict[str, Any], y: Any, mode: Mode) -> None:
        """Check that ids to learn from are those of pairs."""
        if mode != "prediction":
            # TensorFlow traces a step with any number of texts.
            check_pairs(ids["token_ids"])

    def encode_targets(self, y: Any) -> FloatArray:
        """Encode and check similarities.

        Args:
            y: A number from -1 to 1 for each pair.

        Returns:
            float32 array `(pairs, 1)`.

        Raises:
            ValueError: If one is invalid, with its row; or if the objective takes none.
        """
        if self.is_self_supervised:
            raise ValueError(
                "The contrastive objective takes pairs without similarities. Leave "
                "out `y`, or build the model with objective='cosine'."
            )
        scores = encode_scores(y)
        outside = np.abs(scores[:, 0]) > 1
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"Row {row} has the similarity {scores[row, 0]}, and a cosine lies "
                "between -1 and 1. Scale the similarities: divide by their maximum."
            )
        return scores

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check input that is preprocessed already, texts or pairs."""
        ids = inputs.get("token_ids") if isinstance(inputs, Mapping) else None
        if len(getattr(ids, "shape", ())) == 3:
            return read_ids(self.backbone, inputs, ("pairs", "texts", "tokens"))
        return read_ids(self.backbone, inputs)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Embed texts or pairs, in their order; see `AlbertTask.predict`."""
        if is_dataset(x):
            # It may contain pairs. TensorFlow generalizes over the shapes that it has
            # seen, to tensors of any rank, so it must not have seen texts before.
            self._forget_shapes()
            try:
                return super().predict(x, batch_size, **kwargs)
            finally:
                self._forget_shapes()
        if holds_ids(self, x):
            return self._embed_ids(
                self.read_ids(x), super().predict, batch_size=batch_size, **kwargs
            )
        if isinstance(x, TextWindows):
            return super().predict(x, batch_size, **kwargs)
        # The two texts of a pair are embedded independently, in batches of similar
        # length, so that pairs reuse what was compiled for single texts.
        columns, batched = self.require_preprocessor("predict").columns(x)
        if batched:
            x = TextBatch(([text for column in columns for text in column],), True)
        vectors = super().predict(x, batch_size, **kwargs)
        parts = np.split(vectors, len(columns))
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def embed(
        self, texts: Texts, batch_size: int | None = None, prompt: str | None = None
    ) -> FloatArray:
        """Embed texts.

        Args:
            texts: A text, or many; a tuple of two is a pair. A text that is longer than
                a row is truncated; see `embed_documents`.
            batch_size: int. Defaults to `None`, which means 32.
            prompt: string or `None`. The name of one of the preprocessor's `prompts`,
                which is put before each text. Defaults to `None`, its
                `default_prompt`.

        Returns:
            float32 array `(width,)` for one text, `(texts, width)` for many, in their
            order; with an axis of 2 before the last for pairs.

        Raises:
            ValueError: If the model has no preprocessor, a row is not a text, or there
                is no such prompt.
        """
        preprocessor = self.require_preprocessor("embed")
        columns, batched = preprocessor.with_prompt(texts, prompt)
        rows = TextBatch(columns, True)
        vectors: FloatArray = self.predict(rows, batch_size, verbose=0)
        return vectors if batched else vectors[0]

    def embed_documents(
        self, texts: Texts, batch_size: int | None = None, stride: int | None = None
    ) -> FloatArray:
        """Embed texts of any length; see `predict_documents`.

        With `normalize`, the mean of the windows of a text is normalized too.

        Args:
            texts: A text, or many.
            batch_size: int. Windows in a batch. Defaults to `None`, which means 32.
            stride: int or `None`. Distance in tokens between the starts of consecutive
                windows. Defaults to `None`, half a window.

        Returns:
            float32 array `(width,)` for one text, `(texts, width)` for many, in their
            order.

        Raises:
            ValueError: If the model has no preprocessor, a row is not a text, or
                `stride` is below 1 or above a window's length.
        """
        preprocessor = self.require_preprocessor("embed_documents")
        vectors, batched = self.read_documents(
            "embed_documents", preprocessor.with_prompt(texts), batch_size, stride
        )
        return vectors if batched else vectors[0]

    def merge_windows(self, windows: TextWindows, outputs: FloatArray) -> FloatArray:
        """Return the vectors of documents."""
        vectors = super().merge_windows(windows, outputs)
        if self.normalize:
            merged = windows.counts > 1
            unit = self.unit_length(vectors[merged])
            vectors[merged] = keras.ops.convert_to_numpy(unit)
        return vectors

    def predict_on_batch(self, x: Any) -> Any:
        """Embed one batch of texts or pairs; see `keras.Model.predict_on_batch`."""
        (ids,) = preprocess_batch(self, "prediction", x)
        return self._embed_ids(ids, super().predict_on_batch)

    def _embed_ids(self, ids: dict[str, Any], predict: Any, **kwargs: Any) -> Any:
        *shape, length = ids["token_ids"].shape
        rows = {name: array.reshape(-1, length) for name, array in ids.items()}
        vectors = predict(rows, **kwargs)
        return vectors.reshape(*shape, vectors.shape[-1])

    def _forget_shapes(self) -> None:
        if keras.config.backend() == "tensorflow":
            self.predict_function = None


# The score of pairs that are not compared: the probability is zero.
_NEVER = -1e9


def check_pairs(rows: Any) -> None:
    """Raise if an array of vectors, or of ids, is not one of pairs."""
    if len(rows.shape) != 3 or rows.shape[1] not in (2, None):
        raise ValueError(
            "The embedder is trained on pairs of texts. Pass them as one argument, "
            f"`x=(first, second)`. Received an array of shape {rows.shape}"
        )


def cosine_scores(vectors: Tensor) -> Tensor:
    """Return the cosines `(pairs, 1)` of `vectors` `(pairs, 2, width)`."""
    vectors = ops.normalize(vectors, axis=-1)
    product = ops.multiply(vectors[:, 0], vectors[:, 1])
    return ops.sum(product, axis=-1, keepdims=True)


def contrastive_scores(vectors: Tensor, token_ids: Tensor) -> Tensor:
    """Compare each first text with all second texts, without other right answers."""
    vectors = ops.normalize(vectors, axis=-1)
    scores = ops.matmul(vectors[:, 0], ops.transpose(vectors[:, 1]))
    numbers = ops.arange(ops.shape(vectors)[0])
    is_other = ops.not_equal(ops.expand_dims(numbers, 0), ops.expand_dims(numbers, 1))
    is_equal = ops.equal(ops.expand_dims(token_ids, 0), ops.expand_dims(token_ids, 1))
    has_equal = ops.any(ops.all(is_equal, axis=-1), axis=-1)
    return ops.where(ops.logical_and(is_other, has_equal), _NEVER, scores)
