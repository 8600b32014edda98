"""Text embedding: vectors whose cosine is the similarity of texts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import keras
import keras_hub
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone import AlbertBackbone, run_encoder, select_inputs
from keras_albert.data.batches import preprocess_batch
from keras_albert.data.labels import encode_scores
from keras_albert.data.tables import are_ids, is_dataset, read_data, read_ids
from keras_albert.layers.base_layer import packing_inputs
from keras_albert.layers.encoder import MaskedPooling
from keras_albert.layers.torch_inference import fast_call
from keras_albert.preprocessors.preprocessor import AlbertTextEmbedderPreprocessor
from keras_albert.tasks.predict import predict_windows
from keras_albert.tasks.task import AlbertTask
from keras_albert.tasks.text_embedding import objectives
from keras_albert.tasks.text_embedding.search import search
from keras_albert.text.reading import TextBatch, are_texts
from keras_albert.text.windows import TextWindows
from keras_albert.types import FloatArray, Int64Array, Mode, Tensor, Texts
from keras_albert.utils.arguments import check_positive, is_whole_number

# An input that no model reads: the vectors of a guide, `(examples, texts, width)`.
GUIDE = "guide_vectors"


def check_dim(dim: object, width: int, name: str = "dim") -> int:
    """Return a width of vectors, after a check."""
    if not is_whole_number(dim) or not 1 <= dim <= width:
        raise ValueError(
            f"`{name}` must be a width from 1 to {width}, the vectors' own. Received: "
            f"{dim!r}"
        )
    return int(dim)


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedder(AlbertTask, keras_hub.models.TextEmbedder):
    """Compute a vector for each text; texts with similar meanings have similar vectors.

    It is trained on pairs of texts, `x=(first, second)`, in one of two ways:

    - `objective="cosine"`: the cosine of their vectors is trained to equal `y`, their
      similarity from -1 to 1, by default with the squared error.
    - `objective="contrastive"`: without `y`. The second text of a pair must be found
      among the second texts of the batch, by default with the cross-entropy over the
      cosines (InfoNCE, "multiple negatives ranking"). Further texts,
      `x=(first, second, wrong, ...)`, are hard negatives: wrong answers for all first
      texts of the batch. A larger batch makes this harder, in `evaluate` too. Pairs
      with a text in common are not negatives of each other.

    Sources: [Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084),
    [van den Oord et al., 2018](https://arxiv.org/abs/1807.03748),
    [Kusupati et al., 2022](https://arxiv.org/abs/2205.13147),
    [Gao et al., 2021](https://arxiv.org/abs/2101.06983),
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
            unigram model (smooth inverse frequency; the paper uses `1e-3`). Requires
            `pooling_mode="mean"` and a SentencePiece vocabulary. Probabilities are
            saved with the model; without a preprocessor they are zeros until they are
            loaded. Defaults to `None`, equal weights.
        dim: int or `None`. The width of the vectors, their first numbers. It is kept
            in presets and exports. Defaults to `None`, the width of the encoder.
        matryoshka_dims: Sequence of int or `None`. Widths at which the vectors are
            trained to be useful: the loss is the mean over them. Defaults to `None`,
            the full width alone.
        mini_batch_size: int or `None`. Training computes so many texts of a batch at a
            time, and again in the backward pass (gradient caching), so that a batch
            only needs the memory of its vectors. Defaults to `None`, all at once.
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

        >>> embedder.embed("a fox ran " * 300, truncate=False).shape
        (256,)
    """

    preprocessor_cls = AlbertTextEmbedderPreprocessor
    uses_pooler = False
    _guide: Callable[[list[str]], Any] | None = None

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertTextEmbedderPreprocessor | None = None,
        pooling_mode: Literal["mean", "cls", "max"] = "mean",
        normalize: bool = True,
        objective: Literal["cosine", "contrastive"] = "cosine",
        temperature: float = 0.05,
        inverse_frequency: float | None = None,
        dim: int | None = None,
        matryoshka_dims: Sequence[int] | None = None,
        mini_batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        if objective not in ("cosine", "contrastive"):
            raise ValueError(
                "`objective` must be 'cosine' or 'contrastive'. Received: "
                f"objective={objective!r}"
            )
        if not temperature > 0:
            msg = f"`temperature` must be above 0. Received: temperature={temperature}"
            raise ValueError(msg)
        width = backbone.hidden_dim
        if dim is not None:
            width = check_dim(dim, width)
        for each in matryoshka_dims or ():
            check_dim(each, width, "matryoshka_dims")
        if mini_batch_size is not None:
            check_positive(mini_batch_size=mini_batch_size)
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

        inputs = backbone.input
        self.normalize = normalize
        self.inverse_frequency = inverse_frequency
        self.dim = dim
        # Read by `compile`, which the constructor calls.
        self.objective = objective
        self.is_self_supervised = self.compares_rows = objective == "contrastive"
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        self.pooling_mode = pooling_mode
        self.temperature = temperature
        self.matryoshka_dims = matryoshka_dims and tuple(matryoshka_dims)
        self.mini_batch_size = mini_batch_size
        self._read_probabilities()

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        x = run_encoder(self.backbone, inputs, training, num_layers)
        is_weighted = self.inverse_frequency is not None
        ids = inputs["token_ids"] if is_weighted else None
        x = fast_call(self.pooling, x, inputs["padding_mask"], ids)
        x = x if self.dim is None else x[:, : self.dim]
        return fast_call(self.unit_length, x) if self.normalize else x

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
        cls, checkpoint: Any, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        task = super()._from_checkpoint(checkpoint, load_weights, **kwargs)
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

    def call(
        self,
        inputs: Any,
        training: bool | None = None,
        mask: Any = None,
        num_layers: int | None = None,
    ) -> Any:
        """Embed ids, `(examples, length)` or `(examples, texts, length)`."""
        shape = inputs["token_ids"].shape
        if len(shape) == 2:
            return super().call(inputs, training, mask, num_layers)
        ids = select_inputs(self, inputs)
        rows = {
            name: ops.reshape(array, (-1, ops.shape(array)[-1]))
            for name, array in ids.items()
        }
        forward, packed = super().call, packing_inputs(inputs)
        if self.mini_batch_size is None:
            vectors = forward(rows | packed, training=training)
        elif packed:
            raise ValueError(
                "`mini_batch_size` divides the texts of a batch, which share rows. "
                "Build the preprocessor with pack_sequences=False."
            )
        else:
            weights = {id(weight) for weight in self.weights}
            seeds = [v for v in self.variables if id(v) not in weights]
            vectors = objectives.run_in_parts(
                *(forward, rows, self.mini_batch_size),
                *(self.variables, seeds, training),
            )
        texts = shape[1] or ops.shape(ids["token_ids"])[1]
        return ops.reshape(vectors, (-1, texts, vectors.shape[-1]))

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> keras.KerasTensor:
        """Return symbolic vectors, of one or several texts an example."""
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
        """Compute the loss of similarities instead of vectors, the mean over widths."""
        losses = []
        for dim in self.matryoshka_dims or (None,):
            targets, scores = self._compare(x, y, y_pred[..., :dim])
            losses.append(
                super().compute_loss(x, targets, scores, sample_weight, training)
            )
        return sum(losses) / len(losses)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Update the metrics with similarities instead of vectors."""
        y, scores = self._compare(x, y, y_pred)
        return super().compute_metrics(x, y, scores, sample_weight)

    def _compare(self, x: Any, y: Any, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets and similarities of a batch."""
        objectives.check_examples(vectors, self.objective)
        if self.objective == "cosine":
            return y, objectives.cosine_scores(vectors)
        scores = objectives.contrastive_scores(vectors, x["token_ids"], x.get(GUIDE))
        numbers = ops.arange(ops.shape(vectors)[0])
        return numbers, ops.divide(scores, self.temperature)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        *,
        guide: Callable[[list[str]], Any] | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train on pairs, or on pairs with hard negatives; see `AlbertTask.fit`.

        Args:
            x: See `AlbertTask.fit`. A tuple of columns: `(first, second)`, and for the
                contrastive objective `(first, second, wrong, ...)`.
            y: Similarities, unless the objective is contrastive.
            batch_size: int. Defaults to `None`, which means 32.
            epochs: int. Defaults to `1`.
            guide: Callable or `None`. Another model's function from texts to vectors,
                such as its `embed`. What it finds more similar to a first text than the
                second one is no negative ([GISTEmbed, Solatorio,
                2024](https://arxiv.org/abs/2402.16829)), and first texts, and second
                texts, are negatives of each other. It reads each text once, before the
                training. Defaults to `None`.
            **kwargs: See `AlbertTask.fit`.

        Returns:
            The `keras.callbacks.History`.

        Raises:
            TypeError: See `AlbertTask.fit`.
            ValueError: See `AlbertTask.fit`; or if there is a guide, and the objective
                is not contrastive or `x` has no texts.

        Example:
            >>> from keras_albert import AlbertTextEmbedder
            >>> embedder = AlbertTextEmbedder.from_preset(
            ...     "albert_tiny_en_uncased", objective="contrastive")
            >>> guide = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
            >>> x = ["who ran?", "who slept?"], ["a fox ran", "a dog slept"]
            >>> history = embedder.fit(x, guide=guide.embed, verbose=0)
        """
        if guide is not None and not self.is_self_supervised:
            raise ValueError(
                "A `guide` chooses negatives, but the objective 'cosine' has none. "
                "Leave it out, or build the model with objective='contrastive'."
            )
        self._guide = guide
        try:
            return super().fit(x, y, batch_size, epochs, **kwargs)
        finally:
            self._guide = None

    def encode_texts(
        self, mode: Mode, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[Any, bool]:
        """Read, check and tokenize texts, and let the guide read them."""
        examples, batched = super().encode_texts(mode, x, y, sample_weight)
        if self._guide is not None and mode != "prediction":
            columns = self.require_preprocessor("fit").columns(x).columns
            found = [np.asarray(self._guide(column), "float32") for column in columns]
            examples.texts.extra = {GUIDE: np.stack(found, axis=1)}
        return examples, batched

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
        """Check that ids to learn from have pairs of texts."""
        if mode == "prediction":
            return
        if self._guide is not None:
            raise ValueError("A `guide` reads texts, but `x` has ids. Pass the texts.")
        objectives.check_examples(ids["token_ids"], self.objective)

    def encode_targets(self, y: Any) -> FloatArray:
        """Return similarities, from -1 to 1, as a float32 array `(pairs, 1)`."""
        if self.is_self_supervised:
            raise ValueError(
                "The contrastive objective takes pairs without similarities: "
                "`fit((first, second))`, a data set of `((first, second),)`. For "
                "similarities build the model with objective='cosine'."
            )
        scores = encode_scores(y)
        outside = np.abs(scores[:, 0]) > 1
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(
                f"Row {row} has the similarity {scores[row, 0]}, but a cosine lies "
                "between -1 and 1. Scale the similarities: divide by their maximum."
            )
        return scores

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check input that is preprocessed already, texts or pairs."""
        ids = inputs.get("token_ids") if isinstance(inputs, Mapping) else None
        if len(getattr(ids, "shape", ())) == 3:
            return read_ids(self.backbone, inputs, "examples, texts, tokens")
        return read_ids(self.backbone, inputs)

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Embed texts or pairs, in their order; see `AlbertTask.predict`.

        Example:
            >>> from keras_albert import AlbertTextEmbedder
            >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
            >>> embedder.predict(["My parcel is late.", "Thank you!"], verbose=0).shape
            (2, 384)
        """
        columns = self.traits.columns._replace(label=None)
        x = read_data(x, columns=columns, batch_size=batch_size).x
        if is_dataset(x) or isinstance(x, TextWindows):
            return super().predict(x, batch_size, **kwargs)
        if are_ids(self.preprocessor, x):
            return self._embed_ids(
                self.read_ids(x), super().predict, batch_size=batch_size, **kwargs
            )
        # The two texts of a pair are embedded independently, in batches of similar
        # length, so that pairs reuse what was compiled for single texts.
        columns, batched = self.require_preprocessor("predict").columns(x)
        if batched:
            x = TextBatch(([text for column in columns for text in column],), True)
        vectors = super().predict(x, batch_size, **kwargs)
        parts = np.split(vectors, len(columns))
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def embed(
        self,
        texts: Texts,
        batch_size: int | None = None,
        prompt: str | None = None,
        dim: int | None = None,
        *,
        truncate: bool = True,
        stride: int | None = None,
    ) -> FloatArray:
        """Embed texts.

        Args:
            texts: A text, or many; a tuple of texts is one example.
            batch_size: int. Defaults to `None`, which means 32.
            prompt: string or `None`. The name of one of the preprocessor's `prompts`,
                which is put before each text. Defaults to `None`, its
                `default_prompt`.
            dim: int or `None`. The width of the vectors, as in the constructor.
                Defaults to `None`, the width of the model's vectors.
            truncate: bool. Whether to truncate a text that is longer than a row.
                `False` reads all of it in overlapping windows, whose mean is the
                vector, normalized again with `normalize`. Defaults to `True`.
            stride: int or `None`. The tokens between the starts of windows. Defaults
                to `None`, half a window.

        Returns:
            float32 array `(width,)` for one text, `(texts, width)` for many, in their
            order; with an axis before the last for the texts of an example.

        Raises:
            ValueError: If the model has no preprocessor, a row is not a text, or there
                is no such prompt or width.

        Example:
            >>> from keras_albert import AlbertTextEmbedder
            >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
            >>> messages = ["My parcel is late.", "I forgot my password."]
            >>> cosines = embedder.embed(
            ...     messages) @ embedder.embed("Where is the package?")
            >>> messages[cosines.argmax()]
            'My parcel is late.'
        """
        preprocessor = self.require_preprocessor("embed")
        if dim is not None:
            check_dim(dim, self.output.shape[-1])
        columns, batched = preprocessor.with_prompt(texts, prompt)
        rows = TextBatch(columns, True)
        if truncate:
            vectors: FloatArray = self.predict(rows, batch_size, verbose=0)
        else:
            vectors = predict_windows(self, "embed", rows, batch_size, stride)[0]
        vectors = vectors[..., :dim]
        if self.normalize and not (truncate and dim is None):
            vectors = np.array(ops.convert_to_numpy(self.unit_length(vectors)))
        return vectors if batched else vectors[0]

    def search(
        self,
        corpus: Any,
        queries: Texts,
        top_k: int = 10,
        batch_size: int | None = None,
    ) -> tuple[Int64Array, FloatArray]:
        """Find the texts that are most similar to each query; see `tasks.search`.

        Args:
            corpus: Sequence of string; or their vectors, or an index of faiss, so that
                they are embedded once.
            queries: A text, or many. They are given the preprocessor's prompt "query",
                and the texts of the corpus "document", if there are such prompts.
            top_k: int. How many texts to find. Defaults to `10`.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            The rows of the texts, int64 `(queries, top_k)`, and their cosines, float32;
            both `(top_k,)` for one text.

        Raises:
            ValueError: See `embed` and `tasks.search`.

        Example:
            >>> from keras_albert import AlbertTextEmbedder
            >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
            >>> texts = ["a fine film", "my parcel is late", "the sea"]
            >>> rows, cosines = embedder.search(texts, "where is my package?", top_k=1)
            >>> texts[rows[0]]
            'my parcel is late'
        """
        prompts = self.require_preprocessor("search").prompts
        kinds = [kind if kind in prompts else None for kind in ("document", "query")]
        if are_texts(corpus):
            corpus = self.embed(list(corpus), batch_size, kinds[0])
        vectors = self.embed(queries, batch_size, kinds[1])
        found = search(corpus, np.atleast_2d(vectors), top_k)
        return found if vectors.ndim == 2 else (found[0][0], found[1][0])

    def predict_on_batch(self, x: Any) -> Any:
        """Embed one batch of texts or pairs; see `keras.Model.predict_on_batch`.

        Example:
            >>> from keras_albert import AlbertTextEmbedder
            >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
            >>> embedder.predict_on_batch(["My parcel is late.", "Thank you!"]).shape
            (2, 384)
        """
        (ids,) = preprocess_batch(self, "prediction", x)
        return self._embed_ids(ids, super().predict_on_batch)

    def _embed_ids(self, ids: dict[str, Any], predict: Any, **kwargs: Any) -> Any:
        *shape, length = ids["token_ids"].shape
        rows = {name: array.reshape(-1, length) for name, array in ids.items()}
        vectors = predict(rows, **kwargs)
        return vectors.reshape(*shape, vectors.shape[-1])
