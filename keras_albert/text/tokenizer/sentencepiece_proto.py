"""Protocol buffer messages of SentencePiece's model file, for any protobuf version.

The module in the SentencePiece package is generated for one version of protobuf and
does not support older versions, which Apache Beam, for example, requires.

Source: `sentencepiece_model.proto` of
[SentencePiece](https://github.com/google/sentencepiece).
"""

from typing import Any

from keras_albert.utils.protobuf import Field, message_classes

_MESSAGES = message_classes(
    "sentencepiece",
    {
        "TrainerSpec": {
            "model_type": Field(3, "TrainerSpec.ModelType", "UNIGRAM"),
            "vocab_size": Field(4, "int32", "8000"),
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
