"""Tokens for each `[MASK]`, from the scores of tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.base.outputs import outputs_of, softmax
from keras_albert.tasks.inputs.length_batches import LengthBatches
from keras_albert.text.tasks.masked_lm import WrittenMasks
from keras_albert.types import Int64Array, IntArray


def fill_masks(
    task: Any,
    examples: WrittenMasks,
    top_k: int,
    candidates: IntArray,
    batch_size: int | None = None,
) -> list[Any]:
    """Find the most likely tokens for each mask of each text."""
    _check_masks(task, examples)
    tokenizer = task.preprocessor.tokenizer
    padded_length = task.preprocessor.padded_length
    batches = LengthBatches(examples, padded_length, batch_size or 32)
    answers: list[Any] = [None] * len(examples)
    # Batch by batch: the scores of all masks may not fit in memory.
    for index, rows in enumerate(batches.plan):
        (inputs,) = batches[index]
        # The longest rows come first, so that errors appear early.
        _check_nothing_lost(task, examples, rows, inputs["token_ids"])
        outputs = task.token_scores(outputs_of(task, inputs))
        for row, padded, mask, scores in zip(
            rows, inputs["token_ids"], inputs["padding_mask"], outputs, strict=True
        ):
            ids = padded[: mask.sum()]
            places = np.flatnonzero(ids == tokenizer.mask_token_id).tolist()
            fillings = [
                _fill(tokenizer, ids, place, scores[slot], top_k, candidates)
                for slot, place in enumerate(places)
            ]
            answers[row] = fillings if len(fillings) > 1 else fillings[0]
    return answers


def _fill(
    tokenizer: Any,
    ids: IntArray,
    place: int,
    scores: npt.NDArray[np.float32],
    top_k: int,
    candidates: IntArray,
) -> list[dict[str, Any]]:
    chances = softmax(scores)[candidates]
    best = np.argsort(-chances, kind="stable")[:top_k]
    alone = int((ids == tokenizer.mask_token_id).sum()) == 1
    answers = []
    for token, score in zip(candidates[best].tolist(), chances[best], strict=True):
        filled = ids.copy()
        filled[place] = token
        sequence = _join(tokenizer, filled.tolist(), skip_special=alone)
        answers.append(
            {
                "score": float(score),
                "token": token,
                "token_str": _join(tokenizer, [token]),
                "sequence": sequence,
            }
        )
    return answers


def _join(tokenizer: Any, ids: list[int], skip_special: bool = False) -> str:
    """Join pieces as transformers does, with special tokens as they are written."""
    special = tokenizer.special_token_ids if skip_special else ()
    texts = tokenizer.vocabulary.texts
    return "".join(texts[i] for i in ids if i not in special).removeprefix(" ")


def target_ids(tokenizer: Any, targets: str | Sequence[str] | None) -> IntArray:
    """Return the ids to choose from."""
    if targets is None:
        return np.arange(tokenizer.vocabulary_size(), dtype=np.int32)
    targets = [targets] if isinstance(targets, str) else list(targets)
    if not targets:
        msg = "`targets` is empty. Name the tokens to choose from, or leave it out."
        raise ValueError(msg)
    return np.unique([_target_id(tokenizer, target) for target in targets])


def _target_id(tokenizer: Any, target: Any) -> np.int32:
    if not isinstance(target, str):
        msg = (
            f"`targets` are words, and one is {target!r} ({type(target).__name__}). "
            "Pass strings."
        )
        raise ValueError(msg)
    # A word of a text takes precedence over a piece within a word.
    (ids,) = tokenizer.tokenize_rows([target]).to_lists()
    if len(ids) == 1 and ids[0] not in tokenizer.special_token_ids:
        return np.int32(ids[0])
    token = int(tokenizer.token_to_id(target))
    if tokenizer.id_to_token(token) == target:
        return np.int32(token)
    pieces = " ".join(tokenizer.id_to_token(i) for i in ids)
    msg = (
        f"The target {target!r} is no token of the vocabulary, which writes it "
        f"{pieces!r}. A [MASK] stands for one token: name another word, or one of "
        "these pieces."
    )
    raise ValueError(msg)


def _check_masks(task: Any, examples: WrittenMasks) -> None:
    mask = task.preprocessor.tokenizer.mask_token
    if (examples.written == 0).any():
        msg = (
            f"Row {int(np.argmin(examples.written))} of the texts has no {mask}. Write "
            f"{mask} where a token is to be filled in."
        )
        raise ValueError(msg)


def _check_nothing_lost(
    task: Any, examples: WrittenMasks, rows: Int64Array, token_ids: IntArray
) -> None:
    masks = (token_ids == examples.mask_token_id).sum(axis=1)
    lost = rows[masks < examples.written[rows]]
    if len(lost):
        mask = task.preprocessor.tokenizer.mask_token
        msg = (
            f"Row {int(lost.min())} of the texts is longer than the "
            f"{task.preprocessor.max_length} tokens that the model reads, and a {mask} "
            "in it is cut off. Shorten the text around it."
        )
        raise ValueError(msg)
