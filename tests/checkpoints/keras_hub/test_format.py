import os

import keras_hub
import numpy as np
import pytest

from keras_albert import AlbertBackbone
from keras_albert.checkpoints import export_checkpoint
from keras_albert.checkpoints import keras_hub as keras_hub_format
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import (
    TINY,
    change_config,
    change_json,
    keras_hub_model,
    ragged_inputs,
)
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

ARGUMENTS = {"num_groups": 2, "num_inner_repetitions": 2, "dropout": 0.2}
INPUTS = ragged_inputs()
WEIGHTS = "model.weights.h5"


@pytest.fixture(scope="module")
def theirs():
    return keras_hub_model(**ARGUMENTS)


@pytest.fixture
def preset(theirs, tmp_path):
    theirs.save_to_preset(str(tmp_path))
    return tmp_path


def test_a_preset_of_theirs_loads_as_ours(theirs, preset):
    ours = AlbertBackbone.from_preset(preset)
    assert type(ours) is AlbertBackbone
    assert ours.pretrained
    for name in keras_hub_format.ARGUMENTS:
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.attention_dropout == 0.2
    expected, found = to_numpy(theirs(INPUTS)), to_numpy(ours(INPUTS))
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=2e-5)


def test_a_round_trip_changes_nothing(theirs, preset, tmp_path):
    export_checkpoint(
        AlbertBackbone.from_preset(preset), tmp_path / "back", "keras-hub"
    )
    back = keras_hub.models.AlbertBackbone.from_preset(str(tmp_path / "back"))
    config, expected = back.get_config(), theirs.get_config()
    assert config | {"name": 0} == expected | {"name": 0}
    for mine, other in zip(back.weights, theirs.weights, strict=True):
        assert mine.path == other.path
        np.testing.assert_array_equal(to_numpy(mine.value), to_numpy(other.value))


def test_presets_of_the_old_name_are_read(preset):
    old = "keras_nlp>AlbertBackbone"
    change_config(preset, registered_name=old)
    assert AlbertBackbone.from_preset(preset).pretrained


def _update(**changes):
    return lambda preset: change_json(preset / "config.json", "config", **changes)


QUANTIZED = {"module": "keras", "class_name": "DTypePolicyMap", "config": {}}
CONTRADICTS = "its config do not belong together"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: os.truncate(p / WEIGHTS, 9000), r"model\.weights\.h5 .* is damaged"),
        (lambda p: (p / WEIGHTS).unlink(), r"neither `model\.weights\.h5` nor"),
        (_update(hidden_dim=32), CONTRADICTS),
        (_update(num_inner_repetitions=1), CONTRADICTS),
        (_update(vocabulary_size=9), CONTRADICTS),
        (_update(dtype=QUANTIZED), "contains quantized weights"),
        (lambda p: change_config(p, config=None), "contains no `config`"),
    ],
)
def test_damaged_presets_are_refused(preset, damage, message):
    damage(preset)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(preset)


def test_shards_are_read(theirs, tmp_path):
    theirs.save_to_preset(str(tmp_path), max_shard_size=2e-5)
    assert not (tmp_path / "model.weights.h5").exists()
    ours = AlbertBackbone.from_preset(tmp_path)
    expected = to_numpy(theirs.pooled_dense.kernel.value)
    np.testing.assert_array_equal(to_numpy(ours.pooler.kernel.value), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "gelu"}, "activation='gelu'"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon=1e-05"),
        ({"num_groups": 3}, "num_groups"),
    ],
)
def test_what_theirs_cannot_compute_is_refused(arguments, message, tmp_path):
    ours = AlbertBackbone(**(TINY | arguments))
    with pytest.raises(ValueError, match=message):
        export_checkpoint(ours, tmp_path, "keras-hub")


def test_the_vocabulary_is_read_as_it_is(preset, tiny_proto):
    known = open_checkpoint(preset)
    assert known.format.name == "KerasHub"
    with pytest.raises(ValueError, match=r"has no assets/tokenizer/vocabulary\.spm"):
        known.read_vocabulary()
    assets = preset / "assets" / "tokenizer"
    assets.mkdir(parents=True)
    (assets / "vocabulary.spm").write_bytes(tiny_proto)
    assert known.read_vocabulary() == tiny_proto
