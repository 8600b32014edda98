"""Looks for mistakes in labelled data before a training."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.progress import track

from keras_albert.tasks import AlbertTextEmbedder
from keras_albert.tasks.text_embedding.search import unit_rows
from keras_albert.tools.datasets import Dataset, read_texts
from keras_albert.tools.tasks import TASKS
from keras_albert.utils.arguments import check_choice
from keras_albert.utils.environment import check_packages

Vectors = npt.NDArray[np.float32]
Place = tuple[Dataset, int]

_FOLDS = 5
# The cosine of two texts that differ by a word or two.
_NEAR = 0.95
# English texts have 1.2 tokens a word; short ones vary.
_MANY_TOKENS, _FEWEST_TOKENS = 2, 10
# Their rows share passages, so most would count as nearly the same.
_OF_PASSAGES = ("question-answering", "multiple-choice")
_BLOCK = 2048
_CHARACTERS = 120


@dataclass(frozen=True)
class Finding:
    """Something that may be wrong, with the rows that show it.

    Example:
        >>> from keras_albert.tools import Finding
        >>> print(Finding("one class", "only one class", is_error=True))
        error, one class: only one class
    """

    kind: str
    what: str
    examples: list[str] = field(default_factory=list)
    # Whether scores or the training are wrong with it.
    is_error: bool = False

    def __str__(self) -> str:
        return f"{'error' if self.is_error else 'note'}, {self.kind}: {self.what}"


def check(
    train: str | Path | Dataset,
    dev: str | Path | Dataset | None = None,
    *,
    task: str = "classification",
    preset: str = "albert_small_en_uncased",
    unlabelled: str | Path | Dataset | None = None,
    verbose: bool = False,
) -> list[Finding]:
    """Look for mistakes in labelled data before training on it.

    Errors, which make scores meaningless: equal texts in both sets, or with different
    labels; labels of `dev` that `train` does not have; one class; empty texts. Notes:
    nearly equal texts, labels that a classifier of the other rows contradicts, small
    classes, texts that are cut, and characters or languages that the vocabulary does
    not cover.

    Args:
        train: path or `Dataset`. The labelled rows: a file as `read_examples` reads it,
            or inputs and targets as `fit` takes them.
        dev: path, `Dataset` or `None`. The rows to validate on. Defaults to `None`.
        task: string. The task of the data: "classification", "regression", "masked-lm",
            "multiple-choice", "question-answering", "similarity" or
            "token-classification". Defaults to `"classification"`.
        preset: string. The encoder whose vectors compare texts. Defaults to
            `"albert_small_en_uncased"`.
        unlabelled: path, `Dataset` or `None`. Texts without labels, to be ranked by
            which ones to label next. Defaults to `None`.
        verbose: bool. Show a progress bar. Defaults to `False`.

    Returns:
        A list of findings, each with `kind`, `what`, `examples` and `is_error`.

    Raises:
        ImportError: If scikit-learn is missing, which finds doubtful labels.
        ValueError: If a file cannot be read, or the task is unknown.

    Example:
        >>> from keras_albert.tools import Dataset, check
        >>> texts = ["Where is my parcel?", "where is my parcel", "A refund, please."]
        >>> found = check(Dataset(texts, ["delivery", "refund", "refund"]))
        >>> [finding.kind for finding in found if finding.is_error]
        ['contradiction']
    """
    check_choice(tuple(TASKS), task=task)
    is_classes = task == "classification"
    if is_classes:
        check_packages("Finding doubtful labels", "scikit-learn", "sklearn")
    files = [
        each if isinstance(each, Dataset) else TASKS[task].read(Path(each), {}, None)
        for each in (train, dev)
        if each is not None
    ]
    embedder = AlbertTextEmbedder.from_preset(preset)
    findings = [*same_texts(files), *labels(files), *tokens(files, embedder)]
    if task in _OF_PASSAGES:
        return findings
    vectors = [_embed(embedder, data, verbose) for data in files]
    findings += near_texts(files, vectors)
    if is_classes and not isinstance(files[0].y[0], list):
        findings += doubtful_labels(files[0], vectors[0])
        if unlabelled is not None:
            if not isinstance(unlabelled, Dataset):
                unlabelled = read_texts(Path(unlabelled), {})
            new = _embed(embedder, unlabelled, verbose)
            findings += label_next(files[0], vectors[0], unlabelled, new)
    return findings


def _found(
    kind: str, what: str, examples: list[str], is_error: bool = False
) -> Iterator[Finding]:
    """Yield what some rows show, and how many do, if there are any."""
    if examples:
        yield Finding(kind, f"{len(examples):,} {what}", examples, is_error)


def same_texts(files: Sequence[Dataset]) -> Iterator[Finding]:
    """Find equal texts: within a file, in both, and with different labels."""
    rows: dict[str, list[Place]] = defaultdict(list)
    for data in files:
        for number, text in enumerate(data.row_texts()):
            rows[_words(text)].append((data, number))
    yield from _found("empty", "texts are empty", _shown(rows.pop("", [])), True)
    shared, differing, rest = [], [], []
    for places in rows.values():
        is_shared = len({id(data) for data, _ in places}) > 1
        is_differing = len({_label(*place) for place in places}) > 1
        if is_shared:
            shared.append(places)
        if is_differing:
            differing.append(places)
        if len(places) > 1 and not (is_shared or is_differing):
            rest.append(places)
    for kind, what, found in (
        ("leakage", "texts are in both files: scores of dev are too high", shared),
        ("contradiction", "texts have different labels in different rows", differing),
        ("duplicates", "texts occur several times with the same label", rest),
    ):
        pairs = [_pair(places) for places in found]
        yield from _found(kind, what, pairs, kind != "duplicates")


def near_texts(
    files: Sequence[Dataset], vectors: Sequence[Vectors]
) -> Iterator[Finding]:
    """Find pairs of texts that are nearly the same, by the cosine of their vectors."""
    places = [(data, n) for data in files for n in range(len(data))]
    texts = [_words(text) for data in files for text in data.row_texts()]
    joined = np.concatenate(vectors)
    found: dict[str, list[tuple[float, list[Place]]]] = defaultdict(list)
    for start in range(0, len(joined), _BLOCK):
        cosines = joined[start : start + _BLOCK] @ joined.T
        first, second = np.nonzero(cosines >= _NEAR)
        for a, b in zip(first + start, second, strict=True):
            if a < b and texts[a] != texts[b]:
                pair = [places[a], places[b]]
                is_within = pair[0][0] is pair[1][0]
                kind = "near duplicates" if is_within else "near leakage"
                found[kind].append((float(cosines[a - start, b]), pair))
    for kind, where in (
        ("near leakage", ", one in each file,"),
        ("near duplicates", " in one file"),
    ):
        pairs = sorted(found[kind], key=lambda each: -each[0])
        shown = [f"{cosine:.3f}: {_pair(pair)}" for cosine, pair in pairs]
        yield from _found(kind, f"pairs of texts{where} are nearly the same", shown)


def labels(files: Sequence[Dataset]) -> Iterator[Finding]:
    """Find labels that are in one file only, and classes that are too small."""
    counts = [Counter(_names(data)) for data in files]
    if not counts[0]:
        return
    if len(counts[0]) == 1 and isinstance(files[0].y[0], str):
        (name,) = counts[0]
        place = f"{files[0].where(name)}: {name!r}"
        yield Finding("one class", "only one class", [place], True)
    for data, found in zip(files[1:], counts[1:], strict=True):
        missing = sorted(set(found) - set(counts[0]))
        examples = [f"{data.where(name)}: {name!r}" for name in missing]
        what = "labels of dev do not occur in train"
        yield from _found("unknown labels", what, examples, True)
    small = [f"{name!r}: {n}" for name, n in counts[0].items() if n < 2 * _FOLDS]
    what = f"labels have fewer than {2 * _FOLDS} examples"
    yield from _found("small classes", what, small)


def tokens(files: Sequence[Dataset], embedder: Any) -> Iterator[Finding]:
    """Find texts that a row cuts, and those that the vocabulary does not fit."""
    tokenizer = embedder.preprocessor.tokenizer
    length = embedder.preprocessor.max_sequence_length
    unknown: list[tuple[float, Place]] = []
    split: list[tuple[float, Place]] = []
    cut: list[Place] = []
    for data in files:
        texts = data.row_texts()
        for number, ids in enumerate(tokenizer.tokenize(texts)):
            tokens_a_word = len(ids) / max(1, len(texts[number].split()))
            if len(ids) >= _FEWEST_TOKENS and tokens_a_word >= _MANY_TOKENS:
                split.append((tokens_a_word, (data, number)))
            missing = sum(token == tokenizer.vocabulary.unknown_id for token in ids)
            if missing:
                unknown.append((missing / len(ids), (data, number)))
            if len(ids) + 2 > length:
                cut.append((data, number))
    what = f"texts have more than {length} tokens and are cut"
    yield from _found("cut", what, _shown(cut))
    split.sort(key=lambda each: -each[0])
    what = (
        f"texts have {_MANY_TOKENS} or more tokens per word: the vocabulary may not "
        "cover their language"
    )
    shown = [f"{ratio:.1f}: {_one(*place)}" for ratio, place in split]
    yield from _found("split words", what, shown)
    unknown.sort(key=lambda each: -each[0])
    shown = [f"{share:.0%}: {_one(*place)}" for share, place in unknown]
    what = "texts have characters that the vocabulary does not cover"
    yield from _found("unknown", what, shown)


def doubtful_labels(data: Dataset, vectors: Vectors) -> Iterator[Finding]:
    """Find labels that a classifier of the other rows contradicts."""
    # Confident learning ([Northcutt et al., 2021](https://arxiv.org/abs/1911.00068)).
    names, y = np.unique(data.y, return_inverse=True)
    kept = np.flatnonzero(np.bincount(y)[y] >= _FOLDS)
    if len(np.unique(y[kept])) < 2:
        return
    names, y = np.unique(np.asarray(data.y)[kept], return_inverse=True)
    probabilities = cross_validated(vectors[kept], y)
    rows, other = find_doubtful(probabilities, y)
    shown = [
        f"{str(names[other[n]])!r} ({probabilities[n, other[n]]:.2f})? "
        + _one(data, int(kept[n]))
        for n in rows
    ]
    what = "labels contradict what a classifier learns from the other rows"
    yield from _found("doubtful labels", what, shown)


def find_doubtful(
    probabilities: npt.NDArray[Any], y: npt.NDArray[Any]
) -> tuple[Any, Any]:
    """Return the rows whose label is doubtful, the worst first, and likelier labels."""
    own = probabilities[np.arange(len(y)), y]
    thresholds = [own[y == label].mean() for label in range(probabilities.shape[1])]
    likely = np.where(probabilities >= thresholds, probabilities, -1)
    other = likely.argmax(1)
    rows = np.flatnonzero((likely.max(1) > 0) & (other != y))
    return rows[np.argsort(own[rows], kind="stable")], other


def _classifier() -> Any:
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  (an extra)

    return LogisticRegression(C=10, max_iter=1000)


def cross_validated(vectors: Vectors, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the probabilities of each row by classifiers that have not seen it."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict  # noqa: PLC0415  (an extra)

    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0)
    return cross_val_predict(
        _classifier(), vectors, y, cv=folds, method="predict_proba"
    )


def label_next(
    data: Dataset, vectors: Vectors, unlabelled: Dataset, new: Vectors
) -> Iterator[Finding]:
    """Rank texts without labels by how uncertain a classifier is about them."""
    classifier = _classifier().fit(vectors, data.y)
    best = np.sort(classifier.predict_proba(new), axis=1)
    order = np.argsort(best[:, -1] - best[:, -2], kind="stable")
    shown = [_one(unlabelled, int(number)) for number in order]
    what = "texts worth labelling next, least certain first"
    yield Finding("label next", what, shown)


def _embed(embedder: Any, data: Dataset, verbose: bool) -> Vectors:
    texts = data.row_texts()
    starts: Iterable[int] = range(0, len(texts), _BLOCK)
    if verbose:
        starts = track(starts, "vectors of the texts", transient=True)
    parts = [embedder.embed(texts[start : start + _BLOCK]) for start in starts]
    return unit_rows(np.concatenate(parts))


def _words(text: str) -> str:
    """Return what makes texts equal: their words, without case and punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold())) or text.strip()


def _names(data: Dataset) -> Iterator[str]:
    for label in data.y or ():
        if isinstance(label, str):
            yield label
        elif isinstance(label, list):
            yield from label


def _label(data: Dataset, number: int) -> str:
    return "" if data.y is None else repr(data.y[number])


def _one(data: Dataset, number: int) -> str:
    text = shorten(data.row_text(number), _CHARACTERS)
    label = shorten(_label(data, number), _CHARACTERS // 2)
    return " ".join(filter(None, (f"{data.place(number)}:", label, text)))


def _pair(places: Sequence[Place]) -> str:
    (first, a), (second, b) = places[0], places[-1]
    return f"{_one(first, a)} = {second.place(b)}: {_label(second, b)}"


def _shown(places: Sequence[Place]) -> list[str]:
    return [_one(*place) for place in places]
