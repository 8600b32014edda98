"""A checkpoint with damaged files is refused by name, or loads as it was.

Some hundred examples; as many as wanted with

    pytest tests/property/test_damaged_checkpoints.py -n auto --examples 100000
"""

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, note, settings
from hypothesis import strategies as st

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertTokenizer,
)
from keras_albert.checkpoints import export_checkpoint
from tests.property.damage import damage_files
from tests.property.tensor_files import write_torch
from tests.random_weights import fill_weights
from tests.word_pieces import word_proto

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits of memory")

LONGEST_MESSAGE = 5000


def make_classifier(proto):
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=24,
    )
    preprocessor = AlbertClassifierPreprocessor(tokenizer, max_sequence_length=24)
    labels = ("bad", "good", "fine")
    return fill_weights(
        AlbertClassifier(backbone, labels=labels, preprocessor=preprocessor)
    )


def write_safetensors_shards(task, directory):
    task.export_to_transformers(directory)
    single = directory / "model.safetensors"
    tensors = safetensors.numpy.load(single.read_bytes())
    single.unlink()
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for shard, part in parts.items():
        held = {name: tensors[name] for name in part}
        safetensors.numpy.save_file(held, directory / shard, metadata={"format": "pt"})
    weight_map = {name: shard for shard, part in parts.items() for name in part}
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def write_bin(task, directory, is_zip):
    """With `tokenizer.json` for the vocabulary."""
    task.export_to_transformers(directory)
    single = directory / "model.safetensors"
    tensors = safetensors.numpy.load(single.read_bytes())
    single.unlink()
    (directory / "spiece.model").unlink()
    write_torch(directory / "pytorch_model.bin", tensors, is_zip)


def write_pieces(task, directory):
    """With `vocab.txt` for the vocabulary."""
    task.export_to_transformers(directory)
    (directory / "tokenizer.json").unlink()


WRITERS = {
    "own": lambda task, to: task.save_to_preset(to),
    "own shards": lambda task, to: task.save_to_preset(to, max_shard_size=2e-6),
    "keras-hub": lambda task, to: export_checkpoint(task, to, "keras-hub"),
    "transformers": lambda task, to: task.export_to_transformers(to),
    "transformers shards": write_safetensors_shards,
    "transformers zip": lambda task, to: write_bin(task, to, is_zip=True),
    "transformers stream": lambda task, to: write_bin(task, to, is_zip=False),
    "google": lambda task, to: export_checkpoint(task, to, "google"),
    "own, WordPiece": lambda task, to: task.save_to_preset(to),
    "transformers, WordPiece": lambda task, to: task.export_to_transformers(to),
    "transformers, vocab.txt": write_pieces,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_it_is_refused_or_loads(kind, tiny_proto, programs, figures, tmp_path):
    whole = tmp_path / "whole"
    WRITERS[kind](make_classifier(word_proto() if "," in kind else tiny_proto), whole)
    load = programs("load_program").ask
    expected = load(str(whole))
    assert "outputs" in expected, expected

    @settings.get_profile("checkpoints")
    @given(st.data())
    def check(data):
        # A name of its own, which a message cannot have from elsewhere.
        with TemporaryDirectory(prefix="damaged-", dir=tmp_path) as folder:
            directory = shutil.copytree(whole, folder, dirs_exist_ok=True)
            damage = damage_files(data.draw, Path(directory))
            note(str(damage))
            found = load(directory)
            figures["damaged"] += 1
            figures[judge(found, expected, damage, directory)] += 1

    check()


def judge(found, expected, damage, directory):
    """Check what came of a damaged directory, and say what it was."""
    assert not {"died", "raw"} & set(found), found
    if "refused" in found:
        assert directory in found["refused"]
        assert len(found["refused"]) < LONGEST_MESSAGE
        return "refused"
    warned = any(directory in message for message in found["warned"])
    assert warned or not damage.unfit
    # A weight may be as large as a float32 can be, and a product of two is infinite.
    assert damage.weights or np.isfinite(found["outputs"]).all()
    assert found["weights"].keys() == expected["weights"].keys()
    says_other = any(found[key] != expected[key] for key in ("config", "labels"))
    if warned:
        return "loaded, with a warning of new weights"
    for path, weight in expected["weights"].items():
        assert np.shape(found["weights"][path]) == np.shape(weight)
        assert np.isfinite(found["weights"][path]).all()
        if not damage.weights:
            # A config may ask for another dtype.
            atol = 0.02 if says_other else 0
            np.testing.assert_allclose(found["weights"][path], weight, 0, atol)
    if not damage.vocabulary:
        assert found["vocabulary"] == expected["vocabulary"]
    if says_other:
        return "loaded as another config says"
    if found["weights"] != expected["weights"]:
        return "loaded with other finite weights"
    if found["vocabulary"] != expected["vocabulary"]:
        return "loaded with another vocabulary"
    np.testing.assert_allclose(found["outputs"], expected["outputs"], 0, 1e-6)
    return "loaded equal"
