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
from collections.abc import Callable
from typing import Any

import numpy as np
import sentencepiece
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)
from google.protobuf.message import DecodeError

from keras_albert.types import FloatArray
from keras_albert.utils.reading import read_bytes, reading

# A description of the fields that are read or written is enough: protobuf preserves all
# others. The name of the file is arbitrary.
_DESCRIPTION = """
name: "keras_albert/sentencepiece.proto"
package: "sentencepiece"
message_type {
  name: "TrainerSpec"
  field { name: "model_type" number: 3 type: TYPE_ENUM default_value: "UNIGRAM"
          type_name: ".sentencepiece.TrainerSpec.ModelType" }
  field { name: "vocab_size" number: 4 type: TYPE_INT32 default_value: "8000" }
  field { name: "treat_whitespace_as_suffix" number: 24 type: TYPE_BOOL }
  field { name: "byte_fallback" number: 35 type: TYPE_BOOL }
  field { name: "unk_id" number: 40 type: TYPE_INT32 default_value: "0" }
  field { name: "bos_id" number: 41 type: TYPE_INT32 default_value: "1" }
  field { name: "eos_id" number: 42 type: TYPE_INT32 default_value: "2" }
  field { name: "pad_id" number: 43 type: TYPE_INT32 default_value: "-1" }
  enum_type {
    name: "ModelType"
    value { name: "UNIGRAM" number: 1 }
    value { name: "BPE" number: 2 }
    value { name: "WORD" number: 3 }
    value { name: "CHAR" number: 4 }
  }
}
message_type {
  name: "NormalizerSpec"
  field { name: "name" number: 1 type: TYPE_STRING }
  field { name: "precompiled_charsmap" number: 2 type: TYPE_BYTES }
  field { name: "add_dummy_prefix" number: 3 type: TYPE_BOOL default_value: "true" }
  field { name: "remove_extra_whitespaces" number: 4 type: TYPE_BOOL
          default_value: "true" }
  field { name: "escape_whitespaces" number: 5 type: TYPE_BOOL default_value: "true" }
  field { name: "normalization_rule_tsv" number: 6 type: TYPE_STRING }
}
message_type {
  name: "ModelProto"
  field { name: "pieces" number: 1 type: TYPE_MESSAGE label: LABEL_REPEATED
          type_name: ".sentencepiece.ModelProto.SentencePiece" }
  field { name: "trainer_spec" number: 2 type: TYPE_MESSAGE
          type_name: ".sentencepiece.TrainerSpec" }
  field { name: "normalizer_spec" number: 3 type: TYPE_MESSAGE
          type_name: ".sentencepiece.NormalizerSpec" }
  field { name: "denormalizer_spec" number: 5 type: TYPE_MESSAGE
          type_name: ".sentencepiece.NormalizerSpec" }
  nested_type {
    name: "SentencePiece"
    field { name: "piece" number: 1 type: TYPE_STRING }
    field { name: "score" number: 2 type: TYPE_FLOAT }
    field { name: "type" number: 3 type: TYPE_ENUM default_value: "NORMAL"
            type_name: ".sentencepiece.ModelProto.SentencePiece.Type" }
    enum_type {
      name: "Type"
      value { name: "NORMAL" number: 1 }
      value { name: "UNKNOWN" number: 2 }
      value { name: "CONTROL" number: 3 }
      value { name: "USER_DEFINED" number: 4 }
      value { name: "UNUSED" number: 5 }
      value { name: "BYTE" number: 6 }
    }
  }
}
"""
# The pool is separate, so that messages which a library describes as well do not
# conflict.
_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(text_format.Parse(_DESCRIPTION, descriptor_pb2.FileDescriptorProto()))


def _message(name: str) -> Any:
    found = _POOL.FindMessageTypeByName(f"sentencepiece.{name}")
    return message_factory.GetMessageClass(found)


ModelProto = _message("ModelProto")
NormalizerSpec = _message("NormalizerSpec")
TrainerSpec = _message("TrainerSpec")
SentencePiece = _message("ModelProto.SentencePiece")

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

_FETCH = (
    "The file may be incomplete, a Git LFS pointer, or of another kind; fetch "
    "`spiece.model` (or `30k-clean.model`) again and compare its size."
)
_TRAIN = "train one with `keras_albert.text.train_vocabulary`"
_REMEDY = "Copy or download it again, or pass your own `tokenizer`."


def parse_vocabulary(proto: bytes) -> Any:
    """Parse the bytes of a SentencePiece model."""
    model = ModelProto()
    try:
        model.ParseFromString(proto)
    except DecodeError:
        problem = "cannot be parsed"
    else:
        # A file truncated between two fields can be parsed, but has no last fields.
        parts = ("trainer_spec", "normalizer_spec")
        missing = [part for part in parts if not model.HasField(part)]
        if model.pieces and not missing:
            return model
        problem = f"has {len(model.pieces)} pieces and no {' or '.join(missing)}"
    raise ValueError(
        f"The vocabulary is not a whole SentencePiece model: its {len(proto)} bytes "
        f"{problem}. {_FETCH}"
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
            raise ValueError(
                f"Id {token_id} of the vocabulary must be `{token}`, but it is "
                f"{found!r}. This is not an ALBERT vocabulary; use the checkpoint's "
                f"`spiece.model`, or {_TRAIN}."
            )
        piece = model.pieces[token_id]
        if token_id != 1 and piece.type != SentencePiece.CONTROL:
            piece.type = SentencePiece.CONTROL
            changed = True
    if model.pieces[1].type != SentencePiece.UNKNOWN:
        msg = f"The vocabulary's `<unk>` is not its unknown token; {_TRAIN}."
        raise ValueError(msg)
    proto = bytes(model.SerializeToString()) if changed else proto
    try:
        sentence_piece(proto)
    except (RuntimeError, OSError, ValueError) as error:
        msg = f"SentencePiece does not load the vocabulary ({error}). {_FETCH}"
        raise ValueError(msg) from error
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
    # differ by a rounding error in Python as well.
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
        msg = f"A vocabulary of type {kind} has no probabilities; {_TRAIN}."
        raise ValueError(msg)
    scores: FloatArray = np.array([piece.score for piece in model.pieces], "float32")
    return np.exp(scores)
