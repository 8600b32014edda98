"""The token classifier's preprocessor."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import AlbertTokenClassifierPreprocessor, AlbertTokenizer
from keras_albert.text import TextRules, train_vocabulary
from keras_albert.text.tags import Span, SpanTags, spans_to_tags, tags_to_spans
from tests.word_pieces import word_proto

NAMES = ("B-x", "I-x", "O")


KINDS = ["uncased", "cased", "word piece"]


# An acute accent becomes a space, U+200B is removed, "½" has three pieces.
STRANGE = "abcSão \u0301\u200b\u200d½´👩🏽日.,-1"  # noqa: RUF001


SAMPLE = ["abc São, 1-2 1/2 a b c", "She paid 12 by the small red school."] * 9


@pytest.fixture(scope="module")
def tokenizers():
    sizes = {"vocabulary_size": 60, "hard_vocab_limit": False}
    cased = TextRules(lowercase=False, strip_accents=False)
    protos = {
        "uncased": train_vocabulary(SAMPLE, **sizes),
        "cased": train_vocabulary(SAMPLE, **sizes, text_rules=cased),
        "word piece": word_proto(),
    }
    return {kind: AlbertTokenizer(proto) for kind, proto in protos.items()}


@pytest.fixture(scope="module")
def make(tokenizers):
    def make(kind="uncased", **arguments):
        return AlbertTokenClassifierPreprocessor(tokenizers[kind], **arguments)

    return make


def answers(x, y, weights, num_classes=3):
    """Return the outputs of a perfect model, with noise at positions of weight 0."""
    noise = np.random.default_rng(0).normal(size=(*y.shape, num_classes))
    return np.where(weights[..., None] > 0, np.eye(num_classes)[y], noise)


def random_tags(data, length):
    """Draw valid BIO tags, as numbers."""
    cuts = data.draw(st.lists(st.integers(0, length), max_size=6).map(sorted))
    spans = [
        Span(a, b, "x") for a, b in zip(cuts[::2], cuts[1::2], strict=False) if a < b
    ]
    return [NAMES.index(tag) for tag in spans_to_tags(spans, length)]


@settings(deadline=None)
@given(
    st.data(),
    st.lists(st.lists(st.text(STRANGE, max_size=6), max_size=9), max_size=3),
    st.sampled_from(KINDS),
    st.integers(5, 12),
    st.booleans(),
)
def test_tags_of_words_round_trip(make, data, documents, kind, size, all_pieces):
    stride = data.draw(st.integers(1, size - 2))
    preprocessor = make(
        kind, max_sequence_length=size, stride=stride, label_all_pieces=all_pieces
    )
    tags = [random_tags(data, len(words)) for words in documents]
    examples, _ = preprocessor.encode(documents, [np.array(row, int) for row in tags])
    x, y, weights = examples.pack(np.arange(len(examples)), size)
    assert not weights[x["padding_mask"] == 0].any()
    assert not np.isin(x["token_ids"][weights > 0], (0, 2, 3)).any()
    merged = examples.merge(answers(x, y, weights))
    seen = examples.seen_words()
    pieces = [[len(preprocessor.tokenizer(w)) for w in words] for words in documents]
    for row, tags_of_row in enumerate(tags):
        assert (seen[row] == (np.array(pieces[row]) > 0)).all()
        expected = np.eye(3)[np.array(tags_of_row, int)] * seen[row][:, None]
        np.testing.assert_allclose(merged[row], expected)
    # Each piece with a tag has a weight in exactly one row.
    counts = [n if all_pieces else min(n, 1) for row in pieces for n in row]
    assert weights.sum() == sum(counts)


@settings(deadline=None)
@given(st.data(), st.text(STRANGE, max_size=30), st.sampled_from(KINDS))
def test_entities_of_texts_round_trip(make, data, text, kind):
    preprocessor = make(kind, max_sequence_length=8)
    (words,) = preprocessor.encode([text])[0].words
    numbers = random_tags(data, len(words.starts))
    spans = tags_to_spans([NAMES[number] for number in numbers])
    bounds = [(words.starts[s.start], words.ends[s.end - 1]) for s in spans]
    target = SpanTags(
        np.array(bounds, np.int64).reshape(-1, 2),
        np.array([[0, 0, 1, 1]] * len(spans), np.int32).reshape(-1, 4),
        2,
    )
    x, y, weights = preprocessor([text], [target])
    examples, _ = preprocessor.encode([text])
    (merged,), (seen,) = examples.merge(answers(x, y, weights)), examples.seen_words()
    assert (merged[seen].argmax(-1) == np.array(numbers, int)[seen]).all()
    for start, end in bounds:
        assert text[start:end].strip() == text[start:end]


def test_words_are_tokenized_separately(make):
    """Also next to a character that is normalized to a space."""
    preprocessor = make()
    sign = "\u00b4"
    x, y, weights = preprocessor([["red", sign, "school"]], [np.array([0, 1, 2])])
    ids = x["token_ids"][0]
    tokenizer = preprocessor.tokenizer
    assert not len(tokenizer(sign))
    first = [tokenizer("red")[0], tokenizer("school")[0]]
    assert ids[weights[0] > 0].tolist() == first
    assert y[0][weights[0] > 0].tolist() == [0, 2]
    joined = [*tokenizer("red"), *tokenizer("school")]
    assert ids[: len(joined) + 2].tolist() == [2, *joined, 3]
    assert not x["segment_ids"].any()


def test_a_word_longer_than_a_window(make):
    preprocessor = make(max_sequence_length=8, label_all_pieces=True)
    x, _, weights = preprocessor([["ab12" * 10]], [np.array([1])])
    assert len(x["token_ids"]) > 3
    assert weights.sum() == len(preprocessor.tokenizer("ab12" * 10))


def test_sample_weights(make):
    documents = [["a", "b"], ["c"]]
    tags = [np.array([1, 2]), np.array([0])]
    _, _, weights = make()(documents, tags, np.array([0.5, 2.0], "float32"))
    assert weights.sum(axis=1).tolist() == [1.0, 2.0]


def test_batches_and_fixed_lengths(make):
    preprocessor = make(sequence_length=20)
    assert preprocessor([["a"], []])["token_ids"].shape == (2, 20)
    preprocessor = make(length_buckets=(8, 16))
    assert preprocessor("a b")["token_ids"].shape == (1, 8)
    assert preprocessor([])["token_ids"].shape == (0, 8)

    _, y, _ = make()([["a"]], [[1]])
    assert y[0, 1] == 1


def test_wrong_numbers_of_targets_raise(make):
    with pytest.raises(ValueError, match="Row 1 has 1 words, but 2 tags"):
        make()([["a"], ["b"]], [[1], [1, 0]])
    with pytest.raises(ValueError, match="2 examples, but 1 targets"):
        make()([["a"], ["b"]], [[1]])
