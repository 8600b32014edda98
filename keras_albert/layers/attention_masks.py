"""Attention masks."""

from keras import ops

from keras_albert.types import Tensor


def merge_masks(
    padding_mask: Tensor | None, attention_mask: Tensor | None
) -> Tensor | None:
    """Merge both masks into one for all layers.

    Args:
        padding_mask: Integer or boolean tensor `(batch, length)`, zero at padding; or
            `None`.
        attention_mask: Integer or boolean tensor `(batch, length, length)` or
            `(batch, heads or 1, length, length)`; or `None`.

    Returns:
        A boolean tensor that broadcasts to `(batch, heads, length, length)`; `None`
        if nothing is masked.
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
