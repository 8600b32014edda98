"""Attention of queries `(batch, length, heads, width)` over keys and values.

Texts may share the rows of a batch, so that one of fixed shape has little padding.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor

# The longest input that counts as short; above it, another implementation is faster.
_SHORT = 128


def use_fused_attention(query: Tensor, training: bool | None) -> bool:
    """Return whether to use the backend's fused attention."""
    backend = keras.config.backend()
    dtype = keras.backend.standardize_dtype(query.dtype)
    if backend == "tensorflow":
        # Keras' implementation passes over the logits four times before the softmax,
        # `attend` once: 4% of a training step of 4 x 512 tokens.
        return False
    is_short = query.shape[1] <= _SHORT
    if backend == "jax":
        # JAX's kernels are for 16 bits, but float16 compiles for some GPUs only. In
        # float32 a training step of 8 x 128 takes 3% less time than with explicit
        # attention, and one of 4 x 512 takes 7% more.
        return bool(dtype == "bfloat16" or (dtype == "float32" and is_short))
    # The fused backward pass in 16 bits takes 2.4 times as long as the explicit one
    # for 8 x 128 tokens, half as long for 4 x 512.
    is_slow = dtype != "float32" and getattr(query, "is_cpu", False) and is_short
    return not (training and is_slow)


def attend_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Attend by the backend's function; `mask` is True where a query may look."""
    if keras.config.backend() != "torch":
        if mask is not None:
            # cuDNN's kernel, which JAX uses on GPUs, refuses a mask for all queries.
            lengths = ops.shape(query)[1], ops.shape(key)[1]
            mask = ops.broadcast_to(mask, (*ops.shape(mask)[:2], *lengths))
        return ops.dot_product_attention(query, key, value, mask=mask)
    import torch  # noqa: PLC0415  (it is the backend)

    if mask is not None:
        mask = added_mask(mask, query.dtype)
    # Keras would copy all three first, and check for CUDA, which stops `torch.compile`.
    heads_first = (each.transpose(1, 2) for each in (query, key, value))
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(*heads_first, attn_mask=mask).transpose(1, 2)


def added_mask(mask: Any, dtype: Any) -> Tensor:
    """Return what PyTorch adds to the logits of a dtype, 0 where `mask` is True."""
    import torch  # noqa: PLC0415  (it is the backend)

    # Finite, so that a row of padding only yields no NaN, also in float32, in which
    # `where` reads the number.
    lowest = max(torch.finfo(dtype).min / 2, -1e30)
    return torch.where(mask, 0.0, lowest).to(dtype)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    drop: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Attend explicitly, with dropout; also return float32 probabilities."""
    # Queries and masks are smaller than logits, so scaling and masking start there;
    # a sum costs nothing in the backward pass.
    scaled = query * (1 / math.sqrt(query.shape[-1]))
    logits = ops.cast(ops.einsum("bthd,bshd->bhts", scaled, key), "float32")
    if mask is not None:
        # Finite, as above.
        logits = logits + ops.where(mask, 0.0, -1e30)
    scores = ops.softmax(logits, axis=-1)
    kept = ops.cast(drop(scores), value.dtype)
    return ops.einsum("bhts,bshd->bthd", kept, value), scores


def merge_masks(
    padding_mask: Tensor | None, attention_mask: Tensor | None
) -> Tensor | None:
    """Merge both masks into one for all layers, `None` if nothing is masked."""
    mask = None
    if padding_mask is not None:
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), (1, 2))
    if attention_mask is None:
        return mask
    other = ops.cast(attention_mask, "bool")
    other = ops.expand_dims(other, 1) if len(other.shape) == 3 else other
    return other if mask is None else ops.logical_and(mask, other)


# Inputs of a batch whose texts share rows, in addition to its ids.
ROW_TOKENS = "row_tokens"
TOKEN_PLACES = "token_places"  # noqa: S105  (no password)


@dataclass(frozen=True)
class PackedRows:
    """Where each token of a batch stands in rows that texts share in the encoder."""

    # Texts do not attend to each other, and the positions of each start at 0.
    # `row_tokens` `(rows, width)` index the flattened ids, -1 for none; `token_places`
    # `(texts, length)` index the flattened rows, 0 for padding. Source: [Krell et al.,
    # 2021](https://arxiv.org/abs/2107.02027).

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
        """Return `split(x)[:, 0]`; no compiler would leave out the other vectors."""
        return _take_places(x, self.token_places[:, 0])

    def positions(self) -> Tensor:
        """Return the position of each token in its text, `(rows, width)`."""
        return ops.mod(ops.maximum(self.row_tokens, 0), self._length())

    def attention_mask(self) -> Tensor:
        """Return the block-diagonal attention mask, `(rows, width, width)`."""
        texts = ops.floor_divide(self.row_tokens, self._length())
        return ops.equal(texts[:, :, None], texts[:, None, :])

    def _length(self) -> Any:
        return ops.shape(self.token_places)[1]


def _take_places(x: Tensor, places: Tensor) -> Tensor:
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), places, axis=0)


def packed_rows(inputs: Any) -> PackedRows | None:
    """Return the rows that the texts of a batch share, `None` if each has its own."""
    if not isinstance(inputs, Mapping) or ROW_TOKENS not in inputs:
        return None
    return PackedRows(inputs[ROW_TOKENS], inputs[TOKEN_PLACES])


def packing_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of `PackedRows`, none if each text has its own row."""
    return {name: inputs[name] for name in (ROW_TOKENS, TOKEN_PLACES) if name in inputs}
