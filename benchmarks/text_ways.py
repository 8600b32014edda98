"""The compared ways to train and predict on texts, with default and best settings."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import text_loops
from peer_models import BATCH_SIZE, TransformersModel, compile_alike

from keras_albert.data.batches import PackedBatches
from keras_albert.text.packing import PackedShape, plan_batches

# KerasHub's default.
FULL_LENGTH = 512


@dataclass(frozen=True)
class Way:
    """A library with particular settings.

    Args:
        name: string.
        fit: Callable of rows and labels that trains for an epoch.
        predict: Callable of rows that returns their outputs.
        restart: Callable of the number of steps, or `None`, that resets the training.
        is_fixed: bool. Whether all rows cost the same, so that a few are enough.
        optional: bool. See `Side`.
    """

    name: str
    fit: Callable[[list, list], Any]
    predict: Callable[[list], Any]
    restart: Callable[[int | None], None]
    is_fixed: bool = False
    optional: bool = False

    def share(self, rows: list) -> int:
        """Return how many rows to measure: two batches suffice for a fixed length."""
        return min(2 * BATCH_SIZE, len(rows)) if self.is_fixed else len(rows)


def keras_way(name: str, model: Any, **how: Any) -> Way:
    """Make a way from a Keras model; `how` are attributes of its preprocessor."""
    before = model.get_weights()

    def set_up() -> None:
        for attribute, value in how.items():
            setattr(model.preprocessor, attribute, value)

    def fit(rows: list, labels: list) -> None:
        set_up()
        columns = text_loops.columns_of(rows)
        targets = np.asarray(labels, _dtype(labels))
        model.fit(columns, targets, batch_size=BATCH_SIZE, verbose=0)

    def predict(rows: list) -> Any:
        set_up()
        columns = text_loops.columns_of(rows)
        return np.asarray(model.predict(columns, batch_size=BATCH_SIZE, verbose=0))

    def restart(steps: int | None) -> None:
        model.set_weights(before)
        compile_alike(model, steps)

    return Way(name, fit, predict, restart, is_fixed="sequence_length" in how)


def _dtype(labels: list) -> str:
    return "float32" if isinstance(labels[0], float) else "int32"


def transformers_way(name: str, peer: TransformersModel, optional: bool, **how: Any):
    """Make a way from a transformers model; `how` are arguments of `text_loops`."""
    generator = np.random.default_rng(0)
    return Way(
        name,
        lambda rows, labels: text_loops.fit(
            peer, rows, labels, generator=generator, **how
        ),
        lambda rows: text_loops.predict(peer, rows, **how),
        peer.restart,
        optional=optional,
    )


def all_ways(
    ours: Any, keras_hub: Any, theirs: TransformersModel, longest: int, compiled: bool
) -> list[Way]:
    """Return all ways, keras_albert first.

    Args:
        ours: An `AlbertClassifier`.
        keras_hub: KerasHub's model with its weights.
        theirs: transformers' model with its weights.
        longest: int. Tokens of the longest row.
        compiled: bool. Whether to try `torch.compile`.
    """
    fitting = min(-(-longest // 8) * 8, FULL_LENGTH)
    ways = [keras_way("keras_albert", ours, pack_sequences=False)]
    ways += [
        keras_way(f"KerasHub, length {length}", keras_hub, sequence_length=length)
        for length in dict.fromkeys((FULL_LENGTH, fitting))
    ]
    ways.append(
        keras_way("keras_albert, pack_sequences=True", ours, pack_sequences=True)
    )
    settings = {
        "padding=True": {"pad_all": True},
        "each batch padded": {},
        "by length": {"by_length": True},
    }
    for name, how in settings.items():
        ways.append(transformers_way(f"transformers, {name}", theirs, False, **how))
    if compiled:
        quick = theirs.compiled()
        for name in ("each batch padded", "by length"):
            full_name = f"transformers, {name}, compiled"
            ways.append(transformers_way(full_name, quick, True, **settings[name]))
    return ways


def longest_row(ours: Any, rows: list) -> int:
    """Return the number of tokens in the longest encoded row."""
    examples, _ = ours.preprocessor.encode(text_loops.columns_of(rows))
    return int(examples.lengths.max())


def same_ids(ours: Any, theirs: TransformersModel, rows: list) -> str:
    """Describe for how many rows both tokenizers return the same ids."""
    examples, _ = ours.preprocessor.encode(text_loops.columns_of(rows))
    expected = text_loops.encode(theirs, rows)["input_ids"]
    same = 0
    for row, ids in enumerate(expected):
        length = int(examples.lengths[row])
        batch = examples.pack(np.array([row]), length)[0]
        same += batch["token_ids"][0].tolist() == list(ids)
    return f"transformers' tokenizer returns equal ids for {same} of {len(rows)} rows"


def padding_note(ours: Any, rows: list) -> str:
    """Describe how many positions each padding strategy computes per token.

    The quotient of two figures is the ratio of times for a model whose time is
    proportional to positions.
    """
    examples, _ = ours.preprocessor.encode(text_loops.columns_of(rows))
    lengths, generator = examples.lengths, np.random.default_rng(0)
    random_order = text_loops.make_plan(rows, by_length=False, generator=generator)

    def positions(plan: list[Any], pad: Callable[[int], int]) -> float:
        return sum(len(part) * pad(int(lengths[part].max())) for part in plan)

    everything = [np.arange(len(rows))]
    padded_length = ours.preprocessor.padded_length
    by_length = plan_batches(lengths, BATCH_SIZE, generator)
    shared = PackedBatches(
        *(examples, padded_length, BATCH_SIZE, True),
        shape=PackedShape(ours.backbone.hidden_dim),
    )
    found = {
        "keras_albert": positions(by_length, padded_length),
        "pack_sequences=True": shared.positions_per_token() * int(lengths.sum()),
        "each batch padded": positions(random_order, int),
        "all as the longest": positions(everything, int),
        f"all as {FULL_LENGTH}": positions(everything, lambda _: FULL_LENGTH),
    }
    tokens = int(lengths.sum())
    words = ", ".join(f"{name} {count / tokens:.2f}" for name, count in found.items())
    return f"positions computed for a token: {words}"


def make_batches(ours: Any, rows: list) -> None:
    """Make the batches of an epoch of keras_albert, and discard them."""
    examples, _ = ours.preprocessor.encode(text_loops.columns_of(rows))
    padded_length = ours.preprocessor.padded_length
    for numbers in plan_batches(examples.lengths, BATCH_SIZE):
        longest = int(examples.lengths[numbers].max())
        examples.pack(numbers, padded_length(longest))
