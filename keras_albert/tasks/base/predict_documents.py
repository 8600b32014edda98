"""Outputs for texts of any length."""

from typing import Any

from keras_albert.text.packing import TextWindows
from keras_albert.types import FloatArray, Texts


class DocumentOutputs:
    """One output for each document, as a mixin before `AlbertTask`."""

    predict: Any
    require_preprocessor: Any

    def predict_documents(
        self, texts: Texts, batch_size: int | None = None, stride: int | None = None
    ) -> FloatArray:
        """Compute the model's outputs for texts of any length.

        `predict` truncates a text that is longer than a row; this method splits it into
        overlapping windows. The outputs are the means over the windows, weighted by the
        number of tokens for which a window has the most context, so that each token
        counts once. A text that fits in a row has the same outputs as in `predict`.

        Args:
            texts: A text, or many.
            batch_size: int. Windows in a batch. Defaults to `None`, which means 32.
            stride: int or `None`. Distance in tokens between the starts of consecutive
                windows. Defaults to `None`, half a window.

        Returns:
            float32 array `(texts, width)`, for one text `(1, width)`, in the order of
            `texts`.

        Raises:
            ValueError: If the model has no preprocessor, a row is not a text, or
                `stride` is below 1 or above a window's length.
        """
        return self.read_documents("predict_documents", texts, batch_size, stride)[0]

    def read_documents(
        self, method: str, texts: Texts, batch_size: int | None, stride: int | None
    ) -> tuple[FloatArray, bool]:
        """Return the outputs for `texts`, and whether they were a batch."""
        preprocessor = self.require_preprocessor(method)
        columns, batched = preprocessor.columns(texts)
        if len(columns) > 1:
            msg = (
                "A document is one text, and these are pairs. Pass a list of texts, or "
                "pairs to the methods that truncate them."
            )
            raise ValueError(msg)
        windows = TextWindows(
            preprocessor.tokenizer.tokenize_rows(columns[0], checked=True),
            preprocessor.special_ids,
            preprocessor.max_length,
            stride,
        )
        outputs = self.predict(windows, batch_size, verbose=0)
        return self.merge_windows(windows, outputs), batched

    def merge_windows(self, windows: TextWindows, outputs: FloatArray) -> FloatArray:
        """Return the outputs for documents.

        Args:
            windows: `TextWindows`.
            outputs: float32 array `(windows, width)`.

        Returns:
            float32 array `(texts, width)`.
        """
        return windows.mean(outputs)
