"""Preprocessor of the multiple-choice model."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text.choices import (
    ChoiceRows,
    check_answers,
    choice_columns,
    encode_answers,
    fill_in,
)
from keras_albert.text.packing import LabelledTexts, distinct
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
        {shared}
        max_qa_length: int. The maximum number of tokens of question and choice
            together. Defaults to `128`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length is out of range.

    Example:
        >>> from keras_albert import AlbertMultipleChoicePreprocessor
        >>> preprocessor = AlbertMultipleChoicePreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=32)
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
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        check_positive(max_qa_length=max_qa_length)
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.max_qa_length = max_qa_length

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize questions; targets are numbers or letters of the right choices."""
        columns, batched = self.columns(x)
        *contexts, questions, choices = columns
        texts = contexts[0] if contexts else questions
        tails = [
            fill_in(question, choice) if contexts else choice
            for question, row in zip(questions, choices, strict=True)
            for choice in row
        ]
        # Several questions often share a text, which is tokenized once.
        unique, numbers = distinct(texts)
        text_rows, choice_rows = self.tokenize_columns([unique, tails])
        rows = ChoiceRows(
            text_rows,
            numbers,
            choice_rows,
            np.array([len(row) for row in choices], np.int64),
            self.special_ids,
            self.max_length,
            self.max_qa_length,
        )
        if y is None:
            return LabelledTexts(rows, y, sample_weight), batched
        y = encode_answers(y if batched else np.reshape(y, (1,)))
        examples = LabelledTexts(rows, y, sample_weight)
        check_answers(y, rows.counts)
        return examples, batched
