"""Batches of passages that are drawn from texts."""

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.preprocessors import AlbertTextEmbedderPreprocessor
from keras_albert.text.masking import MaskedRows, MaskingRates, WholeWordMasking

# The lengths of rows in tokens. Each batch has one of them, so that few shapes are
# compiled, and short texts are as frequent as long ones.
_LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)

# A passage fills this part of its row, or less if the text is short.
_FILLED = (0.7, 1.05)

# A text that is long enough has so many passages in a batch: their cosines are high.
_FROM_A_TEXT = 4

_SENTENCE_END = re.compile(r"[.!?]['\")\]]*\s+|[\u3002\uff01\uff1f]")

# The most texts that are held out.
_HELD_OUT = 500

# How many texts are tokenized to learn how many characters a token has.
_SAMPLE = 256

# Masks that students with a masked LM head learn from.
_MASKED_ROWS = 0.5
_RATES = MaskingRates(mask_token_rate=0.9, random_token_rate=0.0, max_ngram=1)


@dataclass(frozen=True)
class TextSpans:
    """Batches of passages, each drawn by its number alone."""

    # A passage is one or more sentences of a text, or a part of a long one. All rows of
    # a batch have the same length.

    texts: Sequence[str]
    tokenizers: Sequence[Any]
    # The rows of `max_length` in a batch; shorter ones are more.
    batch_size: int
    max_length: int
    is_masked: bool
    seed: int
    chars_per_token: float = 0.0

    def measured(self) -> "TextSpans":
        """Return the same batches with the characters of a token."""
        generator = np.random.default_rng([self.seed, 0])
        drawn = [self._text(generator) for _ in range(min(_SAMPLE, len(self.texts)))]
        tokens = int(self.tokenizers[0].tokenize_rows(drawn).lengths.sum())
        return replace(self, chars_per_token=sum(map(len, drawn)) / max(1, tokens))

    @cached_property
    def masking(self) -> WholeWordMasking:
        """The masking of words."""
        return WholeWordMasking(self.tokenizers[0].vocabulary, _RATES)

    @property
    def lengths(self) -> list[int]:
        """The lengths of rows."""
        shorter = [length for length in _LENGTHS if length < self.max_length]
        return [*shorter, self.max_length]

    def read(self, number: int) -> "Spans":
        """Return a batch."""
        generator = np.random.default_rng([self.seed, 1, number])
        length = int(generator.choice(self.lengths))
        rows = self.batch_size * self.max_length // length
        return self._draw(generator, rows, length)

    def held_out(self, rows: int, length: int) -> "Spans":
        """Return the rows of a validation set."""
        generator = np.random.default_rng([self.seed, 2])
        return self._draw(generator, rows, min(length, self.max_length))

    def _draw(self, generator: np.random.Generator, rows: int, length: int) -> "Spans":
        spans: list[str] = []
        longest = length * self.chars_per_token
        while len(spans) < rows:
            text = self._text(generator)
            count = min(max(1, int(len(text) / longest)), _FROM_A_TEXT)
            filled = generator.uniform(*_FILLED, min(count, rows - len(spans)))
            spans += (span(text, round(longest * each), generator) for each in filled)
        inputs = [
            dict(AlbertTextEmbedderPreprocessor(tokenizer, length, length)(spans))
            for tokenizer in self.tokenizers
        ]
        masked: MaskedRows | None = None
        if self.is_masked:
            ids = inputs[0]["token_ids"]
            masked = self.masking(ids, generator)
            is_kept = generator.random(len(ids))[:, None] < _MASKED_ROWS
            masked = masked._replace(
                token_ids=np.where(is_kept, masked.token_ids, ids),
                weights=masked.weights * is_kept,
            )
            inputs[0] = inputs[0] | {"token_ids": masked.token_ids}
        return Spans(spans, inputs, masked)

    def _text(self, generator: np.random.Generator) -> str:
        # One in a hundred is enough of a corpus with empty lines.
        for _ in range(100 * len(self.texts)):
            text = str(self.texts[int(generator.integers(len(self.texts)))]).strip()
            if text:
                return text
        raise ValueError("All texts are empty. Pass at least one with words.")


@dataclass(frozen=True)
class Spans:
    """A batch of passages."""

    texts: list[str]
    inputs: list[dict[str, Any]]
    masked: MaskedRows | None


class SpanWorkers:
    """Draws batches in other processes, some ahead."""

    def __init__(self, spans: TextSpans, workers: int) -> None:
        # Not a fork: the backend has threads, and possibly a GPU.
        self._pool = ProcessPoolExecutor(
            workers,
            multiprocessing.get_context("spawn"),
            initializer=_begin_worker,
            initargs=(spans,),
        )
        self._ahead = 2 * workers
        self._pending: dict[int, Future[Spans]] = {}

    def read(self, number: int) -> Spans:
        """Return a batch; the next ones are usually those after it."""
        numbers = range(number, number + self._ahead)
        self._pending = {
            each: self._pending.get(each) or self._pool.submit(_read_in_worker, each)
            for each in numbers
        }
        return self._pending[number].result()

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


def _begin_worker(spans: TextSpans) -> None:
    # The main process stops between two steps, and ends this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    global _of_worker  # noqa: PLW0603  (a process has one)
    _of_worker = spans

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _read_in_worker(number: int) -> Spans:
    return _of_worker.read(number)


_of_worker: TextSpans


def span(text: str, length: int, generator: np.random.Generator) -> str:
    """Return about `length` characters of a text: sentences, or a part of one."""
    if len(text) <= length:
        return text
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
    if len(starts) > 1:
        # Not the last sentence, if there is room for more.
        late = max(1, sum(start <= len(text) - length // 2 for start in starts))
        start = starts[int(generator.integers(late))]
    else:
        start = int(generator.integers(len(text) - length + 1))
        # The next word, unless it is far away, as in Chinese.
        space = text.find(" ", max(0, start - 1), start + length // 2)
        start = space + 1 if start and space >= 0 else start
    end = start + length
    if end < len(text):
        ends = [each for each in starts if start < each <= end + 1]
        space = text.rfind(" ", start, end + 1)
        end = ends[-1] if ends else space if space > start else end
    return text[start:end].strip()


def split_texts(texts: Sequence[str], seed: int) -> tuple[Sequence[str], Sequence[str]]:
    """Hold some texts out: one in ten, or the most that are needed."""
    order = np.random.default_rng([seed, 3]).permutation(len(texts))
    count = min(_HELD_OUT, max(1, len(texts) // 10))
    return Chosen(texts, np.sort(order[count:])), Chosen(texts, np.sort(order[:count]))


class Chosen(Sequence[str]):
    """Some texts of a sequence, which is not copied."""

    def __init__(self, texts: Sequence[str], places: npt.NDArray[Any]) -> None:
        self._texts = texts
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: Any) -> Any:
        return self._texts[int(self._places[index])]

    def __iter__(self) -> Iterator[str]:
        return (self._texts[int(place)] for place in self._places)
