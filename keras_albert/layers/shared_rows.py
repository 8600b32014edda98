"""Texts that share rows, so that a batch of one shape has little padding."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from keras import ops

from keras_albert.types import Tensor

# Inputs of a batch whose texts share rows, beside its ids.
ROW_TOKENS = "row_tokens"
TOKEN_PLACES = "token_places"  # noqa: S105  (no password)


@dataclass(frozen=True)
class SharedRows:
    """Where each token of a batch stands in rows that texts share.

    From the embedding to the end of the encoder a batch has these rows, without the
    padding of its texts. Texts sharing a row do not attend to each other, and the
    positions of each start at 0. Known as sequence packing. `row_tokens` `(rows,
    width)` index the flattened ids, -1 for none; `token_places` `(texts, length)` index
    the flattened rows, 0 for padding.

    Source: [Krell et al., 2021](https://arxiv.org/abs/2107.02027).
    """

    row_tokens: Tensor
    token_places: Tensor

    def join(self, ids: Tensor) -> Tensor:
        """Return ids `(texts, length)` as rows `(rows, width)`."""
        tokens = ops.maximum(self.row_tokens, 0)
        return ops.take(ops.reshape(ids, (-1,)), tokens, axis=0)

    def split(self, x: Tensor) -> Tensor:
        """Return vectors of rows `(rows, width, dim)` as `(texts, length, dim)`."""
        return _take_places(x, self.token_places)

    def first(self, x: Tensor) -> Tensor:
        """Return vectors of the texts' first tokens, `(texts, dim)`.

        This is `split(x)[:, 0]` without the vectors of all other tokens, which no
        compiler leaves out.
        """
        return _take_places(x, self.token_places[:, 0])

    def positions(self) -> Tensor:
        """Return the position of each token in its text, `(rows, width)`."""
        return ops.mod(ops.maximum(self.row_tokens, 0), self._length())

    def attention_mask(self) -> Tensor:
        """Return which tokens are of one text, `(rows, width, width)`."""
        texts = ops.floor_divide(self.row_tokens, self._length())
        return ops.equal(texts[:, :, None], texts[:, None, :])

    def _length(self) -> Any:
        return ops.shape(self.token_places)[1]


def _take_places(x: Tensor, places: Tensor) -> Tensor:
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), places, axis=0)


_current: ContextVar[SharedRows | None] = ContextVar("shared_rows", default=None)


def current_rows() -> SharedRows | None:
    """Return the rows of the batch that runs, `None` if each text has its own."""
    return _current.get()


@contextmanager
def sharing_rows(batch: Any) -> Iterator[Any]:
    """Let the texts of a batch share rows within the block.

    Yields the batch without `row_tokens` and `token_places`.
    """
    x = batch[0] if isinstance(batch, tuple | list) else batch
    if not isinstance(x, dict) or ROW_TOKENS not in x:
        yield batch
        return
    token = _current.set(SharedRows(x[ROW_TOKENS], x[TOKEN_PLACES]))
    try:
        yield without_rows(batch)
    finally:
        _current.reset(token)


def without_rows(batch: Any) -> Any:
    """Return a batch without the inputs of `SharedRows`, which no model takes."""
    if isinstance(batch, tuple | list):
        return (without_rows(batch[0]), *batch[1:])
    if not isinstance(batch, dict):
        return batch
    rows = rows_of(batch)
    return {name: ids for name, ids in batch.items() if name not in rows}


def rows_of(x: Any) -> dict[str, Any]:
    """Return the inputs of `SharedRows`, none if each text has its own row."""
    return {name: x[name] for name in (ROW_TOKENS, TOKEN_PLACES) if name in x}
