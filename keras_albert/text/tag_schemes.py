"""Conversion between tags of words and entities, in all common schemes.

Source: [Tjong Kim Sang and Veenstra, 1999](https://arxiv.org/abs/cs/9907006).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

# "BIO" is also known as IOB2, "BIOES" as IOBES. "IO" has labels without marks:
# consecutive words of the same label are one entity.
Scheme: TypeAlias = Literal["BIO", "IOB1", "BIOES", "IO"]

SCHEMES: tuple[Scheme, ...] = ("BIO", "IOB1", "BIOES", "IO")
OUTSIDE = "O"

_MARKS = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES"}
_MARKED = re.compile(r"([BIES])-(.+)", re.DOTALL)


class Span(NamedTuple):
    """An entity as a range of words or characters, `end` exclusive."""

    start: int
    end: int
    label: str


def check_scheme(scheme: str) -> None:
    """Raise if `scheme` is unknown."""
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(
            "`scheme` must be 'auto', 'BIO' (IOB2), 'IOB1', 'BIOES' or 'IO' (bare "
            f"labels). Received: scheme={scheme!r}"
        )


def tag_names(labels: Iterable[str], scheme: Scheme = "BIO") -> tuple[str, ...]:
    """Return all tags of a scheme for some kinds of entities, sorted.

    Args:
        labels: Iterable of string. The kinds of entities.
        scheme: string. `"BIO"`, `"IOB1"`, `"BIOES"` or `"IO"`. Defaults to `"BIO"`.

    Returns:
        The names of the tags, for the `labels` argument of a model.

    Example:
        >>> tag_names(["place", "person"])
        ('B-person', 'B-place', 'I-person', 'I-place', 'O')
    """
    marks = [f"{mark}-" for mark in _MARKS.get(scheme, "")] or [""]
    return tuple(sorted({OUTSIDE, *(m + label for label in labels for m in marks)}))


def scheme_of_names(names: Iterable[str]) -> Scheme:
    """Guess the scheme from the names of the tags alone."""
    marks = {_split(name)[0] for name in names if name != OUTSIDE}
    if "" in marks:
        return "IO"
    if marks & {"E", "S"}:
        return "BIOES"
    return "BIO" if marks & {"B", "I"} else "IO"


def detect_scheme(rows: Iterable[Sequence[str]]) -> Scheme:
    """Return the first of "BIO", "IOB1", "BIOES" and "IO" that rows of tags follow."""
    rows = list(rows)
    scheme = scheme_of_names({tag for tags in rows for tag in tags})
    if scheme == "BIO":
        problem = _find_problem(rows, "BIO")
        if problem and not _find_problem(rows, "IOB1"):
            return "IOB1"
        if problem:
            msg = f"{problem} Nor are the tags IOB1: {_find_problem(rows, 'IOB1')}"
            raise ValueError(msg)
    else:
        check_tags(rows, scheme)
    return scheme


def check_tags(rows: Iterable[Sequence[str]], scheme: Scheme) -> None:
    """Check that tags follow a scheme."""
    if problem := _find_problem(rows, scheme):
        raise ValueError(problem)


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Convert the tags of one text to entities, in any scheme."""
    # As in CoNLL's evaluation, a tag that does not continue an entity begins one.
    spans: list[Span] = []
    is_open = False
    for place, tag in enumerate(tags):
        if tag == OUTSIDE:
            is_open = False
            continue
        mark, label = _split(tag)
        if is_open and mark not in ("B", "S") and spans[-1].label == label:
            spans[-1] = spans[-1]._replace(end=place + 1)
        else:
            spans.append(Span(place, place + 1, label))
        is_open = mark not in ("E", "S")
    return spans


def spans_to_tags(
    spans: Iterable[Span], length: int, scheme: Scheme = "BIO"
) -> list[str]:
    """Convert the entities of one text to tags."""
    tags = [OUTSIDE] * length
    before = Span(0, 0, "")
    for span in sorted(spans):
        start, end, label = span
        if not before.end <= start < end <= length:
            raise ValueError(
                f"The entity {label!r} from {start} to {end} does not fit: it must "
                f"begin at {before.end} or later, where the previous one ends, and end "
                f"at {length} or earlier. Entities are not empty and do not overlap."
            )
        tags[start:end] = [f"I-{label}"] * (end - start)
        if scheme == "IO":
            tags[start:end] = [label] * (end - start)
        elif scheme == "BIOES":
            tags[start], tags[end - 1] = f"B-{label}", f"E-{label}"
            if end - start == 1:
                tags[start] = f"S-{label}"
        elif scheme == "BIO" or (before.end == start and before.label == label):
            tags[start] = f"B-{label}"
        before = span
    return tags


def convert_tags(
    rows: Iterable[Sequence[str]], source: Scheme, target: Scheme
) -> list[list[str]]:
    """Convert tags to another scheme; "IO" joins adjacent entities of one label."""
    rows = list(rows)
    check_tags(rows, source)
    return [spans_to_tags(tags_to_spans(tags), len(tags), target) for tags in rows]


def _split(tag: str) -> tuple[str, str]:
    """Split a tag into its mark, which may be empty, and its label."""
    match = _MARKED.fullmatch(tag)
    return (match[1], match[2]) if match else ("", tag)


def _find_problem(rows: Iterable[Sequence[str]], scheme: Scheme) -> str:
    """Describe the first invalid tag; an empty string if all tags are valid."""
    marks = _MARKS.get(scheme)
    if marks is None:
        return ""
    for row, tags in enumerate(rows):
        before = OUTSIDE
        for word, tag in enumerate([*tags, OUTSIDE]):
            known = tag == OUTSIDE or _split(tag)[0] in tuple(marks)
            why = _why_impossible(before, tag, scheme) if known else ""
            if not known or why:
                where = f", word {word}, has the tag {tag!r}"
                where = " ends" if word == len(tags) else where
                behind = f" after {before!r}" if word and known else ""
                why = why or f"a tag is O or one of {', '.join(marks)} with a label"
                return (
                    f"Row {row}{where}{behind}: in {scheme} {why}. "
                    "Correct the tags, or pass the `scheme` that they follow."
                )
            before = tag
    return ""


def _why_impossible(before: str, tag: str, scheme: Scheme) -> str:
    (mark_before, label_before), (mark, label) = _split(before), _split(tag)
    if before == OUTSIDE:
        mark_before, label_before = "", ""
    continues = mark in ("I", "E") and tag != OUTSIDE
    same = label == label_before
    if scheme == "BIO" and continues and not same:
        return f"an entity begins with 'B-{label}'"
    if scheme == "IOB1" and mark == "B" and not same:
        return "B- only parts an entity from one of the same label right before it"
    if scheme == "BIOES":
        is_open = mark_before in ("B", "I")
        if is_open and not (continues and same):
            return (
                f"'{before}' is continued by 'I-{label_before}' or 'E-{label_before}'"
            )
        if continues and not is_open:
            return f"an entity begins with 'B-{label}' or is 'S-{label}'"
    return ""
