"""Multiple choice."""

from typing import Any

import keras
import keras_hub
import numpy.typing as npt

from keras_albert.backbone import AlbertBackbone, select_inputs
from keras_albert.data.tables import Columns, read_ids
from keras_albert.layers.base_layer import packing_inputs
from keras_albert.layers.heads import MISSING_CHOICE, ChoiceScores, ChoicesToRows
from keras_albert.layers.torch_inference import fast_call
from keras_albert.preprocessors.multiple_choice import AlbertMultipleChoicePreprocessor
from keras_albert.tasks.heads import output_dense, output_dropout
from keras_albert.tasks.predict import softmax
from keras_albert.tasks.task import AlbertTask, TaskTraits
from keras_albert.text.choices import check_answers, encode_answers
from keras_albert.text.reading import TextBatch
from keras_albert.types import FloatArray, IntArray, Mode


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMultipleChoice(AlbertTask, keras_hub.models.Task):
    """Choose the answer to a question among its choices.

    Questions may have different numbers of choices. Each choice is read with its
    question and context and has a score; the probabilities are the softmax over the
    scores of a question.

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
        >>> from keras_albert import AlbertMultipleChoice
        >>> chooser = AlbertMultipleChoice.from_preset("albert_tiny_en_uncased")
        >>> contexts = ["the fox jumped", "the dog slept"]
        >>> questions = ["who jumped?", "the _ slept"]
        >>> choices = [["the fox", "the dog"], ["fox", "dog", "cat"]]
        >>> history = chooser.fit((contexts, questions, choices), ["A", "B"], verbose=0)
        >>> answer = chooser.choose("the cat ran", "who ran?", ["the cat", "a dog"])
        >>> answer["choice"] in ("the cat", "a dog"), len(answer["scores"])
        (True, 2)
    """

    preprocessor_cls = AlbertMultipleChoicePreprocessor
    traits = TaskTraits(
        columns=Columns(
            ("context", "question", "choices"), "answer", optional=("context",)
        ),
        output_padding=MISSING_CHOICE,
    )

    def __init__(
        self,
        backbone: AlbertBackbone,
        preprocessor: AlbertMultipleChoicePreprocessor | None = None,
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        self.backbone = backbone
        self.preprocessor = preprocessor
        self.choices_to_rows = ChoicesToRows(name="choices_to_rows")
        self.output_dropout = output_dropout(backbone, dropout)
        self.output_dense = output_dense(1, "score")
        self.choice_scores = ChoiceScores(dtype="float32", name="choice_scores")

        inputs = {
            name: keras.Input(shape=(None, None), dtype="int32", name=name)
            for name in backbone.input
        }
        super().__init__(inputs=inputs, outputs=self._run_layers(inputs), **kwargs)

        self.dropout = dropout

    def _run_layers(
        self, inputs: Any, training: bool | None = None, num_layers: int | None = None
    ) -> Any:
        ids = select_inputs(self.backbone, inputs)
        rows = fast_call(self.choices_to_rows, ids) | packing_inputs(inputs)
        outputs = fast_call(
            self.backbone, rows, training=training, num_layers=num_layers
        )
        x = fast_call(self.output_dropout, outputs["pooled_output"], training=training)
        x = fast_call(self.output_dense, x)
        return fast_call(self.choice_scores, x, ids["padding_mask"])

    def default_loss(self) -> keras.losses.Loss:
        """Return cross-entropy over the choices of a question."""
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def default_metrics(self) -> list[keras.metrics.Metric]:
        """Return accuracy."""
        return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]

    @property
    def target_dtype(self) -> str:
        """The dtype of the numbers of choices."""
        return "int32"

    def encode_targets(self, y: Any) -> IntArray:
        """Return right choices, numbers or letters, as int32; see `encode_answers`."""
        return encode_answers(y)

    def read_ids(self, inputs: Any) -> dict[str, npt.NDArray[Any]]:
        """Read and check input that is preprocessed already."""
        return read_ids(self.backbone, inputs, "examples, choices, tokens")

    def check_id_targets(self, ids: dict[str, Any], y: Any, mode: Mode) -> None:
        """Check that each question has choices, and the right one is among them."""
        counts = ids["padding_mask"].any(axis=-1).sum(axis=-1)
        if not counts.all():
            raise ValueError(
                f"Row {int(counts.argmin())} of `padding_mask` is all zero, so that "
                "its question has no choices. Drop the row."
            )
        if y is not None:
            check_answers(y, counts)

    def choose(
        self, context: Any, question: Any, choices: Any, batch_size: int | None = None
    ) -> Any:
        """Choose the answer to each question.

        Args:
            context: string, or a list of strings. The text before the question, or
                `None`.
            question: string, or a list of strings.
            choices: A list of strings, or for many questions a list of lists.
            batch_size: int. Defaults to `None`, which means 32.

        Returns:
            For one question a dict: `index` and `choice`, the most likely one, and
            `scores`, the probability of each. For many questions a list of dicts.

        Raises:
            ValueError: If the model has no preprocessor, or a row is invalid.

        Example:
            >>> from keras_albert import AlbertMultipleChoice
            >>> chooser = AlbertMultipleChoice.from_preset("albert_tiny_en_uncased")
            >>> history = chooser.fit(
            ...     (["who jumped?"] * 4, [["the fox", "the dog"]] * 4), ["A"] * 4,
            ...     verbose=0)
            >>> sorted(chooser.choose(None, "who jumped?", ["the fox", "the dog"]))
            ['choice', 'index', 'scores']
        """
        preprocessor = self.require_preprocessor("choose")
        texts = (question,) if context is None else (context, question)
        columns, batched = preprocessor.columns((*texts, choices))
        rows = TextBatch(columns, True)
        outputs = self.predict(rows, batch_size, verbose=0)
        self.untrained_head_warning.warn(self, "choose")
        answers = [
            _answer(scores[: len(texts)], texts)
            for scores, texts in zip(outputs, columns[-1], strict=True)
        ]
        return answers if batched else answers[0]


def _answer(scores: FloatArray, choices: list[str]) -> dict[str, Any]:
    best = int(scores.argmax())
    return {"index": best, "choice": choices[best], "scores": softmax(scores).tolist()}
