"""Preprocessor of the multiple-choice model."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.text.multiple_choice.examples import ChoiceRows
from keras_albert.text.multiple_choice.read_input import choice_columns
from keras_albert.text.multiple_choice.read_targets import check_answers, encode_answers
from keras_albert.text.packing.examples import LabelledTexts
from keras_albert.text.preprocessor import AlbertPreprocessor
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.types import Lengths
from keras_albert.utils.arguments import check_positive


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMultipleChoicePreprocessor(
    AlbertPreprocessor, keras_hub.models.Preprocessor
):
    """Tokenize questions and pack a row for each choice.

    A row is `[CLS] context [SEP] question and choice [SEP]`. As in RACE, the choice
    replaces `_` in the question, or is appended to a question without `_`. Without a
    context, a row is `[CLS] question [SEP] choice [SEP]`.

    The last `max_qa_length` tokens of the text between the two `[SEP]` are kept; the
    first text is truncated to the rest of the row.

    Source: [google-research/albert](https://github.com/google-research/albert),
    `race_utils.py`.

    Args:
        tokenizer: An `AlbertTokenizer`.
        sequence_length: int or `None`. A fixed length that all batches are padded
            to, as TPUs require. Defaults to `None`, which pads to the smallest of
            `length_buckets` that fits the batch's longest row.
        max_sequence_length: int. The length that rows are truncated to if
            `sequence_length` is `None`. Defaults to `512`.
        length_buckets: Sequence of int or `None`. The lengths that batches are
            padded to. Defaults to `None`, see `default_length_buckets`.
        max_qa_length: int. The maximum number of tokens of question and choice
            together. Defaults to `128`.
        share_rows: bool. See `AlbertClassifierPreprocessor`. Defaults to `False`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length is out of range.

    Example:
        >>> from keras_albert import AlbertMultipleChoicePreprocessor, AlbertTokenizer
        >>> from keras_albert.text import train_vocabulary
        >>> words = ["the quick brown fox", "jumped over the lazy dog"] * 20
        >>> tokenizer = AlbertTokenizer(train_vocabulary(words, vocabulary_size=40))
        >>> preprocessor = AlbertMultipleChoicePreprocessor(
        ...     tokenizer, sequence_length=32)
        >>> packed, answers = preprocessor(
        ...     (["the dog", "the fox"],
        ...      ["the dog is _", "who jumped?"],
        ...      [["lazy", "quick", "brown"], ["fox", "dog"]]),
        ...     ["A", "A"])
        >>> packed["token_ids"].shape  # questions, choices, tokens
        (2, 3, 32)
        >>> packed["padding_mask"].any(axis=-1).sum(axis=-1)
        array([3, 2])
    """

    read_input = staticmethod(choice_columns)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        max_qa_length: int = 128,
        share_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        check_positive(max_qa_length=max_qa_length)
        super().__init__(
            *(tokenizer, sequence_length, max_sequence_length, length_buckets),
            share_rows=share_rows,
            **kwargs,
        )
        self.max_qa_length = max_qa_length

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize questions; see `AlbertPreprocessor.encode`.

        The targets are the numbers or letters of the correct choices.
        """
        columns, batched = self.columns(x)
        *contexts, questions, choices = columns
        texts = contexts[0] if contexts else questions
        tails = [
            _fill_in(question, choice) if contexts else choice
            for question, row in zip(questions, choices, strict=True)
            for choice in row
        ]
        # Several questions often share a text, which is tokenized once.
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        rows = ChoiceRows(
            self.tokenizer.tokenize_rows(list(numbers), checked=True),
            np.array([numbers[text] for text in texts], np.int64),
            self.tokenizer.tokenize_rows(tails, checked=True),
            np.array([len(row) for row in choices], np.int64),
            self.special_ids,
            self.max_length,
            self.max_qa_length,
        )
        if y is not None:
            y = encode_answers(y if batched else np.reshape(y, (1,)))
        examples = LabelledTexts(rows, y, sample_weight)
        if y is not None:
            check_answers(y, rows.counts)
        return examples, batched

    def split_element(self, element: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Split one element of a data set, unless it is columns of texts."""
        first = element[0]
        rows = isinstance(first, list) and bool(first)
        if isinstance(first[0] if rows else first, tuple | Mapping):
            x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
            return x, y, sample_weight
        return element, None, None

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "max_qa_length": self.max_qa_length}


def _fill_in(question: str, choice: str) -> str:
    """Insert a choice into its question, by RACE's rule."""
    if "_" in question:
        return question.replace("_", choice)
    return f"{question} {choice}"
