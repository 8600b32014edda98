"""What `import keras_albert` loads, and what is loaded when it is used."""

import json

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert import AlbertBackbone, AlbertClassifier
from tests.foreign_models import TINY
from tests.programs import run_python

_PROGRAM = """
import json, os, sys
import keras, keras_hub, h5py
known = set(sys.modules)
import keras_albert

def loaded():
    return sorted(set(sys.modules) - known)

# In a copy of this process, which has imported no more than this.
if not os.fork():
    from keras_albert.tasks.table import export_writer
    print(json.dumps(loaded()))
    export_writer("onnx")
    print(json.dumps(loaded()))
    print(json.dumps(keras_albert.checkpoints.convert_checkpoint.__name__))
    print(json.dumps(loaded()), flush=True)
    os._exit(0)
os.wait()
folder, inputs = sys.argv[1], json.loads(sys.argv[2])
inputs = {name: keras.ops.array(rows, "int32") for name, rows in inputs.items()}

def show(model):
    outputs = keras.ops.convert_to_numpy(model(inputs)[0])
    print(json.dumps([type(model).__name__, outputs.tolist()]))

show(keras.models.load_model(f"{folder}/model.keras"))
show(keras_hub.models.TextClassifier.from_preset(f"{folder}/preset"))
show(keras_albert.AlbertClassifier.from_preset(f"{folder}/theirs", preprocessor=None))
"""
_INPUTS = {
    "token_ids": [[2, 5, 6, 3]],
    "segment_ids": [[0, 0, 0, 0]],
    "padding_mask": [[1, 1, 1, 1]],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A directory with a model in each form that it can be loaded from."""
    folder = tmp_path_factory.mktemp("models")
    keras.utils.set_random_seed(0)
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1}))
    model = AlbertClassifier(backbone, num_classes=3, preprocessor=None)
    model.save(folder / "model.keras")
    model.save_to_preset(folder / "preset")
    model.export_to_transformers(folder / "theirs")
    inputs = {name: keras.ops.array(x, "int32") for name, x in _INPUTS.items()}
    return folder, keras.ops.convert_to_numpy(model(inputs)[0])


@pytest.fixture(scope="module")
def printed(folder):
    """What the program prints, in a process of its own."""
    variables = {"KERAS_BACKEND": keras.config.backend()}
    lines = run_python("-c", _PROGRAM, folder[0], json.dumps(_INPUTS), **variables)
    return [json.loads(line) for line in lines.splitlines()]


def late(modules):
    """Return the folders that are imported on use, among names of modules."""
    folders = {module.split(".")[1] for module in modules if "keras_albert." in module}
    around = {"cli", "serve", "tools"}
    return folders & {"checkpoints", "exports", "pretraining", "training", *around}


def test_modules_are_loaded_when_they_are_used(printed):
    first, second, name, third = printed[:4]
    # What Keras and KerasHub import by themselves is not ours to answer for.
    packages = {module.split(".")[0] for module in first}
    assert "keras_albert" in packages
    idle = {"transformers", "matplotlib", "pandas", "pytest"}
    assert not packages & (idle | {"tensorflow", "tensorflow_text", "torch", "jax"})
    assert not late(first)
    assert late(second) == {"exports"}
    assert name == "convert_checkpoint"
    assert late(third) == {"exports", "checkpoints"}


_LAZY = """
import sys
import keras_albert, keras_albert.cli
heavy = {"h5py", "keras", "keras_hub", "numpy", "rich"}
print(*heavy & set(sys.modules))
print(keras_albert.AlbertClassifier.__name__, "keras_hub" in sys.modules)
"""
_LOADS = """
import keras, keras_albert, sys
print(type(keras.models.load_model(sys.argv[1])).__name__)
"""


def test_the_package_imports_keras_when_it_is_used():
    lines = run_python("-c", _LAZY, KERAS_BACKEND=keras.config.backend())
    assert lines.splitlines() == ["", "AlbertClassifier True"]


def test_keras_loads_a_file_after_only_this_import(folder):
    backend = keras.config.backend()
    path = folder[0] / "model.keras"
    assert run_python("-c", _LOADS, path, KERAS_BACKEND=backend) == "AlbertClassifier\n"


def test_names_of_the_package():
    assert set(keras_albert.__all__) <= set(dir(keras_albert))
    everything = {}
    exec("from keras_albert import *", everything)  # noqa: S102
    assert set(keras_albert.__all__) <= set(everything)
    with pytest.raises(AttributeError, match="no attribute 'server'"):
        keras_albert.server  # noqa: B018


def test_models_load_after_only_this_import(printed, folder):
    assert [name for name, _ in printed[4:]] == ["AlbertClassifier"] * 3
    for _, outputs in printed[4:]:
        np.testing.assert_allclose(outputs, folder[1], atol=1e-5)
