"""What `import keras_albert` loads, and what is loaded when it is used."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert import AlbertBackbone, AlbertClassifier

# What programs in a process of their own begin with.
_LOADED = """
import json, sys
import keras, keras_hub, h5py
known = set(sys.modules)
import keras_albert

def loaded():
    return sorted(set(sys.modules) - known)
"""
_INPUTS = {
    "token_ids": [[2, 5, 6, 3]],
    "segment_ids": [[0, 0, 0, 0]],
    "padding_mask": [[1, 1, 1, 1]],
}


def run(program, *arguments):
    """Run a program after `_LOADED`, and return what it prints."""
    finished = subprocess.run(
        [sys.executable, "-c", _LOADED + program, *map(str, arguments)],
        env=os.environ | {"KERAS_BACKEND": keras.config.backend()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not finished.returncode, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


def late(modules):
    """Return the folders that are imported on use, among names of modules."""
    folders = {module.split(".")[1] for module in modules if "keras_albert." in module}
    return folders & {"commands", "conversion", "pretraining", "serving", "training"}


def test_modules_are_loaded_when_they_are_used():
    program = """
from keras_albert.tasks.base.export_formats import export_writer
print(json.dumps(loaded()))
export_writer("onnx")
print(json.dumps(loaded()))
print(json.dumps(keras_albert.conversion.convert_checkpoint.__name__))
print(json.dumps(loaded()))
"""
    first, second, name, third = run(program)
    # What Keras and KerasHub import by themselves is not ours to answer for.
    packages = {module.split(".")[0] for module in first}
    assert "keras_albert" in packages
    idle = {"transformers", "safetensors", "matplotlib", "pandas", "pytest"}
    assert not packages & (idle | {"tensorflow", "tensorflow_text", "torch", "jax"})
    assert not late(first)
    assert late(second) == {"serving"}
    assert name == "convert_checkpoint"
    assert late(third) == {"serving", "conversion"}


def test_names_of_the_package():
    assert set(keras_albert.__all__) <= set(dir(keras_albert))
    everything = {}
    exec("from keras_albert import *", everything)  # noqa: S102
    assert set(keras_albert.__all__) <= set(everything)
    with pytest.raises(AttributeError, match="no attribute 'server'"):
        keras_albert.server  # noqa: B018


def test_models_load_after_only_this_import(tmp_path):
    keras.utils.set_random_seed(0)
    backbone = AlbertBackbone(
        vocabulary_size=20,
        num_layers=1,
        num_heads=2,
        embedding_dim=4,
        hidden_dim=8,
        intermediate_dim=16,
    )
    model = AlbertClassifier(backbone, num_classes=3, preprocessor=None)
    model.save(tmp_path / "model.keras")
    model.save_to_preset(tmp_path / "preset")
    model.export_to_transformers(tmp_path / "theirs")
    program = """
folder, inputs = sys.argv[1], json.loads(sys.argv[2])
inputs = {name: keras.ops.array(rows, "int32") for name, rows in inputs.items()}

def show(model):
    outputs = keras.ops.convert_to_numpy(model(inputs)[0])
    print(json.dumps([type(model).__name__, outputs.tolist()]))

show(keras.models.load_model(f"{folder}/model.keras"))
show(keras_hub.models.TextClassifier.from_preset(f"{folder}/preset"))
show(keras_albert.AlbertClassifier.from_preset(f"{folder}/theirs", preprocessor=None))
"""
    inputs = {name: keras.ops.array(x, "int32") for name, x in _INPUTS.items()}
    expected = keras.ops.convert_to_numpy(model(inputs)[0])
    models = run(program, tmp_path, json.dumps(_INPUTS))
    assert [name for name, _ in models] == ["AlbertClassifier"] * 3
    for _, outputs in models:
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
