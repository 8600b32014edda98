"""Vectors of texts and of pairs, from one program."""

from typing import Any

import keras
import numpy as np

from keras_albert.tasks.datasets import is_dataset
from keras_albert.tasks.model_input import holds_ids
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.text_columns import text_columns


class TextVectors(AlbertTask):
    """The part of the embedder that predicts.

    The texts of pairs go their ways apart, each in a batch of its like, so that what
    was compiled for texts serves pairs.
    """

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
        columns, batched = text_columns(x)
        texts = [text for column in columns for text in column]
        vectors = super().predict(texts if batched else x, batch_size, **kwargs)
        parts = np.split(vectors, len(columns))
        return parts[0] if len(parts) == 1 else np.stack(parts, axis=1)

    def predict_on_batch(self, x: Any, **kwargs: Any) -> Any:
        """Embed one batch of texts or pairs; see `keras.Model.predict_on_batch`."""
        ids = self.preprocess_samples(x)
        return self._embed_ids(ids, super().predict_on_batch, **kwargs)

    def _embed_ids(self, ids: dict[str, Any], predict: Any, **kwargs: Any) -> Any:
        *shape, length = ids["token_ids"].shape
        rows = {name: array.reshape(-1, length) for name, array in ids.items()}
        vectors = predict(rows, **kwargs)
        return vectors.reshape(*shape, vectors.shape[-1])

    def _forget_shapes(self) -> None:
        if keras.config.backend() == "tensorflow":
            self.predict_function = None
