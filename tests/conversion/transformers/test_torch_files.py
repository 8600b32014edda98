"""Pickled weights: interpreted, never unpickled."""

import json
import pickle
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_albert import AlbertBackbone
from keras_albert.conversion.transformers.torch_files import torch_tensors
from tests.foreign_models import save_transformers

torch = pytest.importorskip("torch")


class Harmful:
    """An object that creates a file when it is unpickled."""

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


def save(path, state, stream=False):
    torch.save(state, path, _use_new_zipfile_serialization=not stream)


def read(directory):
    return {name: x.read() for name, x in torch_tensors(directory).items()}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "dtype",
    ["float16", "bfloat16", "float32", "float64", "bool", "uint8", "int8", "int64"],
)
def test_what_pytorch_writes_is_read(tmp_path, stream, dtype):
    tensor = torch.arange(-6, 6).reshape(3, 4).abs().to(getattr(torch, dtype))
    state = {
        "plain": tensor,
        "transposed": tensor.T,
        "part": tensor[1:, ::2],
        "scalar": tensor[1, 1],
        "empty": tensor[:0],
        "parameter": tensor.clone(),
    }
    if tensor.is_floating_point():
        state["parameter"] = torch.nn.Parameter(tensor.clone())
    state["tied"] = state["plain"]
    save(tmp_path / "pytorch_model.bin", state, stream)
    found = read(tmp_path)
    assert found.keys() == state.keys()
    for name, value in state.items():
        expected = value.detach()
        expected = expected.float() if dtype == "bfloat16" else expected
        np.testing.assert_array_equal(found[name], expected.numpy(), strict=True)
        assert torch_tensors(tmp_path)[name].shape == tuple(value.shape)


@pytest.mark.parametrize("stream", [False, True])
def test_the_state_of_a_module_is_read(tmp_path, stream):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    save(tmp_path / "pytorch_model.bin", module.state_dict(), stream)
    for name, value in read(tmp_path).items():
        np.testing.assert_array_equal(value, module.state_dict()[name].numpy())


def test_pytorch_is_not_needed(pickled, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "embeddings.word_embeddings.weight" in read(pickled)


@pytest.mark.parametrize("how", ["zip", "stream", "plain"])
def test_code_is_never_run(pickled, how):
    victim, path = pickled / "victim", pickled / "pytorch_model.bin"
    if how == "plain":
        path.write_bytes(pickle.dumps({"a": Harmful(victim)}))
    else:
        save(path, {"a": Harmful(victim)}, stream=how == "stream")
    with pytest.raises(ValueError, match=r"model\.bin.*`save_pretrained`"):
        AlbertBackbone.from_preset(pickled)
    assert not victim.exists()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kept", [0, 3, 10, 200, -200, -10])
def test_a_truncated_file_is_refused(pickled, kept, stream):
    path = pickled / "pytorch_model.bin"
    save(path, torch.load(path, weights_only=True), stream)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"pytorch_model\.bin.* is damaged"):
        AlbertBackbone.from_preset(pickled)


def test_a_claimed_length_allocates_nothing(tmp_path):
    # A text of four gigabytes, of which three bytes are there.
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02X\xff\xff\xff\xffabc")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"pytorch_model\.bin.* is damaged"):
            torch_tensors(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def expand(tensor):
    return tensor[:1, :1].expand(10**5, 10**5)


def overlap(tensor):
    return tensor.as_strided((12, 12), (1, 0))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("lie", [expand, overlap])
def test_a_tensor_larger_than_its_numbers_is_refused(tmp_path, lie, stream):
    tensor = torch.zeros(3, 4).half()
    save(tmp_path / "pytorch_model.bin", {"a": lie(tensor)}, stream)
    with pytest.raises(ValueError, match=r"larger than its storage|need more"):
        torch_tensors(tmp_path)


def test_views_of_one_storage_may_not_add_up(tmp_path):
    tensor = torch.zeros(3000, 4)
    state = {f"{shift}": tensor[shift:] for shift in range(100)}
    save(tmp_path / "pytorch_model.bin", state)
    with pytest.raises(ValueError, match="need more bytes than it has"):
        torch_tensors(tmp_path)


def rewrite(path, change, **options):
    """Write a zip file again, with changed members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_zip_bomb_is_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    save(path, {"a": torch.zeros(10**6)})
    rewrite(path, lambda members: None, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match="its members are compressed"):
        torch_tensors(tmp_path)


def test_members_that_overlap_are_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    save(path, {"a": torch.zeros(10**4)})
    with zipfile.ZipFile(path, "a") as archive:
        (data,) = (x for x in archive.infolist() if x.filename.endswith("data/0"))
        for number in range(9):
            again = zipfile.ZipInfo(data.filename[:-1] + str(number + 1))
            for name in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(again, name, getattr(data, name))
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive._didModify = True
    with pytest.raises(ValueError, match=r"is damaged"):
        torch_tensors(tmp_path)


def test_a_storage_that_claims_more_than_there_is_is_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    save(path, {"a": torch.zeros(100)})

    def shorten(members):
        (name,) = (name for name in members if name.endswith("data/0"))
        members[name] = members[name][:-4]

    rewrite(path, shorten)
    with pytest.raises(ValueError, match="needs more bytes than its storage has"):
        torch_tensors(tmp_path)


@pytest.mark.parametrize(
    "state", [[1], {"a": 1}, {1: torch.zeros(1)}, {"a": {"b": torch.zeros(1)}}, 3]
)
def test_what_are_no_named_tensors_is_refused(tmp_path, state):
    save(tmp_path / "pytorch_model.bin", state)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin .* is damaged"):
        torch_tensors(tmp_path)


@pytest.mark.parametrize(
    "program",
    [
        b".",
        b"}",
        b"\x80\x02]" + b"0" * 3,
        b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
        b"\x80\x02ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02(((((((t.",
        b"\x80\x02h\x05.",
        b"\x80\x02}q\x00(X\x01\x00\x00\x00ah\x00u.",
        b"\x80\x02" + b"N0" * 10,
        b"\x80\x02" + b"N" * 2**20 + b"N.",
    ],
    ids=range(11),
)
def test_programs_that_do_something_else_are_refused(tmp_path, program):
    path = tmp_path / "pytorch_model.bin"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin .* is damaged"):
        torch_tensors(tmp_path)
    path.write_bytes(program)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin .* is damaged"):
        torch_tensors(tmp_path)
