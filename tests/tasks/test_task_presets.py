"""The preset of one task, loaded as another."""

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertPretrainer,
    AlbertTextEmbedder,
    AlbertTokenizer,
)
from tests.one_backend import on_one_backend
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm, make_pretrainer

pytestmark = on_one_backend

PAIRS = (["the old [MASK]", "rain"], ["on the hill", "[MASK] by the sea"])


def assert_same_weights(ours, theirs):
    np.testing.assert_equal(ours.get_weights(), theirs.get_weights())


@pytest.fixture(scope="module")
def pretrainer(toy_proto):
    model = make_pretrainer(toy_proto)
    model.masked_lm_head.output_bias.assign(np.arange(40) / 40)
    return model


@pytest.fixture(scope="module")
def preset(pretrainer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("presets") / "pretrained"
    pretrainer.save_to_preset(directory)
    return directory


def test_a_masked_lm_keeps_the_head_of_a_pretrainer(preset, pretrainer):
    masked_lm = AlbertMaskedLM.from_preset(preset)
    np.testing.assert_allclose(
        masked_lm.predict(PAIRS, verbose=0),
        pretrainer.predict(PAIRS, verbose=0)["masked_lm"],
        atol=1e-5,
    )
    assert masked_lm.fill_mask(PAIRS) == pretrainer.fill_mask(PAIRS)


def test_a_pretrainer_keeps_the_head_of_a_masked_lm(toy_proto, tmp_path):
    masked_lm = make_masked_lm(toy_proto)
    masked_lm.masked_lm_head.output_bias.assign(np.arange(40) / 40)
    masked_lm.save_to_preset(tmp_path / "preset")
    pretrainer = AlbertPretrainer.from_preset(tmp_path / "preset")
    assert_same_weights(pretrainer.masked_lm_head, masked_lm.masked_lm_head)
    assert_same_weights(pretrainer.backbone, masked_lm.backbone)


@pytest.mark.parametrize(
    ("cls", "arguments"),
    [(AlbertClassifier, {"labels": ["bad", "good"]}), (AlbertTextEmbedder, {})],
)
def test_another_task_takes_the_backbone(preset, pretrainer, cls, arguments):
    task = cls.from_preset(preset, **arguments)
    assert_same_weights(task.backbone, pretrainer.backbone)
    assert task.backbone.pretrained
    # The backbone reads no more than this, and a new preprocessor makes no more.
    assert task.preprocessor.max_length == 32
    assert len(task.predict(["the sea " * 50], verbose=0)) == 1


@pytest.mark.parametrize("cls", [AlbertPretrainer, AlbertMaskedLM])
def test_a_task_hands_its_backbone_what_only_that_knows(preset, pretrainer, cls):
    task = cls.from_preset(preset, remat=True, unroll=True, dtype="mixed_bfloat16")
    assert task.backbone.remat
    assert task.backbone.unroll
    assert task.backbone.compute_dtype == "bfloat16"
    assert task.backbone.pretrained
    assert_same_weights(task.masked_lm_head, pretrainer.masked_lm_head)
    assert_same_weights(task.backbone, pretrainer.backbone)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_mixed_preset_has_the_current_policy(make_classifier, tmp_path, policy):
    saved = make_classifier(num_classes=2, dtype=policy)
    assert saved.backbone.compute_dtype != "float32"
    saved.save_to_preset(tmp_path / "preset")
    loaded = AlbertClassifier.from_preset(tmp_path / "preset")
    assert loaded.backbone.compute_dtype == "float32"
    assert_same_weights(loaded, saved)
    deeper = AlbertClassifier.from_preset(tmp_path / "preset", remat=True)
    assert deeper.backbone.compute_dtype == "float32"
    assert AlbertBackbone.from_preset(tmp_path / "preset").compute_dtype == "float32"
    same = AlbertClassifier.from_preset(tmp_path / "preset", dtype=policy)
    assert same.backbone.compute_dtype == saved.backbone.compute_dtype


@pytest.mark.parametrize("name", ["remat", "no_such_argument"])
def test_what_a_task_does_not_know_is_an_error(preset, pretrainer, name):
    with pytest.raises(TypeError, match=f"AlbertClassifier has no argument `{name}`"):
        AlbertClassifier(pretrainer.backbone, num_classes=2, **{name: True})
    with pytest.raises(TypeError, match=f"AlbertClassifier has no argument `{name}`"):
        AlbertClassifier.from_preset(
            preset, backbone=pretrainer.backbone, num_classes=2, **{name: True}
        )


@pytest.mark.parametrize(
    ("cls", "unknown", "nearest"),
    [
        (AlbertClassifier, "num_clases", "num_classes"),
        (AlbertClassifier, "num_layer", "num_layers"),
        (AlbertMaskedLM, "dropuot", "dropout"),
        (AlbertMaskedLM, "load_weight", "load_weights"),
        (AlbertBackbone, "rmat", "remat"),
        (AlbertTokenizer, "text_rule", "text_rules"),
    ],
)
def test_a_misspelt_argument_has_a_nearest_one(preset, cls, unknown, nearest):
    message = f"^{cls.__name__} has no argument `{unknown}`. Did you mean `{nearest}`"
    with pytest.raises(TypeError, match=message):
        cls.from_preset(preset, **{unknown: 2})


@pytest.mark.parametrize("part", ["backbone", "preprocessor"])
def test_a_part_of_the_wrong_type_is_no_damage(preset, part):
    with pytest.raises(TypeError, match=f"^`{part}` must be an? .*Received: 'x'$"):
        AlbertClassifier.from_preset(preset, num_classes=2, **{part: "x"})


def test_arguments_of_any_model_are_known(preset):
    options = {"compile": False, "name": "mine", "trainable": False}
    task = AlbertMaskedLM.from_preset(preset, **options)
    assert (task.name, task.trainable) == ("mine", False)
