"""Reads, checks and writes SentencePiece model files.

The module in the SentencePiece package is generated for one version of protobuf and
does not support older versions, which Apache Beam, for example, requires. The messages
here are those of `sentencepiece_model.proto` of
[SentencePiece](https://github.com/google/sentencepiece), for any version.
"""

import base64
import binascii
import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from keras_albert.types import FloatArray
from keras_albert.utils.reading import read_bytes, reading

_PROTO = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "bool": _PROTO.TYPE_BOOL,
    "bytes": _PROTO.TYPE_BYTES,
    "float": _PROTO.TYPE_FLOAT,
    "int32": _PROTO.TYPE_INT32,
    "int64": _PROTO.TYPE_INT64,
    "string": _PROTO.TYPE_STRING,
}


class Field(NamedTuple):
    """A field of a message."""

    # `kind` is a type, or the name of a message or of an enumeration.

    number: int
    kind: str
    default: str | None = None
    repeated: bool = False


def message_classes(
    package: str,
    messages: Mapping[str, Mapping[str, Field]],
    enums: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Create message classes."""
    # A table of the fields that are read or written is enough: protobuf preserves all
    # others. A dotted name is a nested message, after its parent; values of enums are
    # numbered from 1.
    enums = enums or {}
    # The pool is separate, so that messages which a library describes as well do not
    # conflict; the name of the file is arbitrary.
    file = descriptor_pb2.FileDescriptorProto(
        name=f"keras_albert/{package}.proto", package=package
    )
    made: dict[str, Any] = {}
    for name, fields in messages.items():
        parent, _, short = name.rpartition(".")
        siblings = made[parent].nested_type if parent else file.message_type
        made[name] = message = siblings.add(name=short)
        for field_name, row in fields.items():
            label = _PROTO.LABEL_REPEATED if row.repeated else _PROTO.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=row.number, label=label)
            if row.kind in _KINDS:
                field.type = _KINDS[row.kind]
            else:
                is_enum = row.kind in enums
                field.type = _PROTO.TYPE_ENUM if is_enum else _PROTO.TYPE_MESSAGE
                field.type_name = f".{package}.{row.kind}"
            if row.default is not None:
                field.default_value = row.default
        # The range for custom fields.
        message.extension_range.add(start=200, end=536870912)
    for name, values in enums.items():
        parent, _, short = name.rpartition(".")
        enum = made[parent].enum_type.add(name=short)
        for number, value in enumerate(values, 1):
            enum.value.add(name=value, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    # In protobuf's Python API, a nested message is not an attribute of its parent.
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{package}.{name}")
        )
        for name in messages
    }


_MESSAGES = message_classes(
    "sentencepiece",
    {
        "TrainerSpec": {
            "model_type": Field(3, "TrainerSpec.ModelType", "UNIGRAM"),
            "vocab_size": Field(4, "int32", "8000"),
            "treat_whitespace_as_suffix": Field(24, "bool", "false"),
            "byte_fallback": Field(35, "bool", "false"),
            "unk_id": Field(40, "int32", "0"),
            "bos_id": Field(41, "int32", "1"),
            "eos_id": Field(42, "int32", "2"),
            "pad_id": Field(43, "int32", "-1"),
        },
        "NormalizerSpec": {
            "name": Field(1, "string"),
            "precompiled_charsmap": Field(2, "bytes"),
            "add_dummy_prefix": Field(3, "bool", "true"),
            "remove_extra_whitespaces": Field(4, "bool", "true"),
            "escape_whitespaces": Field(5, "bool", "true"),
            "normalization_rule_tsv": Field(6, "string"),
        },
        "ModelProto": {
            "pieces": Field(1, "ModelProto.SentencePiece", repeated=True),
            "trainer_spec": Field(2, "TrainerSpec"),
            "normalizer_spec": Field(3, "NormalizerSpec"),
            "denormalizer_spec": Field(5, "NormalizerSpec"),
        },
        "ModelProto.SentencePiece": {
            "piece": Field(1, "string"),
            "score": Field(2, "float"),
            "type": Field(3, "ModelProto.SentencePiece.Type", "NORMAL"),
        },
    },
    {
        "TrainerSpec.ModelType": ("UNIGRAM", "BPE", "WORD", "CHAR"),
        "ModelProto.SentencePiece.Type": (
            *("NORMAL", "UNKNOWN", "CONTROL"),
            *("USER_DEFINED", "UNUSED", "BYTE"),
        ),
    },
)
ModelProto: Any = _MESSAGES["ModelProto"]
NormalizerSpec: Any = _MESSAGES["NormalizerSpec"]
TrainerSpec: Any = _MESSAGES["TrainerSpec"]
SentencePiece: Any = _MESSAGES["ModelProto.SentencePiece"]


# The special tokens of all released checkpoints, in the order of their ids.
SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))

# Sums of scores are exact in float32 down to -2,048, some 240 tokens.
_STEPS = 2**13

# Enough for a quarter of a million pieces; ALBERT's vocabularies have 30,000 pieces and
# less than a megabyte.
MAX_FILE_BYTES = 2**25

# Longer pieces crash the SentencePiece in tensorflow-text and onnxruntime-extensions.
# Released pieces have at most 18 bytes, SentencePiece's trainer makes up to 64.
_MAX_PIECE_BYTES = 256
# The same SentencePiece looks up at most 64 symbols with a common prefix.
_MAX_SYMBOL_BYTES = 64

_REMEDY = "Copy or download it again, or pass a `tokenizer` of your own."


def parse_vocabulary(proto: bytes) -> Any:
    """Parse the bytes of a SentencePiece model."""
    model = ModelProto()
    try:
        model.ParseFromString(proto)
    except DecodeError:
        problem = "cannot be parsed"
    else:
        # A file truncated between two fields can be parsed, but lacks the last fields.
        parts = ("trainer_spec", "normalizer_spec")
        missing = [part for part in parts if not model.HasField(part)]
        if model.pieces and not missing:
            return model
        problem = f"has {len(model.pieces)} pieces and no {' or '.join(missing)}"
    raise ValueError(
        f"The vocabulary is not a whole SentencePiece model: its {len(proto)} bytes "
        f"{problem}. The file is likely cut short, a Git LFS pointer, or of another "
        "kind; fetch `spiece.model` (or `30k-clean.model`) again and compare its size."
    )


@functools.lru_cache(maxsize=4)
def sentence_piece(proto: bytes) -> Any:
    """Load a SentencePiece model."""
    return sentencepiece.SentencePieceProcessor(model_proto=proto)


def check_vocabulary(proto: bytes) -> bytes:
    """Check that a model is complete, and make its special tokens control symbols."""
    # Otherwise they would be matched in texts. Every vocabulary is checked here before
    # another library reads it: tensorflow-text ends the process at a damaged one.
    model = parse_vocabulary(proto)
    _check_pieces(model)
    changed = False
    for token_id, token in enumerate(SPECIAL_TOKENS):
        found = model.pieces[token_id].piece if token_id < len(model.pieces) else None
        if found != token:
            ids = [i for i, each in enumerate(model.pieces) if each.piece == token]
            where = f"stands at id {ids[0]}" if ids else "is missing"
            raise ValueError(
                f"The special token `{token}` must stand at id {token_id} of the "
                f"vocabulary; it {where}, and id {token_id} is {found!r}. This is not "
                "an ALBERT vocabulary; use the checkpoint's own `spiece.model`, or "
                "train one with `keras_albert.text.train_vocabulary`."
            )
        piece = model.pieces[token_id]
        if token_id != 1 and piece.type != SentencePiece.CONTROL:
            piece.type = SentencePiece.CONTROL
            changed = True
    if model.pieces[1].type != SentencePiece.UNKNOWN:
        raise ValueError(
            "The vocabulary's `<unk>` at id 1 is not its unknown token. Train it with "
            "`unk_id=1`, as `keras_albert.text.tokenizer.train_vocabulary` does."
        )
    proto = bytes(model.SerializeToString()) if changed else proto
    try:
        sentence_piece(proto)
    except (RuntimeError, OSError, ValueError) as error:
        raise ValueError(
            f"SentencePiece does not load the vocabulary ({error}). Fetch "
            "`spiece.model` (or `30k-clean.model`) again and compare its size."
        ) from error
    return proto


def _check_pieces(model: Any) -> None:
    """Raise if a piece would crash other versions of SentencePiece."""
    for token_id, piece in enumerate(model.pieces):
        size = len(piece.piece.encode())
        is_symbol = piece.type == SentencePiece.USER_DEFINED
        most = _MAX_SYMBOL_BYTES if is_symbol else _MAX_PIECE_BYTES
        if not 0 < size <= most or "\0" in piece.piece:
            kind = "user-defined symbol" if is_symbol else "piece"
            raise ValueError(
                f"The vocabulary's {kind} at id {token_id} is {piece.piece[:20]!r}, of "
                f"{size:,} bytes. It must have 1 to {most} bytes and no NUL. Train the "
                "vocabulary again without it."
            )


def read_vocabulary(
    source: str | os.PathLike[str], check: Callable[[bytes], bytes] = check_vocabulary
) -> bytes:
    """Read and check a vocabulary: a path, or base64, longer than any path."""
    source = os.fspath(source)
    if len(source) > 2048:
        with contextlib.suppress(binascii.Error):
            return check(base64.b64decode(source, validate=True))
    proto = read_bytes(source, MAX_FILE_BYTES)
    with reading(source, _REMEDY):
        return check(proto)


@functools.lru_cache(maxsize=8)
def graph_vocabulary(proto: bytes, with_bytes: bool = True) -> bytes:
    """Adapt a vocabulary, so that graphs return Python's ids, and in linear time."""
    # SentencePiece 0.1.96 in graphs joins the characters of unknown pieces in quadratic
    # time; byte pieces after the vocabulary avoid that, and the graph makes
    # `<unk>` of them. It also compares rounded sums of scores with unrounded ones. Sums
    # of multiples of 1/8,192 are exact, so that ids only differ where sums of splits
    # differ by a rounding error in Python, too.
    model = parse_vocabulary(proto)
    for piece in model.pieces:
        if piece.type == SentencePiece.NORMAL:
            piece.score = round(piece.score * _STEPS) / _STEPS
    if with_bytes and {piece.piece for piece in model.pieces}.isdisjoint(_BYTES):
        model.trainer_spec.byte_fallback = True
        for name in _BYTES:
            model.pieces.add(piece=name, type=SentencePiece.BYTE)
    return bytes(model.SerializeToString())


def piece_probabilities(proto: bytes) -> FloatArray:
    """Return the trainer's probability of each piece, 1 without one."""
    model = parse_vocabulary(proto)
    kind = model.trainer_spec.ModelType.Name(model.trainer_spec.model_type)
    if kind != "UNIGRAM":
        raise ValueError(
            "Only unigram vocabularies have probabilities of pieces. Received one "
            f"of type {kind}. Train one with `keras_albert.text.train_vocabulary`."
        )
    scores: FloatArray = np.array([piece.score for piece in model.pieces], "float32")
    return np.exp(scores)
