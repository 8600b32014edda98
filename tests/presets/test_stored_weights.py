"""The contents of weight files, and false claims about them."""

import h5py
import keras
import numpy as np
import pytest

from keras_albert.presets import weight_files
from keras_albert.presets.weight_files import check_stored_weights, inspect_weights

KERNEL = "layers/dense/vars/0"
BIAS = "layers/dense/vars/1"


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])


@pytest.fixture
def path(model, tmp_path):
    path = tmp_path / "model.weights.h5"
    model.save_weights(path)
    return path


def replace(path, value=None, name=BIAS, **options):
    with h5py.File(path, "a") as file:
        del file[name]
        file.create_dataset(name, data=value, **options)


def test_what_was_saved_is_listed(model, path):
    assert inspect_weights(path) == {BIAS: (3,), KERNEL: (4, 3)}
    check_stored_weights(model, path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_any_floating_point_type_will_do(dtype, tmp_path, model):
    path = tmp_path / "model.weights.h5"
    if dtype == "float64":
        model.save_weights(path)
        replace(path, np.zeros(3))
    else:
        dense = keras.layers.Dense(3, dtype=dtype)
        keras.Sequential([keras.Input((4,)), dense]).save_weights(path)
    check_stored_weights(model, path)


@pytest.mark.parametrize("dtype", ["int32", "bool", "complex64", "uint32", "S4"])
def test_numbers_of_another_kind_are_refused(model, path, dtype):
    replace(path, np.zeros(3, dtype))
    message = r"weights\.h5 and its config do not belong together"
    with pytest.raises(ValueError, match=message):
        check_stored_weights(model, path)
    # A name of a type changes none.
    with h5py.File(path, "a") as file:
        file[BIAS].attrs["dtype"] = "bfloat16"
    with pytest.raises(ValueError, match=message):
        check_stored_weights(model, path)


@pytest.mark.parametrize(
    "options",
    [
        {"shape": (3,), "dtype": "float32", "chunks": (1,)},
        {"shape": (10**12,), "dtype": "float32"},
        {"value": np.zeros(3, "float32"), "compression": "gzip", "chunks": (3,)},
        {"value": np.zeros(10**6, "float32"), "compression": "gzip"},
        {"value": h5py.Empty("float32")},
    ],
    ids=["unwritten", "huge", "compressed", "bomb", "empty"],
)
def test_arrays_that_are_not_there_are_refused(model, path, options):
    replace(path, **options)
    with pytest.raises(ValueError, match=r"weights\.h5 \(.*only a part of"):
        check_stored_weights(model, path)


def test_values_in_other_files_are_refused(model, path, tmp_path):
    (tmp_path / "raw").write_bytes(b"\0" * 12)
    outside = [(str(tmp_path / "raw"), 0, 12)]
    replace(path, shape=(3,), dtype="float32", external=outside)
    with pytest.raises(ValueError, match=r"weights\.h5 .*are in another file"):
        check_stored_weights(model, path)


def test_numbers_of_an_unknown_format_are_refused(model, path):
    """HDF5 would read others in their place."""
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_ebias(125)
    with h5py.File(path, "a") as file:
        del file[BIAS]
        shape = h5py.h5s.create_simple((3,))
        array = h5py.h5d.create(file.id, BIAS.encode(), kind, shape)
        array.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones(3, "float32"))
        assert file[BIAS].dtype.kind == "f"
    with pytest.raises(ValueError, match=r"weights\.h5 \(.*have an unknown format"):
        check_stored_weights(model, path)


def test_two_arrays_in_one_place_are_refused(model, path):
    with h5py.File(path) as file:
        kernel, bias = (
            file[name].id.get_offset().to_bytes(8, "little") for name in (KERNEL, BIAS)
        )
    content = path.read_bytes()
    assert content.count(bias) == 1
    path.write_bytes(content.replace(bias, kernel))
    with pytest.raises(ValueError, match=r"weights\.h5 \(.*arrays overlap"):
        check_stored_weights(model, path)


def test_one_more_array_is_refused(model, path):
    with h5py.File(path, "a") as file:
        file["layers/more/vars/0"] = np.zeros(7, "float32")
    with pytest.raises(ValueError, match=r"Only in the file: float \(7,\) x 1"):
        check_stored_weights(model, path)


@pytest.mark.parametrize("is_deep", [True, False])
def test_names_are_bounded(model, path, is_deep, monkeypatch):
    """Files of 0.3 MB took a minute to walk through."""
    monkeypatch.setattr(weight_files, "MAX_NAMES", 50)
    with h5py.File(path, "a") as file:
        group = file
        for number in range(5000 if is_deep else 60):
            made = group.create_group(f"{number}")
            group = made if is_deep else group
    with pytest.raises(ValueError, match="too many names, or too deep"):
        check_stored_weights(model, path)
