"""What each of the two heads reads, and is trained on."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_albert.text.packing.examples import Examples, weights_by_target
from keras_albert.types import Batch, Int64Array


class SpanInputs:
    """Examples with the inputs and targets of one head; `Examples` themselves.

    Args:
        examples: `Examples`, as `SpanWindows` packs them.
        num_starts: int or `None`. The starts that the conditional head follows while
            it predicts; `None` for the independent head, which follows none.
    """

    def __init__(self, examples: Examples, num_starts: int | None) -> None:
        self.examples = examples
        self.lengths = examples.lengths
        self.num_starts = num_starts

    def __len__(self) -> int:
        return len(self.examples)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        x, *rest = self.examples.pack(rows, length)
        x = head_inputs(x, self.num_starts)
        if not rest:
            return (x,)
        y = head_targets(rest[0], self.num_starts)
        return (x, y, *(weights_by_target(y, part) for part in rest[1:]))


def head_inputs(x: Mapping[str, Any], num_starts: int | None) -> dict[str, Any]:
    """Give a head its inputs.

    Args:
        x: Arrays of ids, and `start_positions` where answers are known.
        num_starts: See `SpanInputs`.

    Returns:
        The same, without `start_positions` for the independent head; for the other,
        those that are given, or -1, which leaves the choice to the model.
    """
    inputs = {name: array for name, array in x.items() if name != "start_positions"}
    if num_starts is not None:
        unknown = np.full((len(inputs["token_ids"]), num_starts), -1, np.int32)
        inputs["start_positions"] = x.get("start_positions", unknown)
    return inputs


def head_targets(y: Mapping[str, Any], num_starts: int | None) -> dict[str, Any]:
    """Give a head its targets.

    Args:
        y: Arrays `(rows,)`: `start_logits`, `end_logits` and `answerability`.
        num_starts: See `SpanInputs`.

    Returns:
        The first two for the independent head. For the other all, `end_logits` as
        `(rows, 1)`: an end for the one start that is known.
    """
    if num_starts is None:
        return {name: y[name] for name in ("start_logits", "end_logits")}
    return {**y, "end_logits": y["end_logits"][:, None]}
