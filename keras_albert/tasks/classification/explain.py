"""Why a classifier answers as it does: the part of each word, by its gradients."""

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.tasks.predict import compile_function
from keras_albert.types import Task, Tensor, Texts
from keras_albert.utils.arguments import check_positive

# How many rows are computed at once: half of the default steps and of both ends; and
# how many tokens, whose gradients need memory.
_ROWS, _TOKENS = 33, 33 * 128


@dataclass(frozen=True)
class Word:
    """A word of an explained text, and its part in the answer.

    Args:
        text: string. The word.
        start: int. Its first character.
        end: int. The character after its last one.
        part: float. What it adds to the logit of the answer; negative if it speaks
            against it.
        column: int. `1` for a word of the second text of a pair, `0` otherwise.
    """

    text: str
    start: int
    end: int
    part: float
    column: int


@dataclass(frozen=True)
class Explanation:
    """The parts of all words in an answer; a notebook shows them in colour.

    Args:
        label: string, or `None` for a regression. The answer that is explained.
        logit: float. Its output for the text: a logit, or a score.
        baseline: float. The same for a text of `[MASK]` tokens; the parts add up to
            the difference.
        words: tuple of `Word`, in the order of the text.
    """

    label: str | None
    logit: float
    baseline: float
    words: tuple[Word, ...]

    def top(self, count: int = 5) -> list[Word]:
        """Return the words with the largest parts, of either sign.

        Args:
            count: int. How many. Defaults to `5`.

        Returns:
            A list of `Word`.
        """
        return sorted(self.words, key=lambda word: -abs(word.part))[:count]

    def __str__(self) -> str:
        parts = " ".join(f"{word.text}({word.part:+.2f})" for word in self.words)
        return parts if self.label is None else f"{self.label}: {parts}"

    def _repr_html_(self) -> str:
        most = max((abs(word.part) for word in self.words), default=0.0) or 1.0
        shown = [
            f'<span title="{word.part:+.3f}" style="background: rgba('
            f"{'0,160,0' if word.part > 0 else '220,0,0'},"
            f'{0.6 * abs(word.part) / most:.2f})">{html.escape(word.text)}</span>'
            for word in self.words
        ]
        label = "" if self.label is None else f"<b>{html.escape(self.label)}</b>: "
        return f"<p>{label}{' '.join(shown)}</p>"


def explain(
    classifier: Task, text: Texts, label: str | None, steps: int
) -> Explanation:
    """Explain the answer for one text; see `AlbertClassifier.explain`."""
    check_positive(steps=steps)
    _, batched = classifier.require_preprocessor("explain").columns(text)
    if batched:
        raise ValueError(
            "`explain` takes one text or one pair of texts, but received several. Call "
            "it for each of them."
        )
    return explain_texts(classifier, [text], [label], steps)[0]


def explain_texts(
    classifier: Task, texts: Sequence[Any], labels: Sequence[str | None], steps: int
) -> list[Explanation]:
    """Explain an answer for each text, padded to one length: JAX compiles once."""
    numbers = [_class_number(classifier, label) for label in labels]
    preprocessor = classifier.require_preprocessor("explain")
    columns, _ = preprocessor.columns(texts)
    ids = preprocessor(texts)
    classifier.untrained_head_warning.warn(classifier, "explain")
    return [
        _explain_row(
            classifier,
            {name: rows[row : row + 1] for name, rows in ids.items()},
            [column[row] for column in columns],
            number,
            steps,
        )
        for row, number in enumerate(numbers)
    ]


def _explain_row(
    classifier: Task,
    ids: dict[str, Any],
    texts: Sequence[str],
    number: int | None,
    steps: int,
) -> Explanation:
    preprocessor = classifier.require_preprocessor("explain")
    token_ids, mask = ids["token_ids"], ids["padding_mask"]
    tokenizer = preprocessor.tokenizer
    places = _text_places(ids, preprocessor.special_ids)
    masked = token_ids.copy()
    masked[0, np.concatenate(places)] = tokenizer.mask_token_id
    run = classifier.run_batch.cached(
        "gradients", lambda: compile_function(classifier, _step(classifier))
    )
    embed = classifier.backbone.embedding
    x, base = (
        ops.convert_to_numpy(embed(row, segment_ids=ids["segment_ids"], training=False))
        for row in (token_ids, masked)
    )
    x, base = (each[0].astype("float32") for each in (x, base))

    if number is None:
        number = int(classifier.predict(ids, verbose=0)[0].argmax())
    chosen = np.eye(classifier.num_classes, dtype="float32")[number]
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    # Both ends count for nothing, and are computed for their logits.
    alphas = np.concatenate([[0, 1], (nodes + 1) / 2])
    weights = np.concatenate([[0, 0], weights / 2])
    total, logits = np.zeros_like(x, np.float64), []
    count = max(1, min(_ROWS, _TOKENS // len(x)))
    for start in range(0, len(alphas), count):
        part = alphas[start : start + count]
        # All calls have one shape, for compiled programs.
        points = np.resize(part, count)[:, None, None]
        rows = (base + points * (x - base)).astype("float32")
        found = run(rows, np.repeat(mask, count, axis=0), chosen)
        values, gradients = (ops.convert_to_numpy(each) for each in found)
        logits += values[: len(part)].tolist()
        share = weights[start : start + count]
        total += np.einsum("s,slh->lh", share, gradients[: len(part)])
    parts = (total * (x - base)).sum(-1)
    words = [
        word
        for column, (text, where) in enumerate(zip(texts, places, strict=True))
        for word in _words(tokenizer, text, column, parts[where])
    ]
    name = None if classifier.is_regression else classifier.class_names[number]
    return Explanation(name, logits[1], logits[0], tuple(words))


def _class_number(classifier: Task, label: str | None) -> int | None:
    if classifier.is_regression:
        if label is not None:
            msg = f"A regression has no classes. Received: label={label!r}"
            raise ValueError(msg)
        return 0
    if label is not None and label not in classifier.class_names:
        known = ", ".join(map(repr, classifier.class_names))
        raise ValueError(f"`label` must be one of {known}. Received: label={label!r}")
    return None if label is None else classifier.class_names.index(label)


def _text_places(ids: dict[str, Any], special_ids: Any) -> list[npt.NDArray[Any]]:
    """Return the places of the tokens of each text in a row of ids."""
    row = ids["token_ids"][0][ids["padding_mask"][0] > 0]
    ends = np.flatnonzero(row == special_ids.sep)
    # A text may contain the separator, too; the packer's are at the end of a segment.
    segments = ids["segment_ids"][0][: len(row)]
    last = [int(ends[segments[ends] == k].max()) for k in np.unique(segments)]
    starts = [1, *(end + 1 for end in last)]
    return [np.arange(a, b) for a, b in zip(starts, last, strict=False)]


def _words(
    tokenizer: Any, text: str, column: int, parts: npt.NDArray[Any]
) -> list[Word]:
    """Add up the parts of the tokens of each word, which is text between blanks."""
    _, starts, _ = tokenizer.tokenize_with_offsets(text)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    begins = np.array([begin for begin, _ in spans])
    # A token of blanks alone belongs to the word before it.
    owners = np.maximum(np.searchsorted(begins, starts, side="right") - 1, 0)
    # Text at the end of a long one may be cut.
    sums = np.bincount(owners[: len(parts)], parts, minlength=len(spans))
    read = int(owners[: len(parts)].max(initial=-1)) + 1
    return [
        Word(text[begin:end], begin, end, float(value), column)
        for (begin, end), value in zip(spans[:read], sums, strict=False)
    ]


def _step(classifier: Task) -> Callable[..., Any]:
    """Return a function of embedded rows: values, and their gradients."""

    def outputs_of(rows: Tensor, mask: Tensor) -> Tensor:
        backbone = classifier.backbone
        x = backbone.encoder(
            rows, padding_mask=mask, training=False, num_layers=backbone.num_layers
        )
        exits = {"exit": backbone.num_layers - 1} if classifier.exits else {}
        read = classifier.pooling.call(x, backbone.pool(x, mask), mask)
        outputs = classifier.output_dense(read, **exits)
        outputs = ops.cast(outputs, "float32")
        if classifier.outputs_are_logits is not False or classifier.is_regression:
            return outputs
        outputs = ops.clip(outputs, 1e-7, 1 - 1e-7)
        rest = ops.log(1 - outputs) if classifier.is_multi_label else 0.0
        return ops.log(outputs) - rest

    def values(rows: Tensor, mask: Tensor, chosen: Tensor) -> Tensor:
        return ops.sum(outputs_of(rows, mask) * chosen, axis=-1)

    def step(rows: Tensor, mask: Tensor, chosen: Tensor) -> Any:
        backend = keras.config.backend()
        if backend == "jax":
            import jax  # noqa: PLC0415  (it is the backend)

            found, pull = jax.vjp(lambda rows: values(rows, mask, chosen), rows)
            return found, pull(ops.ones_like(found))[0]
        if backend == "tensorflow":
            import tensorflow as tf  # noqa: PLC0415  (it is the backend)

            with tf.GradientTape() as tape:
                tape.watch(rows)
                found = values(rows, mask, chosen)
            return found, tape.gradient(found, rows)
        import torch  # noqa: PLC0415  (it is the backend)

        rows = ops.convert_to_tensor(rows).detach()
        with torch.enable_grad():
            rows.requires_grad_()
            found = values(rows, mask, ops.convert_to_tensor(chosen))
            (gradients,) = torch.autograd.grad(found.sum(), rows)
        return found.detach(), gradients

    return step
