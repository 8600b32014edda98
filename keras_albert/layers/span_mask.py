"""The mask of the positions where an answer may begin or end."""

from keras import ops

from keras_albert.types import Tensor

# The logit of a masked position, as in the reference.
MASKED_LOGIT = -1e30


def span_mask(segment_ids: Tensor, padding_mask: Tensor) -> Tensor:
    """Mark the positions that may begin or end an answer.

    A row is `[CLS] question [SEP] context [SEP]`. The positions are those of the
    context and `[CLS]`, which means "no answer here".

    Args:
        segment_ids: Integer tensor `(batch, length)`, 1 in the context.
        padding_mask: Integer tensor `(batch, length)`, 0 at padding.

    Returns:
        Boolean tensor `(batch, length)`.

    Example:
        >>> import numpy as np
        >>> segments = np.array([[0, 0, 0, 1, 1, 1, 0]])
        >>> mask = span_mask(segments, np.array([[1, 1, 1, 1, 1, 1, 0]]))
        >>> ops.convert_to_numpy(mask).astype(int).tolist()
        [[1, 0, 0, 1, 1, 0, 0]]
    """
    # The last token of a row is its second [SEP], followed by padding or nothing.
    follows = ops.pad(ops.cast(padding_mask, "int32")[:, 1:], [[0, 0], [0, 1]])
    in_context = ops.logical_and(ops.equal(segment_ids, 1), ops.equal(follows, 1))
    ones = ops.ones_like(segment_ids)
    is_first = ops.equal(ops.cumsum(ones, axis=1), 1)
    return ops.logical_or(in_context, is_first)


def mask_logits(logits: Tensor, mask: Tensor) -> Tensor:
    """Set the logits of masked positions to `MASKED_LOGIT`.

    Args:
        logits: float32 tensor.
        mask: Boolean tensor that broadcasts to the shape of `logits`.

    Returns:
        The logits, `MASKED_LOGIT` where `mask` is False.
    """
    return ops.where(mask, logits, MASKED_LOGIT)
