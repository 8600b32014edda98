"""Damaged and foreign directories; intact ones are tested with the backbone."""

import json

import keras_hub
import pytest

from keras_albert import AlbertBackbone
from keras_albert.presets import BUILTIN_PRESETS
from tests.foreign_models import TINY


@pytest.fixture(scope="module")
def backbone():
    return AlbertBackbone(**(TINY | {"num_layers": 1}))


@pytest.fixture
def preset(backbone, tmp_path):
    backbone.save_to_preset(tmp_path)
    return tmp_path


def test_a_missing_config_is_refused(preset):
    (preset / "config.json").unlink()
    with pytest.raises(ValueError, match=r"contains no `config\.json`"):
        AlbertBackbone.from_preset(preset)


@pytest.mark.parametrize("name", ["keras_hub>GemmaBackbone", "os>system"])
def test_a_foreign_class_is_refused(preset, name):
    path = preset / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"registered_name": name}))
    with pytest.raises(ValueError, match="which is not an ALBERT model"):
        AlbertBackbone.from_preset(preset)


@pytest.mark.parametrize("name", ["../model_00000.weights.h5", "/model.weights.h5", 3])
def test_a_shard_outside_the_directory_is_refused(preset, name):
    (preset / "model.weights.h5").unlink()
    index = {"metadata": {}, "weight_map": {"/layers/dense/vars": name}}
    (preset / "model.weights.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="plain file names"):
        AlbertBackbone.from_preset(preset)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": [1]}'])
def test_a_damaged_index_is_refused(preset, text):
    (preset / "model.weights.h5").rename(preset / "model_00000.weights.h5")
    (preset / "model.weights.json").write_text(text)
    with pytest.raises(ValueError, match=r"model\.weights\.json.* is damaged"):
        AlbertBackbone.from_preset(preset)


def test_the_metadata_names_the_tasks_of_keras_hub(preset):
    metadata = json.loads((preset / "metadata.json").read_text())
    assert {"MaskedLM", "TextClassifier"} <= set(metadata["tasks"])
    for name in metadata["tasks"]:
        assert issubclass(getattr(keras_hub.models, name), keras_hub.models.Task)


def test_a_file_in_the_place_of_the_preset_is_refused(backbone, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError):
        backbone.save_to_preset(tmp_path / "file")


def test_the_builtin_names_are_those_of_keras_hub_and_all_released_models():
    import keras_hub

    assert set(keras_hub.models.AlbertBackbone.presets) <= set(BUILTIN_PRESETS)
    for size in ("base", "large", "xlarge", "xxlarge"):
        for version in (1, 2):
            preset = BUILTIN_PRESETS[f"albert_{size}_v{version}_en_uncased"]
            assert (preset.size, preset.version) == (size, version)
            assert preset.handle == f"hf://albert/albert-{size}-v{version}"
    for name, preset in BUILTIN_PRESETS.items():
        assert preset.name == name
