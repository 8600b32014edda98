"""SentencePiece's model file as protocol buffer messages, under any protobuf.

The module that SentencePiece brings along was generated for one version of protobuf
and refuses older ones, which Apache Beam for instance needs. Messages that are made
of a table when they are first needed have no such bound. Here stand the fields that
this package reads or writes; protobuf carries all others over as they are.

Source: `sentencepiece_model.proto` of
[SentencePiece](https://github.com/google/sentencepiece).
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_KIND = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "sentencepiece"
_PIECE_TYPE = f".{_PACKAGE}.ModelProto.SentencePiece.Type"
_NORMALIZER = f".{_PACKAGE}.NormalizerSpec"

_TOP_LEVEL = ("TrainerSpec", "NormalizerSpec", "ModelProto")

# name -> number, type, and what stands for it where a file has none.
_Field = tuple[int, int | str, str | None]
_FIELDS: dict[str, dict[str, _Field]] = {
    "SentencePiece": {
        "piece": (1, _KIND.TYPE_STRING, None),
        "score": (2, _KIND.TYPE_FLOAT, None),
        "type": (3, _PIECE_TYPE, "NORMAL"),
    },
    "NormalizerSpec": {
        "name": (1, _KIND.TYPE_STRING, None),
        "precompiled_charsmap": (2, _KIND.TYPE_BYTES, None),
        "add_dummy_prefix": (3, _KIND.TYPE_BOOL, "true"),
        "remove_extra_whitespaces": (4, _KIND.TYPE_BOOL, "true"),
        "escape_whitespaces": (5, _KIND.TYPE_BOOL, "true"),
        "normalization_rule_tsv": (6, _KIND.TYPE_STRING, None),
    },
    "TrainerSpec": {
        "model_type": (3, f".{_PACKAGE}.TrainerSpec.ModelType", "UNIGRAM"),
        "vocab_size": (4, _KIND.TYPE_INT32, "8000"),
        "byte_fallback": (35, _KIND.TYPE_BOOL, "false"),
        "unk_id": (40, _KIND.TYPE_INT32, "0"),
        "bos_id": (41, _KIND.TYPE_INT32, "1"),
        "eos_id": (42, _KIND.TYPE_INT32, "2"),
        "pad_id": (43, _KIND.TYPE_INT32, "-1"),
    },
    "ModelProto": {
        "pieces": (1, f".{_PACKAGE}.ModelProto.SentencePiece", None),
        "trainer_spec": (2, f".{_PACKAGE}.TrainerSpec", None),
        "normalizer_spec": (3, _NORMALIZER, None),
        "denormalizer_spec": (5, _NORMALIZER, None),
    },
}
_ENUMS = {
    "SentencePiece": (
        "Type",
        ("NORMAL", "UNKNOWN", "CONTROL", "USER_DEFINED", "UNUSED", "BYTE"),
    ),
    "TrainerSpec": ("ModelType", ("UNIGRAM", "BPE", "WORD", "CHAR")),
}


def _describe(name: str, message: Any) -> None:
    """Write the rows of a message into its descriptor."""
    message.name = name
    for field_name, (number, kind, default) in _FIELDS[name].items():
        field = message.field.add(name=field_name, number=number)
        field.label = (
            _KIND.LABEL_REPEATED if field_name == "pieces" else _KIND.LABEL_OPTIONAL
        )
        if isinstance(kind, str):
            is_enum = kind.endswith("Type")
            field.type = _KIND.TYPE_ENUM if is_enum else _KIND.TYPE_MESSAGE
            field.type_name = kind
        else:
            field.type = kind
        if default is not None:
            field.default_value = default
    if name in _ENUMS:
        enum_name, values = _ENUMS[name]
        enum = message.enum_type.add(name=enum_name)
        for number, value in enumerate(values, 1):
            enum.value.add(name=value, number=number)
    # Whoever has fields of their own puts them here.
    message.extension_range.add(start=200, end=536870912)


def _make_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="keras_albert/sentencepiece_model.proto", package=_PACKAGE
    )
    for name in _TOP_LEVEL:
        _describe(name, file.message_type.add())
    _describe("SentencePiece", file.message_type[-1].nested_type.add())
    # A pool of its own: SentencePiece's module describes the same names.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")
        )
        # A message within another is no attribute of it in protobuf's Python form.
        for name in (*_TOP_LEVEL, "ModelProto.SentencePiece")
    }


_MESSAGES = _make_messages()
ModelProto: Any = _MESSAGES["ModelProto"]
NormalizerSpec: Any = _MESSAGES["NormalizerSpec"]
TrainerSpec: Any = _MESSAGES["TrainerSpec"]
SentencePiece: Any = _MESSAGES["ModelProto.SentencePiece"]
