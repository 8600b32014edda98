"""Vectors of texts and of pairs, from one program."""

from typing import Any

import keras
import numpy as np

from keras_albert.tasks.base.predict_documents import DocumentOutputs
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.inputs.datasets import is_dataset
from keras_albert.tasks.inputs.model_input import holds_ids, preprocess_batch
from keras_albert.text.inputs.read_text_columns import text_columns
from keras_albert.text.packing.document_windows import TextWindows
from keras_albert.types import FloatArray, Texts


class TextVectors(DocumentOutputs, AlbertTask):
    """The part of the embedder that predicts.

    The texts of pairs go their ways apart, each in a batch of its like, so that what
    was compiled for texts serves pairs.
    """

    normalize: bool
    unit_length: Any

    def predict(self, x: Any, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Embed texts or pairs, in their order; see `AlbertTask.predict`."""
        if is_dataset(x):
            # Who knows whether it holds pairs. TensorFlow generalizes over what it
            # has seen, to tensors of any rank, so it may not have seen texts before.
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
        columns, batched = text_columns(x)
        texts = [text for column in columns for text in column]
        vectors = super().predict(texts if batched else x, batch_size, **kwargs)
        parts = np.split(vectors, len(columns))
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def embed(self, texts: Texts, batch_size: int | None = None) -> FloatArray:
        """Embed texts.

        Args:
            texts: A text, or many; a tuple of two is a pair. What is too long for a row
                is cut; see `embed_documents`.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            float32 array `(width,)` for one text, `(texts, width)` for many, in their
            order; with an axis of 2 before the last for pairs.

        Raises:
            ValueError: If the model has no preprocessor, or a row is no text.
        """
        if self.preprocessor is None:
            msg = (
                "`embed` reads texts, and this model has no preprocessor. Build it "
                "with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        columns, batched = text_columns(texts)
        rows = columns if len(columns) > 1 else columns[0]
        vectors: FloatArray = self.predict(rows, batch_size, verbose=0)
        return vectors if batched else vectors[0]

    def embed_documents(
        self, texts: Texts, batch_size: int | None = None, stride: int | None = None
    ) -> FloatArray:
        """Embed texts of any length; see `predict_documents`.

        The means of a text's windows have length 1 again, if vectors have.

        Args:
            texts: A text, or many.
            batch_size: int. Windows in a batch. Defaults to `None`, 32.
            stride: int or `None`. How many tokens a window begins behind the one
                before. Defaults to `None`, half a window.

        Returns:
            float32 array `(width,)` for one text, `(texts, width)` for many, in their
            order.

        Raises:
            ValueError: If the model has no preprocessor, a row is no text, or `stride`
                is below 1 or above a window's length.
        """
        vectors = self.predict_documents(texts, batch_size, stride)
        return vectors if text_columns(texts)[1] else vectors[0]

    def merge_windows(self, windows: TextWindows, outputs: FloatArray) -> FloatArray:
        """Turn the vectors of windows into those of documents."""
        vectors = super().merge_windows(windows, outputs)
        if self.normalize:
            merged = windows.counts > 1
            unit = self.unit_length(vectors[merged])
            vectors[merged] = keras.ops.convert_to_numpy(unit)
        return vectors

    def predict_on_batch(self, x: Any, **kwargs: Any) -> Any:
        """Embed one batch of texts or pairs; see `keras.Model.predict_on_batch`."""
        (ids,) = preprocess_batch(self, "prediction", x)
        return self._embed_ids(ids, super().predict_on_batch, **kwargs)

    def _embed_ids(self, ids: dict[str, Any], predict: Any, **kwargs: Any) -> Any:
        *shape, length = ids["token_ids"].shape
        rows = {name: array.reshape(-1, length) for name, array in ids.items()}
        vectors = predict(rows, **kwargs)
        return vectors.reshape(*shape, vectors.shape[-1])

    def _forget_shapes(self) -> None:
        if keras.config.backend() == "tensorflow":
            self.predict_function = None
