"""Tokenizer methods with the names and results of transformers."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from keras_albert.text.tokenizer.vocabulary_file import write_vocabulary

__all__ = ["TransformersCalls"]


class TransformersCalls:
    """Mixin with four methods of transformers' ALBERT tokenizer.

    Example:
        >>> class Tokenizer(TransformersCalls):
        ...     cls_token_id, sep_token_id = 2, 3
        >>> Tokenizer().build_inputs_with_special_tokens([7, 8], [9])
        [2, 7, 8, 3, 9, 3]
    """

    # Attributes of the tokenizer.
    cls_token_id: int
    sep_token_id: int
    special_token_ids: list[int]
    proto: Any
    vocabulary_size: Callable[[], int]

    def build_inputs_with_special_tokens(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Add the special tokens to one sequence or a pair, as in transformers.

        Args:
            token_ids_0: The first sequence.
            token_ids_1: The second sequence of a pair. Defaults to `None`.

        Returns:
            `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`.
        """
        ids = [self.cls_token_id, *token_ids_0, self.sep_token_id]
        return ids if token_ids_1 is None else [*ids, *token_ids_1, self.sep_token_id]

    def get_special_tokens_mask(
        self,
        token_ids_0: Sequence[int],
        token_ids_1: Sequence[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """Mark the special tokens of a sequence or a pair, as in transformers.

        Args:
            token_ids_0: The first sequence.
            token_ids_1: The second sequence of a pair. Defaults to `None`.
            already_has_special_tokens: bool. Whether `token_ids_0` is a complete row
                with special tokens. Defaults to `False`, which marks those that
                `build_inputs_with_special_tokens` adds.

        Returns:
            1 for each special token, including `<unk>`, and 0 for other tokens.

        Raises:
            ValueError: If a second sequence is passed with a complete row.
        """
        if not already_has_special_tokens:
            mask = [1, *([0] * len(token_ids_0)), 1]
            return mask if token_ids_1 is None else [*mask, *[0] * len(token_ids_1), 1]
        if token_ids_1 is not None:
            raise ValueError(
                "With `already_has_special_tokens=True`, `token_ids_0` is the finished "
                f"row. Received: {len(token_ids_1)} ids in `token_ids_1` as well. "
                "Pass the whole row as `token_ids_0`."
            )
        special = set(self.special_token_ids)
        return [int(token_id in special) for token_id in token_ids_0]

    def create_token_type_ids_from_sequences(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Return the segment ids of a sequence or a pair, as in transformers.

        Args:
            token_ids_0: The first sequence.
            token_ids_1: The second sequence of a pair. Defaults to `None`.

        Returns:
            0 for `[CLS] first [SEP]`, 1 for `second [SEP]`.
        """
        first = [0] * (len(token_ids_0) + 2)
        return first if token_ids_1 is None else [*first, *[1] * (len(token_ids_1) + 1)]

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str]:
        """Write the vocabulary to `spiece.model`, as in transformers.

        Args:
            save_directory: The directory, which is created if it is missing.
            filename_prefix: str. Prefix of the file name, followed by a dash. Defaults
                to `None`.

        Returns:
            The path of the file, in a tuple.
        """
        self.vocabulary_size()  # raises an error if there is no vocabulary
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        path = os.path.join(save_directory, f"{prefix}spiece.model")
        return (write_vocabulary(path, self.proto),)
