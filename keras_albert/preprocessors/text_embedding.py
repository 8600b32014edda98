"""Preprocessor of the text embedder."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text.packing import EncodedTexts, LabelledTexts
from keras_albert.text.reading import TextBatch, text_columns
from keras_albert.types import FloatArray, Int64Array, Lengths, Texts


class SeparateTexts:
    """Examples of one or several texts, packed as separate rows."""

    def __init__(self, columns: tuple[EncodedTexts, ...]) -> None:
        self.columns = columns
        # Arrays with an entry for each example, which a task adds.
        self.extra: dict[str, FloatArray] = {}
        self.text_lengths: Int64Array = np.stack([c.lengths for c in columns], axis=1)
        self.lengths: Int64Array = self.text_lengths.max(axis=1)

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, Any]:
        """Pack examples; several texts are `(batch, texts, length)`."""
        packed = [column.pack(indices, length) for column in self.columns]
        if len(packed) == 1:
            return packed[0]
        stacked: dict[str, Any] = {
            name: np.stack([texts[name] for texts in packed], axis=1)
            for name in packed[0]
        }
        return stacked | {name: array[indices] for name, array in self.extra.items()}


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedderPreprocessor(
    AlbertPreprocessor, keras_hub.models.TextEmbedderPreprocessor
):
    """Tokenize texts and pack each as `[CLS] text [SEP]`.

    The texts of an example on which an embedder is trained, two or more, are packed as
    separate rows and do not attend to each other.

    Args:
        {shared}
        prompts: dict or `None`. What `embed` puts before texts of a kind, by its name:
            `{"query": "query: "}`. Defaults to `None`.
        default_prompt: string or `None`. The name of the prompt that `embed` uses if
            it is given none. Exports read texts with their prompts. Defaults to
            `None`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a token, a bucket is not a valid
            length, or `default_prompt` is not one of the `prompts`.

    Example:
        >>> from keras_albert import AlbertTextEmbedderPreprocessor
        >>> preprocessor = AlbertTextEmbedderPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> preprocessor(["the fox", "the dog", "a fox"])["token_ids"].shape
        (3, 16)
        >>> pairs = (["the fox", "the dog", "a fox"], ["fox", "dog", "the fox"])
        >>> preprocessor(pairs)["token_ids"].shape
        (3, 2, 16)
    """

    @staticmethod
    def read_input(texts: Any) -> tuple[tuple[list[str], ...], bool]:
        """Read a text, a list of texts or tuples, or a tuple of columns."""
        return text_columns(texts, max_columns=None)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        pack_sequences: bool = False,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        **kwargs: Any,
    ) -> None:
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.prompts = dict(prompts or {})
        self.default_prompt = default_prompt
        self._prompt(default_prompt)

    def _prompt(self, name: str | None) -> str:
        """Return the text of a prompt; of none, the empty text."""
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(map(repr, self.prompts)) or "none"
            msg = f"There is no prompt {name!r}. The preprocessor's prompts: {known}."
            raise ValueError(msg)
        return self.prompts[name]

    def with_prompt(self, x: Any, name: str | None = None) -> TextBatch:
        """Return the columns of input with a prompt before each text."""
        prompt = self._prompt(self.default_prompt if name is None else name)
        columns, batched = self.columns(x)
        if prompt:
            columns = tuple([prompt + text for text in column] for column in columns)
        return TextBatch(columns, batched)

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize texts or examples; the targets are similarities, one per pair."""
        columns, batched = self.columns(x)
        if y is not None and len(columns) == 1:
            raise ValueError(
                "A similarity compares two texts, but `x` has one per row. Pass pairs "
                "as one argument, `x=(first, second)`."
            )
        texts = SeparateTexts(
            tuple(
                EncodedTexts((rows,), self.special_ids, self.max_length)
                for rows in self.tokenize_columns(columns)
            )
        )
        return LabelledTexts(texts, y, sample_weight), batched
