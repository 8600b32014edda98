"""How a classifier answers: the part behind the model's outputs."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.base.predict_documents import DocumentOutputs
from keras_albert.text.inputs.read_text_columns import text_columns
from keras_albert.types import Texts
from keras_albert.utils.arguments import check_positive


class ClassAnswers(DocumentOutputs):
    """Answers from outputs, as a mixin that stands before `AlbertTask`."""

    num_classes: int
    class_names: Any
    is_regression: Any
    is_multi_label: Any
    gives_logits: Any

    def classify(
        self, texts: Texts, top_k: int | None = None, batch_size: int | None = None
    ) -> Any:
        """Classify texts for a person to read.

        Args:
            texts: A text or a pair, or many. What is too long for a row is cut; see
                `classify_documents`.
            top_k: int. How many classes to name for each. Defaults to `None`: one, or
                all where a text may have several.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            For one text a dict of `label` and `score`, a probability (of a regression
            `score` alone); for many a list of them; with `top_k` above 1 a list of
            dicts, the likeliest first, in place of each.

        Raises:
            ValueError: If the model has no preprocessor, or `top_k` is below 1.
        """
        if self.preprocessor is None:
            msg = (
                "`classify` reads texts, and this model has no preprocessor. Build it "
                "with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        top_k = self._count_named(top_k)
        columns, batched = text_columns(texts)
        rows = columns if len(columns) > 1 else columns[0]
        answers = self._describe(self.predict(rows, batch_size, verbose=0), top_k)
        return answers if batched else answers[0]

    def classify_documents(
        self,
        texts: Texts,
        top_k: int | None = None,
        batch_size: int | None = None,
        stride: int | None = None,
    ) -> Any:
        """Classify texts of any length; see `predict_documents`.

        Args:
            texts: A text, or many.
            top_k: int. As in `classify`. Defaults to `None`.
            batch_size: int. Windows in a batch. Defaults to `None`, 32.
            stride: int or `None`. How many tokens a window begins behind the one
                before. Defaults to `None`, half a window.

        Returns:
            What `classify` gives, from all of each text.

        Raises:
            ValueError: If the model has no preprocessor, a row is no text, or a number
                is below 1 or too large.
        """
        top_k = self._count_named(top_k)
        outputs = self.predict_documents(texts, batch_size, stride)
        answers = self._describe(outputs, top_k)
        return answers if text_columns(texts)[1] else answers[0]

    def probabilities(self, outputs: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """Turn what `predict` gave into probabilities.

        Args:
            outputs: float32 array `(examples, num_classes)`.

        Returns:
            An array of that shape, whose rows sum to 1 unless a text may have several
            classes.
        """
        if not self.gives_logits:
            return outputs
        raised = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=-1, keepdims=True))

    def _count_named(self, top_k: int | None) -> int:
        if top_k is None:
            return self.num_classes if self.is_multi_label else 1
        check_positive(top_k=top_k)
        return top_k

    def _describe(self, outputs: npt.NDArray[np.float32], top_k: int) -> list[Any]:
        if self.is_regression:
            return [{"score": float(score)} for score in outputs[:, 0]]
        scores = self.probabilities(outputs)
        best = np.argsort(-scores, axis=-1, kind="stable")[:, :top_k]
        names = self.class_names
        ranked = [
            [{"label": names[i], "score": float(row[i])} for i in order]
            for row, order in zip(scores, best, strict=True)
        ]
        return ranked if top_k > 1 else [answers[0] for answers in ranked]
