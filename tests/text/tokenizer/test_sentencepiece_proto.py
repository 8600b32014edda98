"""Comparison with the messages of SentencePiece's module."""

import ast
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf import descriptor_pool, message_factory

from keras_albert.text import train_vocabulary
from keras_albert.text.tokenizer import sentencepiece_file as ours

NAMES = ("ModelProto", "NormalizerSpec", "TrainerSpec")


@pytest.fixture(scope="module")
def theirs():
    """Return SentencePiece's messages, without importing their module.

    The import may fail, depending on the version of protobuf.
    """
    spec = importlib.util.find_spec("sentencepiece.sentencepiece_model_pb2")
    nodes = ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(max((c for c in constants if type(c) is bytes), key=len))
    return SimpleNamespace(
        **{
            name: message_factory.GetMessageClass(
                pool.FindMessageTypeByName(f"sentencepiece.{name}")
            )
            for name in NAMES
        }
    )


@pytest.fixture(scope="module")
def proto():
    return train_vocabulary(["a fine film", "a dull film"] * 9, vocabulary_size=24)


def test_fields_equal_those_of_sentencepiece(theirs):
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in NAMES]
    pairs.append((ours.SentencePiece, theirs.ModelProto.SentencePiece))
    for mine, other in pairs:
        for field in mine.DESCRIPTOR.fields:
            same = other.DESCRIPTOR.fields_by_name[field.name]
            assert (field.number, field.type) == (same.number, same.type), field.name
            if field.message_type is None:
                assert field.default_value == same.default_value, field.name
        for name, enum in mine.DESCRIPTOR.enum_types_by_name.items():
            numbers = other.DESCRIPTOR.enum_types_by_name[name].values_by_name
            assert {value.name: value.number for value in enum.values} == {
                value: entry.number for value, entry in numbers.items()
            }


def test_unknown_fields_are_kept(theirs, proto):
    model = theirs.ModelProto.FromString(proto)
    # Fields that are not in our table.
    model.trainer_spec.shrinking_factor = 0.625
    model.trainer_spec.control_symbols.append("[CLS]")
    mine = ours.ModelProto.FromString(model.SerializeToString())
    mine.pieces[7].score = -3.5
    back = theirs.ModelProto.FromString(mine.SerializeToString())
    model.pieces[7].score = -3.5
    assert back == model


def test_missing_fields_have_default_values():
    spec = ours.NormalizerSpec()
    assert spec.add_dummy_prefix
    assert spec.escape_whitespaces
    assert ours.TrainerSpec().pad_id == -1
    assert ours.SentencePiece().type == ours.SentencePiece.NORMAL
