"""Tag schemes: checks, detection and conversion to entities."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras_albert.text.tag_schemes import check_scheme

from keras_albert.text.tags import (
    SCHEMES,
    Span,
    check_tags,
    convert_tags,
    detect_scheme,
    scheme_of_names,
    spans_to_tags,
    tag_names,
    tags_to_spans,
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
        check_scheme(scheme)
    with pytest.raises(ValueError, match=r"'BILOU'"):
        check_scheme("BILOU")
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
def test_invalid_entities_raise(spans):
    with pytest.raises(ValueError, match="does not fit"):
        spans_to_tags(spans, 4)
