"""Training and prediction loops for transformers, as in optimized user code.

They correspond to `fit` and `predict` of `keras_albert` and KerasHub. Batches are in
random order or by length; rows are padded to the longest of all texts (`padding=True`
in one call of the tokenizer) or of their batch.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from peer_models import BATCH_SIZE, TransformersModel

MAX_LENGTH = 512


def columns_of(rows: list) -> Any:
    """Return texts unchanged, and pairs as a tuple of two lists."""
    return tuple(map(list, zip(*rows, strict=True))) if _are_pairs(rows) else rows


def _are_pairs(rows: list) -> bool:
    return isinstance(rows[0], tuple)


def encode(peer: TransformersModel, rows: list, **options: Any) -> Any:
    columns = columns_of(rows)
    return peer.tokenizer(
        *(columns if _are_pairs(rows) else (columns,)),
        truncation=True,
        max_length=MAX_LENGTH,
        return_token_type_ids=True,
        **options,
    )


def batches(
    peer: TransformersModel, rows: list, plan: list[Any], pad_all: bool
) -> Iterator[dict[str, Any]]:
    """Tokenize all rows, then yield the batches of the plan, on the device."""
    if pad_all:
        everything = encode(peer, rows, padding=True, return_tensors="pt")
        for numbers in plan:
            yield {k: v[numbers].to(peer.device) for k, v in everything.items()}
        return
    encoded = encode(peer, rows)
    for numbers in plan:
        batch = {k: [v[i] for i in numbers] for k, v in encoded.items()}
        padded = peer.tokenizer.pad(batch, return_tensors="pt")
        yield dict(padded.to(peer.device))


def make_plan(
    rows: list, by_length: bool, generator: np.random.Generator | None
) -> list[Any]:
    """Split rows into batches: in order, shuffled, or by length."""
    from keras_albert.text.packing import plan_batches

    if by_length:
        # Characters are as good as tokens here, and free to count.
        lengths = np.array([len("".join(row)) for row in rows])
        return plan_batches(lengths, BATCH_SIZE, generator)
    order = np.arange(len(rows))
    if generator is not None:
        order = generator.permutation(order)
    return [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]


def fit(
    peer: TransformersModel,
    rows: list,
    labels: list,
    *,
    pad_all: bool = False,
    by_length: bool = False,
    generator: np.random.Generator | None = None,
) -> None:
    """Train for an epoch."""
    generator = generator or np.random.default_rng(0)
    plan = make_plan(rows, by_length, generator)
    is_scores = isinstance(labels[0], float)
    targets = np.asarray(labels, "float32" if is_scores else "int64")
    for numbers, inputs in zip(plan, batches(peer, rows, plan, pad_all), strict=True):
        peer.train_step(inputs, targets[numbers])


def predict(
    peer: TransformersModel,
    rows: list,
    *,
    pad_all: bool = False,
    by_length: bool = False,
) -> Any:
    """Return the logits of all rows in their original order."""
    plan = make_plan(rows, by_length, None)
    peer.model.eval()
    with peer.torch.inference_mode():
        found = [
            peer.model(**inputs).logits.cpu().numpy()
            for inputs in batches(peer, rows, plan, pad_all)
        ]
    logits = np.concatenate(found)
    restored = np.empty_like(logits)
    restored[np.concatenate(plan)] = logits
    return restored
