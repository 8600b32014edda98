"""Pickled weights: through the weights-only loader or not at all."""

import importlib.util
import json
import pickle

import numpy as np
import pytest
from foreign_models import save_transformers
from safetensors.numpy import load_file

from keras_albert import AlbertBackbone
from keras_albert.conversion.torch_files import read_torch_files

torch = pytest.importorskip("torch")


class Harmful:
    """Makes a file as it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    directory = tmp_path_factory.mktemp("torch")
    save_transformers(directory, num_layers=1)
    return directory


@pytest.fixture
def pickled(original, tmp_path):
    (tmp_path / "config.json").symlink_to(original / "config.json")
    tensors = load_file(original / "model.safetensors")
    state = {name: torch.from_numpy(value) for name, value in tensors.items()}
    torch.save(state, tmp_path / "pytorch_model.bin")
    return tmp_path


def _same_weights(directory, original):
    pairs = zip(
        AlbertBackbone.from_preset(directory).get_weights(),
        AlbertBackbone.from_preset(original).get_weights(),
        strict=True,
    )
    for mine, other in pairs:
        np.testing.assert_array_equal(mine, other)


def test_tensors_are_read(pickled, original):
    _same_weights(pickled, original)


def test_shards_are_read(pickled, original):
    path = pickled / "pytorch_model.bin"
    state = torch.load(path, weights_only=True)
    path.unlink()
    weight_map = {}
    for number in range(2):
        shard = f"pytorch_model-{number}.bin"
        names = sorted(state)[number::2]
        torch.save({name: state[name] for name in names}, pickled / shard)
        weight_map |= dict.fromkeys(names, shard)
    index = pickled / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    _same_weights(pickled, original)
    index.write_text(json.dumps({"weight_map": {"a": "../pytorch_model-0.bin"}}))
    with pytest.raises(ValueError, match="plain file names"):
        AlbertBackbone.from_preset(pickled)


def test_safetensors_come_first(pickled, original):
    (pickled / "model.safetensors").symlink_to(original / "model.safetensors")
    (pickled / "pytorch_model.bin").write_bytes(b"noise")
    _same_weights(pickled, original)


def test_half_precision_is_read(tmp_path):
    torch.save({"a": torch.ones(2).bfloat16()}, tmp_path / "pytorch_model.bin")
    found = read_torch_files(tmp_path)
    np.testing.assert_array_equal(found["a"], np.ones(2, "float32"))


@pytest.mark.parametrize("save", [torch.save, None])
def test_code_is_never_run(pickled, save):
    victim, path = pickled / "victim", pickled / "pytorch_model.bin"
    if save is None:
        path.write_bytes(pickle.dumps({"a": Harmful(victim)}))
    else:
        save({"a": Harmful(victim)}, path)
    with pytest.raises(ValueError, match=r"is refused.*`save_pretrained`"):
        AlbertBackbone.from_preset(pickled)
    assert not victim.exists()


@pytest.mark.parametrize("kept", [0, 10, -10])
def test_a_truncated_file_is_refused(pickled, kept):
    path = pickled / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="is refused: it is damaged"):
        AlbertBackbone.from_preset(pickled)


def test_without_torch_they_are_refused(pickled, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"Install PyTorch.*writes safetensors"):
        AlbertBackbone.from_preset(pickled)
