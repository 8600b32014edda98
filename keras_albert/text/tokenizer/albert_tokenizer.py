"""ALBERT's tokenizer: SentencePiece with the text rules in the vocabulary."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

import keras
import keras_hub
import numpy as np

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.presets.checkpoint_formats import CheckpointFormat
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.text.inputs.read_text_columns import check_graph_text
from keras_albert.text.inputs.read_texts import to_text_rows
from keras_albert.text.tokenizer.characters import (
    graph_tokens_with_offsets,
    trim_blanks,
)
from keras_albert.text.tokenizer.text_rules import (
    TextRules,
    add_text_rules,
    default_text_rules,
    read_text_rules,
)
from keras_albert.text.tokenizer.token_rows import TokenRows, to_id_rows
from keras_albert.text.tokenizer.tokenize_in_graph import (
    detokenize_in_graph,
    is_in_graph,
    tokenize_in_graph,
)
from keras_albert.text.tokenizer.vocabulary_file import (
    check_vocabulary,
    read_vocabulary,
    sentence_piece,
    write_vocabulary,
)
from keras_albert.utils.arguments import check_positive, refuse_unknown
from keras_albert.utils.keras_internals import add_special_token
from keras_albert.utils.packages import check_packages

# Fewer are tokenized without threads.
_FEW_ROWS = 8
_FEW_CHARACTERS = 4096


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenizer(PresetMixin, keras_hub.tokenizers.SentencePieceTokenizer):
    """Tokenizer that converts texts to ALBERT's token ids and back.

    It returns the same ids in Python, without TensorFlow, and in a `tf.data` pipeline
    or any other TensorFlow graph. Pass raw text: the vocabulary contains the text
    rules (see `TextRules`), so do not lowercase or clean it first. Special tokens
    written in a text, such as `[SEP]`, are tokenized as ordinary text.

    Args:
        proto: Path to a SentencePiece model, its bytes, or its bytes as a base64 str.
            Defaults to `None`; call `set_proto` to set it later.
        text_rules: `"auto"`, `"keep"` or `TextRules`. The rules to write into the
            vocabulary. `"auto"` adds their rules to the released uncased vocabularies,
            and does not change a vocabulary that is cased or has rules already;
            `"keep"` never changes the vocabulary. Defaults to `"auto"`.
        **kwargs: `sequence_length`, `dtype` and `name` of
            `keras_hub.tokenizers.SentencePieceTokenizer`. In a preprocessor, each text
            is truncated to `sequence_length` tokens, but not padded.

    Raises:
        ValueError: If `proto` is not a SentencePiece model, its special tokens do not
            have ALBERT's ids (`<pad>` 0, `<unk>` 1, `[CLS]` 2, `[SEP]` 3, `[MASK]` 4),
            or it contains text rules other than `text_rules`.

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
    """

    backbone_cls = AlbertBackbone

    def __init__(
        self,
        proto: str | os.PathLike[str] | bytes | None = None,
        text_rules: Literal["auto", "keep"] | TextRules | Mapping[str, bool] = "auto",
        **kwargs: Any,
    ) -> None:
        refuse_unknown(type(self), kwargs)
        if kwargs.get("add_bos") or kwargs.get("add_eos"):
            raise ValueError(
                "ALBERT's vocabularies have no begin- and end-of-sentence tokens. "
                f"Received: add_bos={kwargs.get('add_bos')}, "
                f"add_eos={kwargs.get('add_eos')}. Leave both out; [CLS] and [SEP] "
                "come from a preprocessor or `build_inputs_with_special_tokens`."
            )
        if (length := kwargs.get("sequence_length")) is not None:
            check_positive(sequence_length=length)
        self._text_rules = read_text_rules(text_rules)
        for name, token in {
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "pad_token": "<pad>",
            "mask_token": "[MASK]",
            "unk_token": "<unk>",
            "start_token": "[CLS]",
            "end_token": "[SEP]",
        }.items():
            add_special_token(self, token, name)
        super().__init__(proto=proto, **kwargs)
        self.built = True  # there is nothing to build; see `AlbertPreprocessor`

    @classmethod
    def _from_checkpoint(
        cls, checkpoint_format: CheckpointFormat, directory: Path, **kwargs: Any
    ) -> Self:
        return cls(checkpoint_format.read_vocabulary(directory), **kwargs)

    def set_proto(self, proto: str | os.PathLike[str] | bytes | None) -> None:
        """Set the vocabulary: check it, and add the text rules.

        Args:
            proto: See the constructor.
        """
        if isinstance(proto, str | os.PathLike):
            proto = self._add_rules(read_vocabulary(proto))
        elif isinstance(proto, bytes):
            proto = self._add_rules(check_vocabulary(proto))
        super().set_proto(proto)

    def _set_proto_tf(self, proto: bytes) -> None:
        """Set no tokenizer: `_graph_tokenizer` creates it where it is needed."""
        self._sentence_piece: Any = None

    def load_assets(self, dir_path: str) -> None:
        """Load the vocabulary of a preset or a `.keras` file.

        Args:
            dir_path: str. The directory written by `save_assets`.
        """
        self.set_proto(os.path.join(dir_path, self.file_assets[0]))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments, without the vocabulary (an asset)."""
        config: dict[str, Any] = super().get_config()
        rules: Any = self._text_rules
        if isinstance(rules, TextRules):
            # Rules that are written are part of the vocabulary; "auto" keeps them.
            rules = asdict(rules) if self.proto is None else "auto"
        return config | {"text_rules": rules}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "AlbertTokenizer":
        """Create a tokenizer from the result of `get_config`.

        Args:
            config: The constructor's arguments.

        Returns:
            The tokenizer, without a vocabulary unless `config` contains its bytes.

        Raises:
            ValueError: If `config` contains a path. `get_config` never returns one; a
                config from an untrusted model could point to any file of this machine.
        """
        proto = config.get("proto")
        if isinstance(proto, str | os.PathLike) and os.path.exists(proto):
            raise ValueError(
                "A config may not point to a vocabulary on this machine. Received: "
                f"proto={os.fspath(proto)!r}. If you trust it, leave it out and call "
                "`tokenizer.set_proto(path)` yourself."
            )
        tokenizer: AlbertTokenizer = super().from_config(config)
        return tokenizer

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
        """
        if is_in_graph():
            return tokenize_in_graph(
                self._graph_tokenizer(),
                inputs,
                self.sequence_length,
                self.pad_token_id,
            )
        rows, batched = to_text_rows(inputs)
        return super().tokenize(rows if batched else rows[0])

    def tokenize_rows(
        self, texts: Any, num_threads: int = -1, checked: bool = False
    ) -> Any:
        """Tokenize many texts for a preprocessor, without padding.

        In Python this is the fastest method: SentencePiece returns NumPy arrays.

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
        """
        if is_in_graph():
            ids = self._graph_tokenizer().tokenize(texts)
            return ids[:, : self.sequence_length]
        rows = texts if checked else to_text_rows(texts)[0]
        ids = self._encode(rows, "numpy", num_threads)
        if self.sequence_length is not None:
            ids = [row[: self.sequence_length] for row in ids]
        return TokenRows.from_arrays(ids)

    def _encode(
        self, rows: list[str], return_type: str, num_threads: int = -1
    ) -> list[Any]:
        encode = self._processor().Encode
        if len(rows) < _FEW_ROWS and sum(map(len, rows)) < _FEW_CHARACTERS:
            # A thread takes longer to start than such texts to tokenize.
            return [encode(row, return_type=return_type) for row in rows]
        found: list[Any] = encode(
            rows, return_type=return_type, num_threads=num_threads
        )
        return found

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
            texts = check_graph_text(inputs)
            return graph_tokens_with_offsets(self._graph_tokenizer(), texts)
        rows, batched = (inputs, True) if checked else to_text_rows(inputs)
        encoded = self._encode(rows, "offset_mapping")
        ids = [np.array(row["ids"], np.int32) for row in encoded]
        spans = [
            trim_blanks(text, row["offsets"])
            for text, row in zip(rows, encoded, strict=True)
        ]
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        return (ids, starts, ends) if batched else (ids[0], starts[0], ends[0])

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
        """
        if is_in_graph():
            return detokenize_in_graph(self._graph_tokenizer(), inputs)
        rows, batched = to_id_rows(inputs, self.vocabulary_size())
        texts = self._processor().Decode(rows)
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

    def _processor(self) -> Any:
        self.vocabulary_size()  # raises an error if there is no vocabulary
        return sentence_piece(self.proto)

    def _graph_tokenizer(self) -> Any:
        """Create the tokenizer inside the current graph.

        A tokenizer created outside is lost when TensorFlow clears its kernels, as in
        `keras.utils.set_random_seed`.
        """
        check_packages(
            *("A tokenizer in a TensorFlow graph", "keras-albert[tensorflow]"),
            *("tensorflow", "tensorflow_text"),
        )
        self.vocabulary_size()  # raises an error if there is no vocabulary
        # Imports TensorFlow, which may not be installed.
        from keras_albert.text.tokenizer.graph_tokenizer import (  # noqa: PLC0415
            GraphTokenizer,
        )

        return GraphTokenizer(self.proto, self.compute_dtype)

    def _add_rules(self, proto: bytes) -> bytes:
        rules = self._text_rules
        if rules == "auto":
            rules = default_text_rules(proto) or "keep"
        return proto if isinstance(rules, str) else add_text_rules(proto, rules)
