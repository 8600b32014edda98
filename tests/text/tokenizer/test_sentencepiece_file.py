"""Messages of SentencePiece's files, crafted files, and vocabularies of graphs."""

import ast
import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf import descriptor_pool, message_factory

from keras_albert.text import train_vocabulary
from keras_albert.text.tokenizer import sentencepiece_file as ours
from tests.programs import run_python

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
    types = {
        name: pool.FindMessageTypeByName(f"sentencepiece.{name}") for name in NAMES
    }
    made = {name: message_factory.GetMessageClass(each) for name, each in types.items()}
    return SimpleNamespace(**made)


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


# Loads each vocabulary in each way; the last printed line shows what crashed.
_PROGRAM = """
import json, pathlib, sys
from keras_albert import AlbertTokenizer
from keras_albert.checkpoints import TRANSFORMERS
from keras_albert.presets.checkpoint import Files
from keras_albert.checkpoints.tokenizer_json import write_tokenizer_files
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary

folder = pathlib.Path(sys.argv[1])
whole = (folder / "whole.model").read_bytes()
assets, checkpoint = folder / "assets", folder / "checkpoint"
assets.mkdir(), checkpoint.mkdir()
write_tokenizer_files(checkpoint, whole, 24)
tokenizer_json = json.loads((checkpoint / "tokenizer.json").read_text())

def edited(name):
    model = parse_vocabulary(whole)
    table = model.normalizer_spec.precompiled_charsmap
    if name == "table cut":
        model.normalizer_spec.precompiled_charsmap = table[: len(table) // 2]
    elif name == "table filled":
        noise = bytes(range(256)) * 8
        model.normalizer_spec.precompiled_charsmap = table[:8] + noise + table[2056:]
    elif name == "other table":
        model.denormalizer_spec.precompiled_charsmap = b"\\xff" * 4096
    else:
        model.pieces[20].piece = PIECES[name]
        if name == "long symbol":
            model.pieces[20].type = 4
    return model.SerializeToString()

PIECES = {"nul": "\\0", "nul inside": "a\\0b", "long": "x" * 10**6, "empty": "",
          "long symbol": "x" * 65}
tried = []
read = lambda path: TRANSFORMERS.open(Files(path)).read_vocabulary()
def attempt(name, door, call):
    print(name, door, flush=True)
    try:
        call()
    except ValueError as error:
        tried.append([name, door, str(error)])
    else:
        tried.append([name, door, None])

for name in [*PIECES, "table cut", "table filled", "other table"]:
    proto = edited(name)
    attempt(name, "bytes", lambda: AlbertTokenizer(proto))
    for door, path in [("spiece.model", folder / "spiece.model"),
                       ("vocabulary.spm", assets / "vocabulary.spm")]:
        path.write_bytes(proto)
        call = (lambda: AlbertTokenizer(str(path))) if door == "spiece.model" else (
            lambda: AlbertTokenizer().load_assets(str(assets)))
        attempt(name, door, call)
    if name in PIECES and name != "long symbol":
        tokenizer_json["model"]["vocab"][20][0] = PIECES[name]
        text = json.dumps(tokenizer_json)
        (checkpoint / "tokenizer.json").write_text(text)
        attempt(name, "tokenizer.json",
                lambda: AlbertTokenizer(read(checkpoint)))
(folder / "tried.json").write_text(json.dumps(tried))
"""


@pytest.fixture(scope="module")
def tried(tiny_proto, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crafted")
    (folder / "whole.model").write_bytes(tiny_proto)
    run_python("-c", _PROGRAM, folder)
    return json.loads((folder / "tried.json").read_text())


def test_crafted_vocabularies_raise_and_do_not_crash(tried):
    """The error names the file, the problem and the remedy."""
    assert len(tried) == 28
    for name, door, message in tried:
        assert message is not None, (name, door)
        what = "SentencePiece" if "table" in name else "at id 20"
        assert what in message, (name, door, message)
        assert "Fetch" in message or "again" in message, (name, door, message)
        assert door == "bytes" or door in message
