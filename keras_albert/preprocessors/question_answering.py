"""Preprocessor of the question answerer."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text.packing import check_counts, pack_all, read_weights
from keras_albert.text.spans import (
    ContextTokens,
    SpanWindows,
    answer_spans,
    question_contexts,
    read_answers,
    refuse_blank,
    token_spans,
)
from keras_albert.types import Lengths
from keras_albert.utils.arguments import check_at_most, check_choice, check_positive

# Each start of the conditional head takes the memory of a hidden state.
MAX_STARTS = 100


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertQuestionAnswererPreprocessor(
    AlbertPreprocessor, keras_hub.models.Preprocessor
):
    """Tokenize questions and contexts, and find the answers' tokens.

    A row is `[CLS] question [SEP] window [SEP]`. A context that does not fit into one
    row is split into several windows, which together contain all its tokens; the last
    window ends with the context. The targets of a window that does not contain the
    whole answer point to `[CLS]`.

    Args:
        {shared}
        doc_stride: int. Distance in tokens between the starts of consecutive windows,
            at most a window's length. Defaults to `128`.
        max_query_length: int. The length that questions are truncated to; a question
            takes at most half of a row. Defaults to `64`.
        misaligned: string. How an answer is treated that is not found at
            `answer_start` of its context: `"error"` raises, `"repair"` uses the
            nearest place where it is found, `"drop"` drops the question. Defaults to
            `"error"`.
        num_starts: int or `None`. The number of starts that the conditional head
            considers in prediction, 100 at most. It adds the input `start_positions`
            and the target `answerability`; an `AlbertQuestionAnswerer` sets it.
            Defaults to `None`, the independent head.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a number is out of range, or `misaligned` is unknown.

    Example:
        >>> from keras_albert import AlbertQuestionAnswererPreprocessor
        >>> preprocessor = AlbertQuestionAnswererPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased")
        >>> context = "It was found in Rome, in 1848."
        >>> x, y = preprocessor(("found in?", context), (16, "Rome"))
        >>> start, end = int(y["start_logits"][0]), int(y["end_logits"][0])
        >>> preprocessor.tokenizer.detokenize(x["token_ids"][0, start : end + 1])
        'rome'
    """

    read_input = staticmethod(question_contexts)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        doc_stride: int = 128,
        max_query_length: int = 64,
        misaligned: str = "error",
        pack_sequences: bool = False,
        num_starts: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_positive(
            doc_stride=doc_stride,
            max_query_length=max_query_length,
            num_starts=1 if num_starts is None else num_starts,
        )
        check_at_most(MAX_STARTS, num_starts=num_starts or 1)
        check_choice(("error", "repair", "drop"), misaligned=misaligned)
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.doc_stride = doc_stride
        self.max_query_length = max_query_length
        self.misaligned = misaligned
        self.num_starts = num_starts

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[SpanWindows, bool]:
        """Tokenize questions and contexts; `read_answers` reads the targets."""
        (questions, contexts), batched = self.columns(x)
        weights = None if sample_weight is None else read_weights(sample_weight)
        spans, rows = None, np.arange(len(questions))
        if y is not None:
            answers = read_answers(y if batched else [y])
            check_counts(len(questions), answers, weights)
            spans, dropped = answer_spans(answers, contexts, self.misaligned)
            if dropped:
                rows = np.setdiff1d(rows, dropped)
                questions = [questions[row] for row in rows]
                contexts = [contexts[row] for row in rows]
                spans = spans[rows]
                weights = None if weights is None else weights[rows]
        (question_rows,) = self.tokenize_columns([questions])
        context_tokens = ContextTokens(self.tokenizer.vocabulary, contexts)
        refuse_blank(question_rows.lengths, "question", rows)
        refuse_blank(context_tokens.lengths, "context", rows)
        if spans is not None:
            spans = token_spans(spans, context_tokens, rows)
        windows = SpanWindows(
            question_rows,
            context_tokens,
            self.special_ids,
            self.max_length,
            self.doc_stride,
            self.max_query_length,
            self.num_starts,
            spans,
            weights,
        )
        return windows, batched

    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocess questions and contexts, with answers as targets.

        The result is always a batch, since a question may have several rows; see
        `SpanWindows.pack`.
        """
        windows, _ = self.encode(x, y, sample_weight)
        return keras.utils.pack_x_y_sample_weight(
            *pack_all(windows, self.padded_length, True)
        )
