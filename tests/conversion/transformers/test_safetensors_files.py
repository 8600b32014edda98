import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from keras_albert.conversion.transformers.safetensors_files import (
    INDEX_FILE,
    SINGLE_FILE,
    safetensors_of,
    write_safetensors,
)

TENSORS = {name: np.full((2, 3), ord(name), "float32") for name in "abcdef"}
WEIGHT_MAP = {name: f"model-{ord(name) % 3}.safetensors" for name in TENSORS}


def read(directory):
    return {name: x.read() for name, x in safetensors_of(directory).items()}


@pytest.fixture
def single(tmp_path):
    save_file(TENSORS, tmp_path / SINGLE_FILE)
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


@pytest.mark.parametrize("kind", ["single", "shards"])
def test_tensors_are_read(kind, request):
    directory = request.getfixturevalue(kind)
    found = read(directory)
    assert found.keys() == TENSORS.keys()
    for name, expected in TENSORS.items():
        np.testing.assert_array_equal(found[name], expected)
    assert safetensors_of(directory)["b"].shape == (2, 3)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(single, kept):
    path = single / SINGLE_FILE
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"model\.safetensors \(.*is damaged"):
        read(single)


def test_a_file_of_noise_is_refused(single):
    (single / SINGLE_FILE).write_bytes(b"\xff" * 999)
    with pytest.raises(ValueError, match=r"999 bytes.*damaged"):
        read(single)


def test_a_directory_without_weights_is_refused(single):
    (single / SINGLE_FILE).unlink()
    with pytest.raises(ValueError, match="contains neither"):
        read(single)


def _write_header(path, header, data=b""):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_a_header_that_claims_more_than_the_file_holds_is_refused(single):
    ten_gigabytes = 10 * 1024**3
    path = single / SINGLE_FILE
    path.write_bytes(ten_gigabytes.to_bytes(8, "little") + b"{}" * 50)
    with pytest.raises(ValueError, match=r"108 bytes.*damaged"):
        read(single)
    claim = {"dtype": "F32", "shape": [ten_gigabytes // 4]}
    _write_header(path, {"a": claim | {"data_offsets": [0, ten_gigabytes]}}, b"1234")
    with pytest.raises(ValueError, match="damaged"):
        read(single)
    _write_header(path, {"a": claim | {"data_offsets": [0, 4]}}, b"1234")
    with pytest.raises(ValueError, match="damaged"):
        read(single)


def test_a_tensor_named_twice_is_refused(single):
    tensor = '"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    text = f"{{{tensor}, {tensor}}}".encode()
    content = len(text).to_bytes(8, "little") + text + b"1234"
    (single / SINGLE_FILE).write_bytes(content)
    with pytest.raises(ValueError, match="it has 'a' twice"):
        read(single)


def test_tensors_that_share_bytes_are_refused(single):
    claim = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    _write_header(single / SINGLE_FILE, {"a": claim, "b": claim}, b"1234")
    with pytest.raises(ValueError, match=r"is damaged.*Copy or download it again"):
        read(single)


def test_what_is_written_is_read(single, tmp_path):
    write_safetensors(tmp_path, TENSORS)
    found = read(tmp_path)
    for name, expected in TENSORS.items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.parametrize(
    "shard",
    [
        "../model-0.safetensors",
        "sub/model-0.safetensors",
        "/etc/passwd",
        "..\\model-0.safetensors",
        "C:model-0.safetensors",
        "..",
        ".",
        "",
        "model-0.safetensors\0",
        7,
        ["model-0.safetensors"],
    ],
)
def test_a_shard_outside_the_directory_is_refused(shards, shard):
    _write_index(shards, WEIGHT_MAP | {"a": shard})
    with pytest.raises(ValueError, match="plain file names"):
        read(shards)


def test_a_missing_shard_is_named(shards):
    (shards / "model-1.safetensors").unlink()
    with pytest.raises(
        ValueError, match=r"names model-1\.safetensors, which does not exist"
    ):
        read(shards)


def test_a_tensor_that_its_shard_does_not_hold_is_named(shards):
    _write_index(shards, WEIGHT_MAP | {"g": WEIGHT_MAP["b"]})
    with pytest.raises(ValueError, match="do not contain: g"):
        read(shards)


def test_a_tensor_that_is_in_two_shards_is_refused(shards):
    shard = WEIGHT_MAP["b"]
    part = {name: TENSORS[name] for name in TENSORS if WEIGHT_MAP[name] == shard}
    save_file(part | {"a": TENSORS["a"] + 1}, shards / shard)
    with pytest.raises(ValueError, match=rf"{shard} contains tensors that .*: a\."):
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
