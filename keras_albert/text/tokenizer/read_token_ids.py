"""Reads token ids from lists, arrays and tensors into lists of `int`."""

from typing import Any

from keras_albert.text.tokenizer.token_rows import TokenRows

__all__ = ["to_id_rows"]


def to_id_rows(inputs: Any, vocabulary_size: int) -> tuple[list[list[int]], bool]:
    """Read the ids of one text or many texts into lists of `int`.

    Args:
        inputs: An id, a list of ids, a list of lists or arrays of them, an array
            or tensor of rank 0 to 2, a ragged TensorFlow tensor, or `TokenRows`.
        vocabulary_size: int. Every id must be below it.

    Returns:
        The rows, and whether there was a batch axis (`False` for one text).

    Raises:
        ValueError: If `inputs` are not ids, or an id is not in the vocabulary.

    Example:
        >>> import numpy as np
        >>> to_id_rows(np.array([2, 5, 3]), 10)
        ([[2, 5, 3]], False)
    """
    if isinstance(inputs, TokenRows):
        rows, batched = inputs.to_lists(), True
    else:
        values = _to_python(inputs)
        batched = isinstance(values, list) and any(isinstance(v, list) for v in values)
        rows = values if batched else [values if isinstance(values, list) else [values]]
    for index, row in enumerate(rows):
        # An id among lists is not a row; the message shows it.
        for token_id in row if isinstance(row, list) else [[row]]:
            if not isinstance(token_id, int) or not 0 <= token_id < vocabulary_size:
                raise ValueError(
                    f"row {index} of the ids holds {token_id!r}; ids of this "
                    f"vocabulary are whole numbers from 0 to {vocabulary_size - 1}, in "
                    "one list or a list of lists. Take a model's ids with argmax, and "
                    "leave out labels such as -100."
                )
    return rows, batched


def _to_python(inputs: Any) -> Any:
    """Convert arrays and tensors, also inside lists, to lists and `int`."""
    if isinstance(inputs, list | tuple):
        return [_to_python(item) for item in inputs]
    if hasattr(inputs, "to_list"):  # a ragged TensorFlow tensor
        return inputs.to_list()
    if hasattr(inputs, "tolist"):  # NumPy, JAX, PyTorch
        return inputs.tolist()
    if hasattr(inputs, "numpy"):  # TensorFlow, a Keras variable
        return inputs.numpy().tolist()
    return inputs
