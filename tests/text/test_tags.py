"""Tags, words and entities."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.tags import (
    SCHEMES,
    Span,
    SpanTags,
    check_tags,
    convert_tags,
    describe_entity,
    detect_scheme,
    find_entities,
    join_words,
    scheme_of_names,
    spans_to_tags,
    split_words,
    tag_names,
    tags_to_spans,
    word_columns,
    word_tags,
)

# Gaps, lengths and labels of entities; a label may look like a mark.
_ENTITIES = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(1, 4), st.sampled_from(["a", "B", "creative-w"])
    )
)


def lay_out(entities, shift=0):
    spans, place = [], 0
    for gap, length, label in entities:
        start = place + gap + shift
        place = start + length
        spans.append(Span(start, place, label))
    return spans, place + 1


@settings(deadline=None)
@given(_ENTITIES, st.sampled_from(["BIO", "IOB1", "BIOES"]))
def test_entities_round_trip_in_all_schemes_with_marks(entities, scheme):
    spans, length = lay_out(entities)
    tags = spans_to_tags(spans, length, scheme)
    check_tags([tags], scheme)
    assert tags_to_spans(tags) == spans
    assert set(tags) <= set(tag_names(["a", "B", "creative-w"], scheme))
    for other in ("BIO", "IOB1", "BIOES"):
        assert tags_to_spans(convert_tags([tags], scheme, other)[0]) == spans


@settings(deadline=None)
@given(_ENTITIES)
def test_separate_entities_round_trip_in_io(entities):
    spans, length = lay_out(entities, shift=1)
    assert tags_to_spans(spans_to_tags(spans, length, "IO")) == spans


@settings(deadline=None)
@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"])))
def test_inconsistent_tags_are_read_like_seqeval(tags):
    metrics = pytest.importorskip("seqeval.metrics.sequence_labeling")
    theirs = [
        (start, end + 1, label) for label, start, end in metrics.get_entities(tags)
    ]
    assert tags_to_spans(tags) == theirs


@settings(deadline=None)
@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "E-a", "S-a", "I-b", "E-b"])))
def test_valid_tags_round_trip_and_invalid_ones_do_not(tags):
    """Converting tags to entities and back changes invalid tags only."""
    for scheme in ("BIO", "IOB1", "BIOES"):
        try:
            check_tags([tags], scheme)
            is_possible = True
        except ValueError:
            is_possible = False
        assert is_possible == (
            spans_to_tags(tags_to_spans(tags), len(tags), scheme) == tags
        )


@pytest.mark.parametrize(
    ("tags", "scheme", "message"),
    [
        (["O", "I-a"], "BIO", r"Row 1, word 1, has the tag 'I-a' after 'O'.*'B-a'"),
        (["B-a", "I-b"], "BIO", r"word 1, has the tag 'I-b' after 'B-a'.*'B-b'"),
        (["B-a"], "IOB1", r"Row 1, word 0, has the tag 'B-a': in IOB1"),
        (["B-a", "I-a"], "BIOES", r"Row 1 ends after 'I-a'.*'I-a' or 'E-a'"),
        (["B-a", "O"], "BIOES", r"word 1, has the tag 'O' after 'B-a'"),
        (["O", "E-a"], "BIOES", r"word 1, has the tag 'E-a' after 'O'.*'S-a'"),
        (["S-a", "I-a"], "BIOES", r"word 1, has the tag 'I-a' after 'S-a'"),
        (["B-a", "E-b"], "BIOES", r"word 1, has the tag 'E-b' after 'B-a'"),
        (["place"], "BIO", r"word 0, has the tag 'place'.*O or one of B, I"),
        (["S-a"], "BIO", r"word 0, has the tag 'S-a'.*O or one of B, I"),
    ],
)
def test_invalid_tags_are_named(tags, scheme, message):
    with pytest.raises(ValueError, match=message):
        check_tags([["O"], tags], scheme)


@pytest.mark.parametrize(
    ("rows", "scheme"),
    [
        ([["O", "B-a", "I-a"], ["B-b"]], "BIO"),
        ([["I-a", "B-a"], ["O"]], "IOB1"),
        ([["S-a", "O"], ["B-a", "I-a", "E-a"]], "BIOES"),
        ([["NOUN", "VERB"]], "IO"),
        ([["O", "O"]], "IO"),
        ([], "IO"),
    ],
)
def test_detect_scheme(rows, scheme):
    assert detect_scheme(rows) == scheme


def test_tags_of_unknown_schemes_raise():
    with pytest.raises(
        ValueError, match=r"Row 0, word 1.*BIO.*Nor.*Row 1, word 0.*IOB1"
    ):
        detect_scheme([["O", "I-a"], ["B-a"]])
    with pytest.raises(ValueError, match="Row 0 ends after 'B-a': in BIOES"):
        detect_scheme([["B-a"], ["S-a"]])


def test_tag_names():
    assert tag_names(["x"], "BIOES") == ("B-x", "E-x", "I-x", "O", "S-x")
    assert tag_names(["y", "x"], "IO") == ("O", "x", "y")
    for scheme in ("BIO", "BIOES", "IO"):
        assert scheme_of_names(tag_names(["x"], scheme)) == scheme
    assert set(SCHEMES) == {"BIO", "IOB1", "BIOES", "IO"}


@pytest.mark.parametrize(
    "spans",
    [
        [Span(0, 2, "a"), Span(1, 3, "b")],
        [Span(2, 2, "a")],
        [Span(2, 9, "a")],
        [Span(-1, 1, "a")],
    ],
)
def test_entities_that_overlap_or_are_empty_raise(spans):
    with pytest.raises(ValueError, match="does not fit"):
        spans_to_tags(spans, 4)


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
        ([["a"], "b"], ValueError, "Row 1 is a text, and row 0 a list of words"),
        ([["a"], ["b", None]], ValueError, "row 1 of the words of row 1 is None"),
        ([["a", ["b"]]], ValueError, r"row 1 of the words of row 0 is \['b'\]"),
        (["a", None], ValueError, "row 1 of texts is None"),
        ((["a"], ["b"]), ValueError, r"row 0 of the words of row 0 is \['a'\]"),
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
        (
            [(17, 24)],
            r"Row 7: the entity from 17 to 24 \('London'\) ends after the text",
        ),
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
    with pytest.raises(ValueError, match="the model no tag for all"):
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


def test_the_score_is_the_mean_over_words():
    rows = np.array(
        [[0.6, 0.2, 0.2], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]]
    )
    found = find_entities(rows, np.full(4, True), NAMES)
    assert [span for span, _ in found] == [Span(0, 2, "x"), Span(3, 4, "x")]
    np.testing.assert_allclose([score for _, score in found], [0.7, 0.5])


def test_words_that_nobody_sees_neither_start_nor_part_an_entity():
    rows = np.eye(3)[[0, 0, 1, 0]]
    found = find_entities(rows, np.array([False, True, False, False]), NAMES)
    assert found == [(Span(1, 2, "x"), 1.0)]
    assert find_entities(rows[:0], np.empty(0, bool), NAMES) == []
    assert find_entities(rows[:1], np.array([False]), NAMES) == []


def test_descriptions():
    raw = describe_entity(Span(1, 3, "x"), 0.5, split_words("in  New York!"))
    place = {"start": 4, "end": 12, "text": "New York"}
    assert raw == {"label": "x", "score": 0.5} | place
    words = describe_entity(Span(1, 3, "x"), 0.5, join_words(["in", "New", "York"]))
    assert words["text"] == "New York"
    assert (words["start"], words["start_word"], words["end_word"]) == (3, 1, 3)
