"""Attention of queries `(batch, length, heads, width)` over keys and values."""

import math
from collections.abc import Callable

import keras
from keras import ops

from keras_albert.types import Tensor

# Up to here an input is short; what is quicker changes somewhere above it.
_SHORT = 128


def fuses(query: Tensor, training: bool | None) -> bool:
    """Say whether to leave attention to the backend's own function.

    Args:
        query: Float tensor `(batch, length, heads, width)`.
        training: bool. Whether a backward pass will follow.

    Returns:
        `True` unless attention in the open is quicker, or the only way.
    """
    backend = keras.config.backend()
    dtype = keras.backend.standardize_dtype(query.dtype)
    if backend == "tensorflow":
        # What Keras writes out there passes over the logits four times before the
        # softmax, and this once: 4% of a training step of 4 x 512 tokens.
        return False
    is_short = query.shape[1] <= _SHORT
    if backend == "jax":
        # Its kernels are for 16 bits, but in float16 it compiles for some GPUs only. In
        # float32 a training step of 8 x 128 takes 3% less than in the open, and one of
        # 4 x 512 takes 7% more.
        return bool(dtype == "bfloat16" or (dtype == "float32" and is_short))
    # The backward pass in 16 bits: 8 x 128 tokens take 2.4 times as long as in the
    # open, 4 x 512 half as long.
    is_slow = dtype != "float32" and getattr(query, "is_cpu", False) and is_short
    return not (training and is_slow)


def attend_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    """Attend with the backend's own function.

    Args:
        query: Float tensor `(batch, length, heads, width)`.
        key: The same, of what is looked at.
        value: The same, of what is seen there.
        mask: Boolean tensor that broadcasts to `(batch, heads, length, length)`, True
            where a query may look; or `None`.

    Returns:
        Float tensor `(batch, length, heads, width)`.
    """
    if keras.config.backend() != "torch":
        return ops.dot_product_attention(query, key, value, mask=mask)
    import torch  # noqa: PLC0415  (it is the backend)

    if mask is not None:
        # Finite, so a row that is all padding gives no NaN.
        lowest = torch.finfo(query.dtype).min / 2
        mask = torch.where(mask, 0.0, lowest).to(query.dtype)
    # Keras copies all three before it, and asks for CUDA, where `torch.compile` stops.
    heads_first = (each.transpose(1, 2) for each in (query, key, value))
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(*heads_first, attn_mask=mask).transpose(1, 2)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    drop: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Attend in the open: fused kernels neither drop nor show probabilities.

    Args:
        query: Float tensor `(batch, length, heads, width)`.
        key: The same, of what is looked at.
        value: The same, of what is seen there.
        mask: As for `attend_fused`.
        drop: Callable of the probabilities; what of them is kept.

    Returns:
        Float tensor `(batch, length, heads, width)`, and the probabilities
        `(batch, heads, length, length)`, which are float32.
    """
    # Of queries and masks there are fewer than of logits, and a sum has no work to do
    # in the backward pass.
    scaled = query * (1 / math.sqrt(query.shape[-1]))
    logits = ops.cast(ops.einsum("bthd,bshd->bhts", scaled, key), "float32")
    if mask is not None:
        # Finite, as above.
        logits = logits + ops.where(mask, 0.0, -1e30)
    scores = ops.softmax(logits, axis=-1)
    kept = ops.cast(drop(scores), value.dtype)
    return ops.einsum("bhts,bshd->bthd", kept, value), scores
