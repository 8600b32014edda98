"""What a model that reads texts row by row says of texts of any length."""

from typing import Any

from keras_albert.text.inputs.read_text_columns import text_columns
from keras_albert.text.packing.document_windows import TextWindows
from keras_albert.types import FloatArray, Texts


class DocumentOutputs:
    """One output for each document, as a mixin that stands before `AlbertTask`."""

    preprocessor: Any
    predict: Any

    def predict_documents(
        self, texts: Texts, batch_size: int | None = None, stride: int | None = None
    ) -> FloatArray:
        """Compute the model's outputs for texts of any length, in their order.

        A text that is too long for a row, which `predict` cuts, is read in overlapping
        windows. Its outputs are the means of theirs, each window counted by the
        tokens for which it has most context; so each token counts once. What fits in
        a row has the outputs that `predict` gives.

        Args:
            texts: A text, or many.
            batch_size: int. Windows in a batch. Defaults to `None`, 32.
            stride: int or `None`. How many tokens a window begins behind the one
                before. Defaults to `None`, half a window.

        Returns:
            float32 array `(texts, width)`, of one text `(1, width)`.

        Raises:
            ValueError: If the model has no preprocessor, a row is no text, or `stride`
                is below 1 or above a window's length.
        """
        if self.preprocessor is None:
            msg = (
                "Documents are read by a preprocessor, and this model has none. Build "
                "it with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        columns, _ = text_columns(texts)
        if len(columns) > 1:
            msg = (
                "A document is one text, and these are pairs. Pass a list of texts, or "
                "pairs to the methods that cut them to a row."
            )
            raise ValueError(msg)
        windows = TextWindows(
            self.preprocessor.tokenizer.tokenize_rows(columns[0]),
            self.preprocessor.special_ids,
            self.preprocessor.max_length,
            stride,
        )
        outputs = self.predict(windows, batch_size, verbose=0)
        return self.merge_windows(windows, outputs)

    def merge_windows(self, windows: TextWindows, outputs: FloatArray) -> FloatArray:
        """Turn the outputs for windows into those for documents.

        Args:
            windows: `TextWindows`.
            outputs: float32 array `(windows, width)`.

        Returns:
            float32 array `(texts, width)`.
        """
        return windows.mean(outputs)
