"""Safetensors and pickles, single and in shards: read, and refused if damaged."""

import importlib.util
import json
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_albert import AlbertBackbone
from keras_albert.checkpoints.transformers import (
    SAFETENSORS_FILE,
    stored_weights,
    write_safetensors,
)
from tests.foreign_models import save_transformers

torch = pytest.importorskip("torch")

INDEX_FILE = f"{SAFETENSORS_FILE}.index.json"
PICKLED = "pytorch_model.bin"

TENSORS = {name: np.full((2, 3), ord(name), "float32") for name in "abcdef"}
WEIGHT_MAP = {name: f"model-{ord(name) % 3}.safetensors" for name in TENSORS}


def read(directory):
    return {name: x.read() for name, x in stored_weights(directory).items()}


@pytest.fixture
def single(tmp_path):
    save_file(TENSORS, tmp_path / SAFETENSORS_FILE)
    return tmp_path


@pytest.fixture
def shards(tmp_path):
    for shard in set(WEIGHT_MAP.values()):
        part = {name: TENSORS[name] for name in TENSORS if WEIGHT_MAP[name] == shard}
        save_file(part, tmp_path / shard)
    _write_index(tmp_path, WEIGHT_MAP)
    return tmp_path


def _write_index(directory, weight_map):
    (directory / INDEX_FILE).write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize("kind", ["single", "shards", "ours"])
def test_tensors_are_read(kind, request, tmp_path):
    if kind == "ours":
        write_safetensors(tmp_path, TENSORS)
        (tmp_path / "new").touch()
        modes = {path.stat().st_mode for path in tmp_path.iterdir()}
        assert len(modes) == 1
    directory = tmp_path if kind == "ours" else request.getfixturevalue(kind)
    found = read(directory)
    np.testing.assert_equal(found, TENSORS)
    assert stored_weights(directory)["b"].shape == (2, 3)


def test_a_directory_without_weights_has_none(single):
    (single / SAFETENSORS_FILE).unlink()
    assert read(single) == {}


def header(tensors, size=None, data=b"1234"):
    """The content of a file, whose header may lie about its size."""
    text = tensors if isinstance(tensors, bytes) else json.dumps(tensors).encode()
    return (size or len(text)).to_bytes(8, "little") + text + data


GIGABYTES = 10 * 1024**3
LARGE = {"dtype": "F32", "shape": [GIGABYTES // 4]}
ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
TWICE = f'"a": {json.dumps(ONE)}'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((size, r"model\.safetensors \(.*is damaged") for size in (0, 4, 100, -1)),
        (b"\xff" * 999, "999 bytes.*damaged"),
        (header(b"{}" * 50, GIGABYTES, b""), "108 bytes.*damaged"),
        (header({"a": LARGE | {"data_offsets": [0, GIGABYTES]}}), "damaged"),
        (header({"a": LARGE | {"data_offsets": [0, 4]}}), "damaged"),
        (header(f"{{{TWICE}, {TWICE}}}".encode()), "it has 'a' twice"),
        # They share their bytes.
        (header({"a": ONE, "b": ONE}), r"is damaged.*Copy or download it again"),
    ],
)
def test_a_damaged_file_is_refused(single, content, message):
    path = single / SAFETENSORS_FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:content] if isinstance(content, int) else content)
    with pytest.raises(ValueError, match=message):
        read(single)


@pytest.mark.parametrize(
    "shard",
    [
        *("../model-0.safetensors", "sub/model-0.safetensors", "/a", "..", "."),
        *("..\\model-0.safetensors", "C:model-0.safetensors", "model-0.safetensors\0"),
        *("", 7),
    ],
)
def test_a_shard_outside_the_directory_is_refused(shards, shard):
    _write_index(shards, WEIGHT_MAP | {"a": shard})
    with pytest.raises(ValueError, match="which is not a file in its directory"):
        read(shards)


def test_a_tensor_that_is_in_two_shards_is_refused(shards):
    shard = WEIGHT_MAP["b"]
    part = {name: TENSORS[name] for name in TENSORS if WEIGHT_MAP[name] == shard}
    save_file(part | {"a": TENSORS["a"] + 1}, shards / shard)
    with pytest.raises(ValueError, match=r"index\.json names contain 'a'"):
        read(shards)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[1]", "{}", '{"weight_map": 3}', '{"weight_map": ["a"]}', "[" * 100_000),
        # The same tensor twice.
        '{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}',
    ],
)
def test_a_damaged_index_is_refused(shards, text):
    (shards / INDEX_FILE).write_text(text)
    with pytest.raises(ValueError, match=r"index\.json.* is damaged"):
        read(shards)


def save(directory, state, stream=False):
    """Write a pickle as PyTorch does, or as before 1.6: in one stream."""
    path = directory / PICKLED
    torch.save(state, path, _use_new_zipfile_serialization=not stream)
    return path


def test_pickled_shards_are_read(tmp_path):
    save_transformers(tmp_path, num_layers=1)
    expected = AlbertBackbone.from_preset(tmp_path).get_weights()
    state = load_file(tmp_path / SAFETENSORS_FILE)
    (tmp_path / PICKLED).write_bytes(b"not read")
    stored_weights(tmp_path)
    for name in (PICKLED, SAFETENSORS_FILE):
        (tmp_path / name).unlink()
    weight_map = {}
    for number in range(2):
        names, shard = sorted(state)[number::2], f"pytorch_model-{number}.bin"
        part = {name: torch.from_numpy(state[name]) for name in names}
        torch.save(part, tmp_path / shard)
        weight_map |= dict.fromkeys(names, shard)
    index = tmp_path / f"{PICKLED}.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    found = AlbertBackbone.from_preset(tmp_path).get_weights()
    np.testing.assert_equal(found, expected)


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
    save(tmp_path, state, stream)
    found = read(tmp_path)
    assert found.keys() == state.keys()
    for name, value in state.items():
        expected = value.detach()
        expected = expected.float() if dtype == "bfloat16" else expected
        np.testing.assert_array_equal(found[name], expected.numpy(), strict=True)
        assert stored_weights(tmp_path)[name].shape == tuple(value.shape)


def test_without_pytorch_an_error_says_what_to_do(tmp_path, monkeypatch):
    path = save(tmp_path, {"a": torch.ones(2)})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'pip install "torch>=2\.6"') as caught:
        read(tmp_path)
    assert str(path) in str(caught.value)


class Harmful:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("how", ["zip", "stream", "plain"])
def test_code_is_never_run(tmp_path, how):
    victim = tmp_path / "victim"
    if how == "plain":
        (tmp_path / PICKLED).write_bytes(pickle.dumps({"a": Harmful(victim)}))
    else:
        save(tmp_path, {"a": Harmful(victim)}, stream=how == "stream")
    with pytest.raises(ValueError, match=r"model\.bin.*`save_pretrained`"):
        read(tmp_path)
    assert not victim.exists()


DAMAGED = r"pytorch_model\.bin.* is damaged.*`save_pretrained`"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kept", [0, 3, 10, 200, -200, -10])
def test_a_truncated_pickle_is_refused(tmp_path, kept, stream):
    path = save(tmp_path, {"a": torch.ones(100), "b": torch.ones(100)}, stream)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=DAMAGED):
        read(tmp_path)


def test_a_flipped_bit_in_an_archive_is_found(tmp_path):
    path = save(tmp_path, {"a": torch.full((100,), 1.5)})
    content = path.read_bytes()
    number = np.float32(1.5).tobytes()
    path.write_bytes(content.replace(number, np.float32(2.5).tobytes(), 1))
    with pytest.raises(ValueError, match=DAMAGED):
        read(tmp_path)


def expand(tensor):
    return tensor[:1, :1].expand(10**5, 10**5)


def overlap(tensor):
    return tensor.as_strided((12, 12), (1, 0))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("lie", [expand, overlap])
def test_a_tensor_larger_than_its_numbers_is_refused(tmp_path, lie, stream):
    save(tmp_path, {"a": lie(torch.zeros(3, 4).half())}, stream)
    with pytest.raises(ValueError, match=r"larger than its storage|claims .* numbers"):
        read(tmp_path)


def test_views_of_one_storage_may_not_add_up(tmp_path):
    tensor = torch.zeros(3000, 4)
    save(tmp_path, {f"{shift}": tensor[shift:] for shift in range(100)})
    with pytest.raises(ValueError, match="need more bytes than it has"):
        read(tmp_path)


def rewrite(path, change, **options):
    """Write a zip file again, with changed members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_a_zip_bomb_is_refused(tmp_path):
    path = save(tmp_path, {"a": torch.zeros(10**6)})
    rewrite(path, lambda members: None, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    with pytest.raises(ValueError, match="its members are compressed"):
        read(tmp_path)


def test_members_that_overlap_are_refused(tmp_path):
    path = save(tmp_path, {"a": torch.zeros(10**4)})
    with zipfile.ZipFile(path, "a") as archive:
        (data,) = (x for x in archive.infolist() if x.filename.endswith("data/0"))
        for number in range(9):
            again = zipfile.ZipInfo(data.filename[:-1] + str(number + 1))
            for name in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(again, name, getattr(data, name))
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
        archive._didModify = True
    with pytest.raises(ValueError, match=DAMAGED):
        read(tmp_path)


def test_a_storage_that_claims_more_than_there_is_is_refused(tmp_path):
    path = save(tmp_path, {"a": torch.zeros(100)})

    def shorten(members):
        (name,) = (name for name in members if name.endswith("data/0"))
        members[name] = members[name][:-4]

    rewrite(path, shorten)
    with pytest.raises(ValueError, match="need more bytes than it has"):
        read(tmp_path)


@pytest.mark.parametrize(
    "state", [[1], {"a": 1}, {1: torch.zeros(1)}, {"a": {"b": torch.zeros(1)}}, 3]
)
def test_what_are_no_named_tensors_is_refused(tmp_path, state):
    save(tmp_path, state)
    with pytest.raises(ValueError, match=DAMAGED):
        read(tmp_path)


# The beginning of a stream of tensors.
BEGINNING = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {}))


@pytest.mark.parametrize(
    "program",
    [
        b".",
        b"}",
        b"\x80\x02]" + b"0" * 3,
        # Objects that PyTorch would make, of two gigabytes.
        b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
        b"\x80\x02ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R.",
        # Texts of as many bytes.
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02(((((((t.",
        b"\x80\x02h\x05.",
        b"\x80\x02}q\x00(X\x01\x00\x00\x00ah\x00u.",
        # A storage of 10**12 numbers.
        b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00"
        b"\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu\x8a\x06"
        b"\x00\x10\xa5\xd4\xe8\x00tQK\x00K\x01\x85K\x01\x85\x89}tRs.",
    ],
    ids=range(10),
)
def test_programs_that_do_something_else_are_refused(tmp_path, program):
    path = tmp_path / PICKLED
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
    tracemalloc.start()
    try:
        for content in (path.read_bytes(), program, BEGINNING + program):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=DAMAGED):
                read(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()
