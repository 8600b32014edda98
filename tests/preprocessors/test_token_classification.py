"""Words, their pieces and their tags."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import AlbertTokenClassifierPreprocessor, AlbertTokenizer
from keras_albert.preprocessors.token_classification import (
    SpanTags,
    join_words,
    split_words,
    word_columns,
    word_tags,
)
from keras_albert.text import TextRules, train_vocabulary
from keras_albert.text.tag_schemes import Span, spans_to_tags, tags_to_spans
from tests.word_pieces import word_proto

WORD_CHARACTERS = "aZ9_ \t\n.,'-é\u0301\u200b\u200d\ufe0f👩🏽🇬🇧日本สวั½´\u00ad"  # noqa: RUF001


@settings(deadline=None)
@given(st.text(WORD_CHARACTERS))
def test_only_whitespace_belongs_to_no_word(text):
    row = split_words(text)
    assert all(row.words)
    assert (row.ends[:-1] <= row.starts[1:]).all()
    rest = list(text)
    for start, end in zip(row.starts, row.ends, strict=True):
        rest[start:end] = " " * (end - start)
    assert not "".join(rest).strip()


@settings(deadline=None)
@given(st.lists(st.text(WORD_CHARACTERS)))
def test_offsets_of_joined_words(words):
    row = join_words(words)
    assert row.words == words
    assert row.text == " ".join(words)
    assert not row.is_raw


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("U.S. isn't x_y", ["U", ".", "S", ".", "isn", "'", "t", "x_y"]),
        ("cafe\u0301s", ["cafe\u0301s"]),
        ("👩\u200d👩\u200d👧! ☎\ufe0f", ["👩\u200d👩\u200d👧", "!", "☎\ufe0f"]),
        ("🇬🇧🇫🇷", ["🇬🇧", "🇫🇷"]),
        ("日本 สวัสดี", ["日", "本", "ส", "วั", "ส", "ดี"]),
        ("", []),
    ],
)
def test_words_of_many_scripts(text, words):
    assert split_words(text).words == words


@pytest.mark.parametrize(
    ("x", "rows", "batched"),
    [
        ("a b", ["a b"], False),
        (["a b", b"c"], ["a b", "c"], True),
        (("a", b"b"), [["a", "b"]], False),
        ([["a", b"b"], []], [["a", "b"], []], True),
        ([("a", "b")], [["a", "b"]], True),
        (np.array([["a", "b"], ["c", "d"]]), [["a", "b"], ["c", "d"]], True),
        (np.array(["a b", "c"]), ["a b", "c"], True),
        ([], [], True),
    ],
)
def test_word_columns_of_words_and_texts(x, rows, batched):
    assert word_columns(x) == ((rows,), batched)


def test_pandas_columns():
    pandas = pytest.importorskip("pandas")
    assert word_columns(pandas.Series(["a b", "c"])) == ((["a b", "c"],), True)
    assert word_columns(pandas.Series([["a", "b"], ["c"]]))[0] == ([["a", "b"], ["c"]],)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([["a"], "b"], ValueError, "Row 1 is a text, but row 0 is a list of words"),
        (["b", ["a"]], ValueError, "Row 1 is a list of words, but row 0 is a text"),
        ([["a"], ["b", None]], ValueError, "row 1 of the words of row 1 is None"),
        ([["a", ["b"]]], ValueError, r"row 1 of the words of row 0 is \['b'\]"),
        (["a", None], ValueError, "row 1 of texts is None"),
        ((["a"], ["b"]), TypeError, "A tuple is the words of one text"),
        (None, TypeError, "NoneType"),
        (3, TypeError, "int"),
    ],
)
def test_invalid_words_name_the_row(x, error, message):
    with pytest.raises(error, match=message):
        word_columns(x)


TEXT = "Ada Lovelace, of London"


def entities(*spans, tags=(10, 11, 12, 13)):
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    return SpanTags(bounds, np.array([tags] * len(spans), np.int32).reshape(-1, 4), 9)


@pytest.mark.parametrize(
    ("spans", "tags"),
    [
        ([], [9, 9, 9, 9, 9]),
        ([(0, 3)], [10, 9, 9, 9, 9]),
        ([(0, 12), (17, 23)], [11, 13, 9, 9, 10]),
        ([(0, 13)], [11, 12, 13, 9, 9]),
        # An entity includes words that it overlaps; whitespace belongs to no word.
        ([(1, 6), (13, 18)], [11, 13, 9, 11, 13]),
    ],
)
def test_tags_of_the_words_of_entities(spans, tags):
    assert word_tags(entities(*spans), split_words(TEXT), 0).tolist() == tags


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(17, 24)], r"Row 7: the entity from 17 to 24 \('London'\) ends outside"),
        ([(3, 4)], r"Row 7: the entity from 3 to 4 \(' '\) contains no word"),
        ([(0, 5), (6, 12)], r"Row 7: the entity from 6 to 12 .* shares a word"),
    ],
)
def test_invalid_entities_raise(spans, message):
    with pytest.raises(ValueError, match=message):
        word_tags(entities(*spans), split_words(TEXT), 7)


def test_the_text_of_an_entity_is_compared():
    target = replace(entities((0, 3)), texts={(0, 3): "Ada"})
    assert word_tags(target, split_words(TEXT), 0)[0] == 10
    target = replace(target, texts={(0, 3): "London"})
    with pytest.raises(ValueError, match="Row 2: the entity 'London' from 0 to 3"):
        word_tags(target, split_words(TEXT), 2)


def test_missing_tag_raises():
    target = entities((0, 3), tags=(1, 1, -1, -1))
    assert word_tags(target, split_words(TEXT), 0)[0] == 1
    target = entities((0, 12), tags=(1, 1, -1, -1))
    with pytest.raises(ValueError, match="the model no tag for the others"):
        word_tags(target, split_words(TEXT), 0)


@pytest.mark.parametrize(
    ("target", "words", "message"),
    [
        (entities(), join_words(["a"]), "words, whose target is a tag for each"),
        (np.array([1, 2]), split_words("a b"), "a raw text, whose target is its ent"),
    ],
)
def test_targets_of_the_wrong_type_raise(target, words, message):
    with pytest.raises(ValueError, match=f"Row 3 is {message}"):
        word_tags(target, words, 3)


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
