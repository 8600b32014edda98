from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from keras_albert.preprocessors import AlbertTokenizer
from keras_albert.pretraining.prepare.documents import Section
from keras_albert.pretraining.prepare.sentence_pairs import (
    PairSettings,
    SentencePairs,
    sentence_splitter,
)
from tests.one_backend import on_one_backend
from tests.pretraining.texts import make_documents

pytestmark = on_one_backend

pytest.importorskip("sentencex")

SETTINGS = PairSettings(sequence_length=64, short_seq_prob=0.1, seed=0, language="en")


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


def sections(count, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    for paragraphs in make_documents(count, seed, **kwargs):
        yield Section(rng.bytes(16), 0, paragraphs)


def make(tokenizer, documents, **changes):
    pairs = SentencePairs(tokenizer.vocabulary, replace(SETTINGS, **changes))
    counters = Counter()
    return [e for section in documents for e in pairs(section, counters)], counters


def test_segments_are_consecutive_text_of_one_document(tokenizer):
    for section in sections(30):
        text = tokenizer(" ".join(section.lines)).tolist()
        found, _ = make(tokenizer, [section], sequence_length=512)
        for example in found:
            a = example.token_ids[: example.boundary].tolist()
            b = example.token_ids[example.boundary :].tolist()
            if len(a) + len(b) < 509:  # uncut: what follows A is B
                assert _holds(text, a + b)
            else:
                assert _holds(text, a)
                assert _holds(text, b)


def _holds(text, part):
    return any(
        text[i : i + len(part)] == part for i in range(len(text) - len(part) + 1)
    )


def test_rows_are_full_and_never_too_long(tokenizer):
    found, _ = make(tokenizer, sections(80))
    lengths = np.array([len(e.token_ids) for e in found])
    assert lengths.max() == 61
    assert (lengths == 61).mean() > 0.8
    assert min(e.boundary for e in found) >= 1
    assert all(e.boundary < len(e.token_ids) for e in found)
    short, _ = make(tokenizer, sections(80), short_seq_prob=0.9)
    assert (np.array([len(e.token_ids) for e in short]) < 61).mean() > 0.2


def test_one_sentence_is_no_pair(tokenizer):
    lonely = Section(b"0123456789abcdef", 0, ["Not today."])
    found, counters = make(tokenizer, [lonely])
    assert not found
    assert counters["sentences dropped: alone in a row"] == 1
    empty, _ = make(tokenizer, [Section(b"0123456789abcdef", 0, ["\u200b"])])
    assert not empty


def test_a_row_has_two_sentences_even_if_one_would_fill_it(tokenizer):
    long = " ".join(["the old school"] * 40).capitalize() + "."
    found, counters = make(tokenizer, [Section(bytes(16), 0, [long, "Not today."] * 3)])
    assert len(found) == 3
    assert "sentences dropped: alone in a row" not in counters
    for example in found:
        assert 1 <= example.boundary < len(example.token_ids) == 61


def test_the_seed_and_the_document_decide(tokenizer):
    documents = list(sections(12))
    first, _ = make(tokenizer, documents)
    again, _ = make(tokenizer, documents[::-1])
    key = lambda e: (e.document, e.token_ids.tobytes(), e.boundary)  # noqa: E731
    assert sorted(map(key, first)) == sorted(map(key, again))
    other, _ = make(tokenizer, documents, seed=1)
    assert sorted(map(key, first)) != sorted(map(key, other))


def accuracy_of_lengths(first, second):
    """The best accuracy of predicting from both lengths whether segments were swapped.

    A table of all pairs of lengths is filled from one half and tested on the other.
    """
    rng = np.random.default_rng(0)
    swapped = rng.random(len(first)) < 0.5
    a, b = np.where(swapped, second, first), np.where(swapped, first, second)
    half = len(a) // 2
    votes = np.zeros((64, 64))
    np.add.at(votes, (a[:half], b[:half]), np.where(swapped[:half], 1, -1))
    return ((votes[a[half:], b[half:]] > 0) == swapped[half:]).mean()


def reference_lengths(tokenizer, documents):
    """The lengths of segments by google-research/albert's rules."""
    rng = np.random.default_rng(0)
    room = SETTINGS.sequence_length - 3
    split = sentence_splitter("en")
    pairs = []
    for section in documents:
        sentences = [s for line in section.lines for s in split(line)]
        sizes = tokenizer.tokenize_rows(sentences, num_threads=1).lengths.tolist()
        chunk = []
        for index, size in enumerate(sizes):
            chunk.append(size)
            if len(chunk) < 2 or (sum(chunk) < room and index + 1 < len(sizes)):
                continue
            cut = int(rng.integers(1, len(chunk)))
            a, b = sum(chunk[:cut]), sum(chunk[cut:])
            while a + b > room:
                a, b = (a - 1, b) if a > b else (a, b - 1)
            pairs.append((a, b))
            chunk = []
    return np.array(pairs).T


@pytest.fixture(scope="module")
def long_documents():
    return list(sections(800, sentences=(20, 40)))


@pytest.fixture(scope="module")
def many(tokenizer, long_documents):
    return make(tokenizer, long_documents)[0]


def test_lengths_do_not_tell_the_order(tokenizer, long_documents, many):
    first = np.array([e.boundary for e in many])
    second = np.array([len(e.token_ids) for e in many]) - first
    noise = 0.5 / np.sqrt(len(first) // 2)
    assert noise < 0.01
    assert abs(accuracy_of_lengths(first, second) - 0.5) < 4 * noise
    assert abs((first > second).mean() - (first < second).mean()) < 6 * noise
    # The test is sensitive: the lengths by the reference's rules do reveal the order.
    told = accuracy_of_lengths(*reference_lengths(tokenizer, long_documents))
    assert told > 0.5 + 8 * noise


def test_ends_do_not_tell_the_order(tokenizer, many):
    """A truncated sentence is equally likely in either segment."""
    stop = tokenizer.token_to_id(".")
    ends = np.array(
        [(e.token_ids[e.boundary - 1] == stop, e.token_ids[-1] == stop) for e in many]
    )
    assert 0.2 < ends.mean() < 0.99
    difference = ends[:, 0].mean() - ends[:, 1].mean()
    assert abs(difference) < 4 * np.sqrt(0.5 / len(ends))
