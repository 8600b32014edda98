"""Attention of queries `(batch, length, heads, width)` over keys and values."""

import math
from collections.abc import Callable

import keras
from keras import ops

from keras_albert.types import Tensor

# The longest input that counts as short; above it, another implementation is faster.
_SHORT = 128


def fuses(query: Tensor, training: bool | None) -> bool:
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
    """Compute attention with the backend's function.

    Tensors are `(batch, length, heads, width)`; `mask` is True where a query may attend
    to a key.
    """
    if keras.config.backend() != "torch":
        return ops.dot_product_attention(query, key, value, mask=mask)
    import torch  # noqa: PLC0415  (it is the backend)

    if mask is not None:
        # Finite, so that a row of padding only yields no NaN, also in float32, in which
        # `where` reads the number.
        lowest = max(torch.finfo(query.dtype).min / 2, -1e30)
        mask = torch.where(mask, 0.0, lowest).to(query.dtype)
    # Keras would copy all three first, and check for CUDA, which stops `torch.compile`.
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
    """Compute explicit attention, with dropout and attention probabilities.

    Fused kernels support neither. Probabilities are float32, `(batch, heads, length,
    length)`; see `attend_fused`.
    """
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
    """Merge both masks into one for all layers.

    Masks are `(batch, length)` and `(batch, [heads,] length, length)`; the result
    broadcasts to the latter, or is `None` if nothing is masked.
    """
    masks = []
    if padding_mask is not None:
        mask = ops.cast(padding_mask, "bool")
        masks.append(ops.expand_dims(mask, (1, 2)))
    if attention_mask is not None:
        mask = ops.cast(attention_mask, "bool")
        masks.append(ops.expand_dims(mask, 1) if len(mask.shape) == 3 else mask)
    if len(masks) == 2:
        return ops.logical_and(*masks)
    return masks[0] if masks else None
