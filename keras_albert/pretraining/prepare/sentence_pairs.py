"""Makes pairs of consecutive segments from the sentences of documents."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from keras_albert.pretraining.prepare.documents import Section
from keras_albert.pretraining.prepared_files import Example
from keras_albert.text.packing import TokenRows, truncated_lengths
from keras_albert.text.tokenizer.vocabularies import Vocabulary
from keras_albert.types import Int64Array
from keras_albert.utils.environment import import_package

# `[CLS] A [SEP] B [SEP]`.
_NUM_SPECIALS = 3


@dataclass(frozen=True)
class PairSettings:
    """The settings that determine the pairs of a document, besides its text."""

    sequence_length: int
    short_seq_prob: float
    seed: int
    language: str


class SentencePairs:
    """Makes pairs as ALBERT's reference does, without cues that reveal the order."""

    # Sentences are taken until they fill a row; a random number of them are the first
    # segment, the others the second, and the longer one is cut, at both ends, until
    # both fit. Unlike the reference (`create_pretraining_data.py`):
    # - A row has at least two sentences, of the same document, even if one would fill
    #   it. One that is left alone at an end of the document is dropped and counted:
    #   the place of the full stop would reveal the order of two halves of a sentence.
    # - Half of the documents are processed from end to start. The sentence that
    #   fills a row up is longer than others; if it were always in the second segment,
    #   the lengths would reveal the order.
    # - If an odd number of tokens fits, the segment with one more is chosen at random.

    def __init__(self, vocabulary: Vocabulary, settings: PairSettings) -> None:
        self.vocabulary = vocabulary
        self.settings = settings
        self._split = sentence_splitter(settings.language)

    def __call__(self, section: Section, counters: Counter[str]) -> Iterator[Example]:
        """Make the pairs of a document, or of a section of it."""
        seed = [self.settings.seed, *np.frombuffer(section.key, np.uint32).tolist()]
        generator = np.random.default_rng([*seed, section.number])
        document = int.from_bytes(section.key[:8], "little")
        sentences = [s for line in section.lines for s in self._split(line)]
        rows = TokenRows.from_arrays(self.vocabulary.encode(sentences, num_threads=1))
        lengths = rows.lengths[rows.lengths > 0]
        counters["sentences"] += len(lengths)
        counters["tokens"] += len(rows.values)
        if not len(lengths):
            return
        ends = np.cumsum(lengths)
        for first, middle, last in self._chunks(lengths, generator, counters):
            start = int(ends[first] - lengths[first])
            boundary, end = int(ends[middle - 1]), int(ends[last - 1])
            a, b = self._cut(boundary - start, end - boundary, generator)
            counters["tokens dropped: beyond a row"] += end - start - a[1] - b[1]
            one, two = start + a[0], boundary + b[0]
            places = np.r_[one : one + a[1], two : two + b[1]]
            yield Example(rows.values[places], a[1], document)

    def _chunks(
        self,
        lengths: Int64Array,
        generator: np.random.Generator,
        counters: Counter[str],
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the bounds of each row: its first, its second segment's, its end."""
        count = len(lengths)
        is_backward = generator.random() < 0.5
        sizes = (lengths[::-1] if is_backward else lengths).tolist()
        start = total = 0
        target = self._target(generator)
        for index, size in enumerate(sizes):
            total += size
            taken = index + 1 - start
            if taken < 2 or (total < target and index + 1 < count):
                continue
            middle, end = start + int(generator.integers(1, taken)), index + 1
            if is_backward:
                yield count - end, count - middle, count - start
            else:
                yield start, middle, end
            start, total = end, 0
            target = self._target(generator)
        if total:
            counters["sentences dropped: alone in a row"] += 1
            counters["tokens dropped: alone in a row"] += total

    def _target(self, generator: np.random.Generator) -> int:
        room = self.settings.sequence_length - _NUM_SPECIALS
        if generator.random() >= self.settings.short_seq_prob:
            return room
        return int(generator.integers(2, room + 1))

    def _cut(
        self, first: int, second: int, generator: np.random.Generator
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Cut the longer segment; return the offset and the length of each."""
        room = self.settings.sequence_length - _NUM_SPECIALS
        lengths = np.array([first, second])
        if lengths.sum() <= room:
            return (0, first), (0, second)
        order = [0, 1] if generator.random() < 0.5 else [1, 0]
        one, other = (lengths[[i]] for i in order)
        kept = np.empty(2, np.int64)
        kept[order] = np.concatenate(
            truncated_lengths((one, other), room, "round_robin")
        )
        before = generator.binomial(lengths - kept, 0.5)
        return (int(before[0]), int(kept[0])), (int(before[1]), int(kept[1]))


def sentence_splitter(language: str) -> Callable[[str], list[str]]:
    """Return a function that splits paragraphs into sentences, by `sentencex`."""
    # The fastest of five libraries by far; see `benchmarks/sentence_splitters.py`.
    extra = "keras-albert[pretraining]"
    sentencex = import_package("Preparing texts", extra, "sentencex")

    def split(paragraph: str) -> list[str]:
        sentences = (str(s).strip() for s in sentencex.segment(language, paragraph))
        return [sentence for sentence in sentences if sentence]

    return split
