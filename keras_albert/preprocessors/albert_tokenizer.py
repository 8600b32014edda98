"""The tokenizer: a SentencePiece or WordPiece vocabulary with its text rules."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import keras
import keras_hub
import numpy as np

from keras_albert.backbone import AlbertBackbone
from keras_albert.presets.checkpoint import Checkpoint
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.text.packing import TokenRows, to_id_rows
from keras_albert.text.reading import is_in_graph, to_text_rows
from keras_albert.text.tokenizer import vocabularies
from keras_albert.text.tokenizer.text_rules import TextRules
from keras_albert.text.tokenizer.word_piece import ROLES, WordPieceRules
from keras_albert.utils.arguments import (
    MAX_TOKENS,
    check_at_least,
    check_at_most,
    check_kwargs,
    check_positive,
)
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.environment import check_packages
from keras_albert.utils.keras_internals import set_special_tokens

# The special tokens by the names of transformers and of KerasHub.
_SPECIAL_TOKENS = {role: role for role in ROLES}
_SPECIAL_TOKENS |= {"start_token": "cls_token", "end_token": "sep_token"}


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenizer(PresetMixin, keras_hub.tokenizers.Tokenizer):
    """Tokenizer that converts texts to token ids and back.

    It returns the same ids in Python, without TensorFlow, and in a `tf.data` pipeline
    or any other TensorFlow graph. Pass raw text: the vocabulary contains the text
    rules (see `TextRules`), so do not lowercase or clean it first. Special tokens
    written in a text, such as `[SEP]`, are tokenized as ordinary text.

    Args:
        proto: The vocabulary: path to a SentencePiece model, or its bytes, or its bytes
            as a base64 str; or a WordPiece, BERT's kind: path to a `vocab.txt` or a
            `tokenizer.json`, or the list of pieces. Defaults to `None`; call
            `set_proto` to set it later. `from_preset` reads a directory, in which other
            files may contain rules and special tokens.
        text_rules: `"auto"`, `"keep"`, `TextRules` for SentencePiece or
            `WordPieceRules` for WordPiece. `"auto"` adds ALBERT's rules to the released
            uncased SentencePiece models, and does not change one that is cased or has
            rules; a `vocab.txt` is lowercase if it has no capitals. `"keep"` never
            changes a SentencePiece model. Defaults to `"auto"`.
        sequence_length: int or `None`. The length of rows that `tokenize` returns. In a
            preprocessor, each text is truncated to it, but not padded. Defaults to
            `None`.
        dtype: string. An integer type, or `"string"` for pieces instead of ids.
            Defaults to `"int32"`.
        **kwargs: `name` and other arguments of a Keras layer.

    Raises:
        ValueError: If `proto` is not a vocabulary, special tokens are missing or, in
            a SentencePiece model, do not have ALBERT's ids (`<pad>` 0, `<unk>` 1,
            `[CLS]` 2, `[SEP]` 3, `[MASK]` 4), or it contains text rules other than
            `text_rules`.

    References:
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942)
        - [Kudo and Richardson, 2018](https://arxiv.org/abs/1808.06226)

    Example:
        >>> from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
        >>> proto = train_vocabulary(["Crème brûlée, in 2011."] * 9, vocabulary_size=27)
        >>> tokenizer = AlbertTokenizer(proto)
        >>> tokenizer.detokenize(tokenizer("CRÈME Brûlée"))
        'creme brulee'
        >>> tokenizer.cls_token_id, tokenizer.mask_token
        (2, '[MASK]')
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "caf", "##e", "!"]
        >>> AlbertTokenizer(pieces)("Café!")
        array([5, 6, 7], dtype=int32)
    """

    backbone_cls = AlbertBackbone

    def __init__(
        self,
        proto: vocabularies.VocabularySource | None = None,
        text_rules: (
            Literal["auto", "keep"] | TextRules | WordPieceRules | Mapping[str, Any]
        ) = "auto",
        sequence_length: int | None = None,
        dtype: Any = "int32",
        **kwargs: Any,
    ) -> None:
        ends = [kwargs.pop(name, False) for name in ("add_bos", "add_eos")]
        check_kwargs(type(self), kwargs)
        if any(ends):
            raise ValueError(
                "ALBERT's vocabularies have no begin- and end-of-sentence tokens. "
                "Leave out `add_bos` and `add_eos`; preprocessors add [CLS] and [SEP]."
            )
        if sequence_length is not None:
            check_positive(sequence_length=sequence_length)
            check_at_most(MAX_TOKENS, sequence_length=sequence_length)
        self._text_rules = vocabularies.read_any_rules(text_rules)
        super().__init__(dtype=dtype, **kwargs)
        kind = keras.backend.standardize_dtype(self.compute_dtype)
        if kind != "string" and "int" not in kind:
            raise ValueError(
                "`dtype` must be an integer type, for ids, or 'string', for pieces. "
                f"Received: dtype={dtype!r}"
            )
        self.sequence_length = sequence_length
        self.proto: Any = None  # bytes, once there is a vocabulary
        self.file_assets = [vocabularies.asset_of(self._text_rules)]
        self.set_proto(proto)
        self.built = True  # there is nothing to build; see `AlbertPreprocessor`

    @classmethod
    def _from_checkpoint(
        cls, checkpoint: Checkpoint, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        return checkpoint.load_tokenizer(cls, **kwargs)

    def set_proto(self, proto: vocabularies.VocabularySource | None) -> None:
        """Set the vocabulary, as in the constructor."""
        if proto is not None:
            proto = vocabularies.read_any_vocabulary(proto, self._text_rules)
            self.file_assets = [vocabularies.open_vocabulary(proto).asset]
        self.proto = proto
        tokens = vocabularies.special_tokens_of(self._text_rules)
        if proto is not None:
            tokens = self.vocabulary.special_tokens
        names = {name: tokens[role] for name, role in _SPECIAL_TOKENS.items()}
        set_special_tokens(self, names)

    @property
    def vocabulary(self) -> vocabularies.Vocabulary:
        """The pieces, and the algorithm that finds them in texts.

        Raises:
            ValueError: If no vocabulary is set.
        """
        if self.proto is None:
            raise ValueError("No vocabulary has been set. Call `set_proto`.")
        return vocabularies.open_vocabulary(self.proto)

    def vocabulary_size(self) -> int:
        """Return the number of pieces.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_small_en_uncased")
            >>> tokenizer.vocabulary_size()
            30522
        """
        return len(self.vocabulary.pieces)

    def get_vocabulary(self) -> list[str]:
        """Return the pieces, in the order of their ids.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_small_en_uncased")
            >>> tokenizer.get_vocabulary()[2073]
            'where'
        """
        return list(self.vocabulary.pieces)

    def id_to_token(self, id: int) -> str:  # noqa: A002  (KerasHub's name)
        """Return the piece of an id; raise if it is not in the vocabulary.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_small_en_uncased")
            >>> tokenizer.id_to_token(2073)
            'where'
        """
        check_at_least(0, id=id)
        return self.vocabulary.pieces[id]

    def token_to_id(self, token: str | bytes) -> int:
        """Return the id of a piece, or of the unknown token if there is none.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_small_en_uncased")
            >>> tokenizer.token_to_id("where")
            2073
        """
        text = token.decode() if isinstance(token, bytes) else token
        vocabulary = self.vocabulary
        return vocabulary.ids.get(text, vocabulary.unknown_id)

    def save_assets(self, dir_path: str) -> None:
        """Write the vocabulary of a preset or a `.keras` file to a directory."""
        Path(dir_path, self.vocabulary.asset).write_bytes(self.vocabulary.contents())

    def load_assets(self, dir_path: str) -> None:
        """Load the vocabulary of a preset or a `.keras` file."""
        self.set_proto(os.path.join(dir_path, self.file_assets[0]))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments, without the vocabulary (an asset)."""
        config: dict[str, Any] = super().get_config()
        return config | {
            "proto": None,
            "sequence_length": self.sequence_length,
            "text_rules": vocabularies.rules_in_config(self._text_rules, self.proto),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AlbertTokenizer":
        """Create a tokenizer from the result of `get_config`, with no path in it."""
        # An untrusted one could point to any file of this machine.
        proto = config.get("proto")
        if isinstance(proto, str | os.PathLike) and os.path.exists(proto):
            raise ValueError(
                "A config may not point to a vocabulary on this machine. Received: "
                f"proto={os.fspath(proto)!r}. If you trust it, call "
                "`tokenizer.set_proto(path)`."
            )
        return super().from_config(config)

    def tokenize(self, inputs: Any) -> Any:
        """Tokenize texts into ids.

        Args:
            inputs: One text or a batch, in any form that `to_text_rows` reads; in a
                TensorFlow graph, a string tensor of rank 0 or 1.

        Returns:
            As KerasHub's tokenizers: an int32 array for one text, a list of lists for
            a batch, or one dense array with `sequence_length`; in a graph, a (ragged)
            tensor.

        Raises:
            ValueError: If a row is missing, is not a text, or is not UTF-8; or no
                vocabulary is set.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_small_en_uncased")
            >>> tokenizer.tokenize("where is it?").tolist()
            [2073, 2003, 2009, 1029]
        """
        if is_in_graph():
            graph, tokenizer = self._graph()
            length, padding = self.sequence_length, self.pad_token_id
            return graph.tokenize_in_graph(tokenizer, inputs, length, padding)
        rows, batched = to_text_rows(inputs)
        vocabulary, length = self.vocabulary, self.sequence_length
        returns_pieces = self.compute_dtype == "string"
        found: list[list[Any]]
        if returns_pieces:
            found, fill = vocabulary.encode_pieces(rows), self.pad_token
        else:
            found = [row.tolist() for row in vocabulary.encode(rows)]
            fill = self.pad_token_id
        if length is not None:
            found = [row[:length] + [fill] * (length - len(row)) for row in found]
        result: Any = found if batched else found[0]
        is_array = not returns_pieces and (length is not None or not batched)
        return np.array(result, self.compute_dtype) if is_array else result

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Tokenize texts; see `tokenize`."""
        return self.tokenize(inputs)

    def tokenize_rows(
        self, texts: Any, num_threads: int = -1, checked: bool = False
    ) -> Any:
        """Tokenize many texts for a preprocessor, without padding.

        In Python this is the fastest method.

        Args:
            texts: The texts; see `to_text_rows`. In a TensorFlow graph, a string
                tensor of rank 1.
            num_threads: int. The number of threads. Defaults to `-1`, one per
                processor.
            checked: bool. Whether the texts are a list of `str` that `to_text_rows`
                has checked. Defaults to `False`.

        Returns:
            The ids of all rows, at most `sequence_length` per row, as `TokenRows`; in
            a graph, as a `tf.RaggedTensor`.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
            >>> len(tokenizer.tokenize_rows(["a fine film", "so boring"]))
            2
        """
        if is_in_graph():
            ids = self._graph()[1].tokenize(texts)
            return ids[:, : self.sequence_length]
        rows = texts if checked else to_text_rows(texts)[0]
        ids = self.vocabulary.encode(rows, num_threads)
        if self.sequence_length is not None:
            ids = [row[: self.sequence_length] for row in ids]
        return TokenRows.from_arrays(ids)

    def tokenize_with_offsets(
        self, inputs: Any, checked: bool = False
    ) -> tuple[Any, Any, Any]:
        """Tokenize texts into ids and the character offsets of each piece.

        `text[start:end]` is the part of the original text that a piece was made from,
        without the whitespace before it. It is empty for a piece of whitespace alone,
        and for all but the last of several pieces of one character.

        Args:
            inputs: See `tokenize`.
            checked: bool. See `tokenize_rows`. Defaults to `False`.

        Returns:
            `(token_ids, starts, ends)`: int32 arrays for one text, lists of arrays for
            a batch, (ragged) int32 tensors in a TensorFlow graph. Offsets count
            characters.

        Example:
            >>> from keras_albert.text import train_vocabulary
            >>> proto = train_vocabulary(["a naïve café"] * 9, vocabulary_size=22)
            >>> text = "  A Café"
            >>> _, starts, ends = AlbertTokenizer(proto).tokenize_with_offsets(text)
            >>> text[starts[0]:ends[-1]]
            'A Café'
        """
        if is_in_graph():
            graph, tokenizer = self._graph()
            texts = graph.check_utf8(inputs)
            return graph.graph_tokens_with_offsets(tokenizer, texts)
        rows, batched = (inputs, True) if checked else to_text_rows(inputs)
        found = self.vocabulary.encode_with_offsets(rows)
        if not batched:
            return found[0]
        ids, starts, ends = ([row[part] for row in found] for part in range(3))
        return ids, starts, ends

    def detokenize(self, inputs: Any) -> Any:
        """Convert ids to texts, without special tokens other than `<unk>`.

        Args:
            inputs: The ids of one text or a batch: int, lists, arrays, tensors, a
                ragged tensor, or `TokenRows`.

        Returns:
            A str for one text, a list of str for a batch; in a TensorFlow graph, a
            string tensor.

        Raises:
            ValueError: If an id is not in the vocabulary.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_small_en_uncased")
            >>> tokenizer.detokenize([2073, 2003, 2009, 1029])
            'where is it?'
        """
        if is_in_graph():
            graph, tokenizer = self._graph()
            return graph.detokenize_in_graph(tokenizer, inputs)
        rows, batched = to_id_rows(inputs, self.vocabulary_size())
        texts = self.vocabulary.decode(rows)
        return texts if batched else texts[0]

    def build_inputs_with_special_tokens(
        self, token_ids_0: Sequence[int], token_ids_1: Sequence[int] | None = None
    ) -> list[int]:
        """Add the special tokens to one sequence or a pair, as in transformers.

        Args:
            token_ids_0: The first sequence.
            token_ids_1: The second sequence of a pair. Defaults to `None`.

        Returns:
            `[CLS] first [SEP]`, or `[CLS] first [SEP] second [SEP]`.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
            >>> tokenizer.build_inputs_with_special_tokens([30, 31], [32])
            [2, 30, 31, 3, 32, 3]
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

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
            >>> tokenizer.get_special_tokens_mask([30, 31], [32])
            [1, 0, 0, 1, 0, 1]
        """
        if not already_has_special_tokens:
            mask = [1, *([0] * len(token_ids_0)), 1]
            return mask if token_ids_1 is None else [*mask, *[0] * len(token_ids_1), 1]
        if token_ids_1 is not None:
            raise ValueError(
                "With `already_has_special_tokens=True`, pass the whole row as "
                "`token_ids_0`, and no `token_ids_1`."
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

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
            >>> tokenizer.create_token_type_ids_from_sequences([30, 31], [32])
            [0, 0, 0, 0, 1, 1]
        """
        first = [0] * (len(token_ids_0) + 2)
        return first if token_ids_1 is None else [*first, *[1] * (len(token_ids_1) + 1)]

    def save_vocabulary(
        self, save_directory: str | os.PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str]:
        """Write the vocabulary to `spiece.model` or `vocab.txt`, as in transformers.

        Args:
            save_directory: The directory, which is created if it is missing.
            filename_prefix: str. Prefix of the file name, followed by a dash. Defaults
                to `None`.

        Returns:
            The path of the file, in a tuple.

        Example:
            >>> from keras_albert import AlbertTokenizer
            >>> tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
            >>> tokenizer.save_vocabulary(".")
            ('./spiece.model',)
        """
        vocabulary = self.vocabulary
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        path = os.path.join(save_directory, f"{prefix}{vocabulary.file_name}")
        with atomic_file(path) as partial:
            partial.write_bytes(vocabulary.contents())
        return (path,)

    def _graph(self) -> tuple[Any, Any]:
        """Return a tokenizer inside the current graph: TensorFlow clears kernels."""
        check_packages(
            *("A tokenizer in a TensorFlow graph", "keras-albert[tensorflow]"),
            *("tensorflow", "tensorflow_text"),
        )
        from keras_albert.preprocessors import in_graph  # noqa: PLC0415

        return in_graph, in_graph.graph_tokenizer(self.vocabulary, self.compute_dtype)
