"""Choosing the right one of several answers."""

from typing import Any

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.choices import MISSING_CHOICE, ChoiceScores, ChoicesToRows
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.preprocessor_check import check_preprocessor
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.inputs.preprocessed_inputs import read_ids
from keras_albert.text.multiple_choice.preprocessor import (
    AlbertMultipleChoicePreprocessor,
)
from keras_albert.text.multiple_choice.read_targets import check_answers, encode_answers
from keras_albert.types import FloatArray, IntArray


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMultipleChoice(AlbertTask, keras_hub.models.Task):
    """Choose the right one of a question's choices, as many as it has.

    Each choice is read with its question and context and given a score; the softmax
    over a question's scores is the probability of each.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), appendix A.3.

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: An `AlbertMultipleChoicePreprocessor`, or `None` if inputs are
            preprocessed already. Defaults to `None`.
        dropout: float. Rate before the last layer. Defaults to `0.1`.
        **kwargs: `name`, as on any Keras model.

    Raises:
        ValueError: If the preprocessor makes inputs that the backbone cannot read.

    Example:
        >>> from keras_albert import (
        ...     AlbertBackbone, AlbertMultipleChoice, AlbertMultipleChoicePreprocessor,
        ...     AlbertTokenizer)
        >>> from keras_albert.text import train_vocabulary
        >>> contexts = ["the fox jumped", "the dog slept"] * 4
        >>> questions = ["who jumped?", "the _ slept"] * 4
        >>> choices = [["the fox", "the dog"], ["fox", "dog", "cat"]] * 4
        >>> vocabulary = train_vocabulary(contexts + questions, vocabulary_size=33)
        >>> chooser = AlbertMultipleChoice(
        ...     AlbertBackbone(
        ...         vocabulary_size=33, num_layers=2, num_heads=2, embedding_dim=8,
        ...         hidden_dim=16, intermediate_dim=32),
        ...     AlbertMultipleChoicePreprocessor(AlbertTokenizer(vocabulary)))
        >>> history = chooser.fit(
        ...     (contexts, questions, choices), ["A", "B"] * 4, verbose=0)
        >>> answer = chooser.choose("the cat ran", "who ran?", ["the cat", "a dog"])
        >>> answer["choice"] in ("the cat", "a dog"), len(answer["scores"])
        (True, 2)
    """

    preprocessor_cls = AlbertMultipleChoicePreprocessor

    output_padding = MISSING_CHOICE

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertMultipleChoicePreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        check_preprocessor(backbone, preprocessor)
        # === Layers ===
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.choices_to_rows = ChoicesToRows(name="choices_to_rows")
        self.output_dropout = keras.layers.Dropout(
            dropout, dtype=backbone.dtype_policy, name="output_dropout"
        )
        self.output_dense = keras.layers.Dense(
            1, kernel_initializer=albert_initializer(), dtype="float32", name="score"
        )
        self.choice_scores = ChoiceScores(dtype="float32", name="choice_scores")

        # === Functional model ===
        inputs = {
            name: keras.Input(shape=(None, None), dtype="int32", name=name)
            for name in backbone.input
        }
        x = backbone(self.choices_to_rows(inputs))["pooled_output"]
        x = self.output_dense(self.output_dropout(x))
        outputs = self.choice_scores(x, inputs["padding_mask"])
        super().__init__(inputs=inputs, outputs=outputs, **kwargs)

        # === Config ===
        self.dropout = dropout

    def default_loss(self) -> keras.losses.Loss:
        """Give cross-entropy over a question's choices."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Give accuracy."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    @property
    def target_dtype(self) -> str:
        """The dtype of the numbers of choices."""
        return "int32"

    def encode_targets(self, y: Any) -> IntArray:
        """Turn numbers or letters of right choices into numbers.

        Args:
            y: One answer a question.

        Returns:
            int32 array `(questions,)`.

        Raises:
            ValueError: If an answer is neither; the message names its row.
        """
        return encode_answers(y)

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read input that is preprocessed already, and check it."""
        return read_ids(self.backbone, inputs, ("examples", "choices", "tokens"))

    def check_id_targets(self, ids: dict[str, npt.NDArray[Any]], y: Any) -> None:
        """Find a question without choices, or an answer that is none of them."""
        counts = ids["padding_mask"].any(axis=-1).sum(axis=-1)
        if not counts.all():
            msg = (
                f"Row {int(counts.argmin())} of `padding_mask` is all zero, so that "
                "its question has no choices. Drop the row."
            )
            raise ValueError(msg)
        if y is not None:
            check_answers(y, counts)

    def choose(
        self, context: Any, question: Any, choices: Any, batch_size: int | None = None
    ) -> Any:
        """Choose, for a person to read.

        Args:
            context: string, or a list. What to read first; `None` if there is nothing.
            question: string, or a list of them.
            choices: A list of strings, or for many questions a list of lists.
            batch_size: int. Defaults to `None`, 32.

        Returns:
            For one question a dict: `index` and `choice`, the likeliest, and
            `scores`, the probability of each. For many a list of them.

        Raises:
            ValueError: If the model has no preprocessor, or a row is wrong.
        """
        if self.preprocessor is None:
            msg = (
                "`choose` reads texts, and this model has no preprocessor. Build it "
                "with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        texts = (question,) if context is None else (context, question)
        columns, batched = self.preprocessor.columns((*texts, choices))
        outputs = self.predict(columns, batch_size, verbose=0)
        answers = [
            _answer(row[: len(texts)], texts)
            for row, texts in zip(outputs, columns[-1], strict=True)
        ]
        return answers if batched else answers[0]

    def get_config(self) -> dict[str, Any]:
        """Give the constructor's arguments."""
        return {**super().get_config(), "dropout": self.dropout}


def _answer(scores: FloatArray, choices: list[str]) -> dict[str, Any]:
    raised = np.exp(scores - scores.max())
    probabilities = (raised / raised.sum()).tolist()
    best = int(scores.argmax())
    return {"index": best, "choice": choices[best], "scores": probabilities}
