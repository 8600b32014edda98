"""The settings of preprocessors, from KerasHub's presets and to them."""

import importlib.util
import json

import keras_hub
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertTokenClassifier,
    AlbertTokenizer,
)
from keras_albert.checkpoints import export_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import TINY, change_json
from tests.one_backend import on_one_backend
from tests.random_weights import fill_weights

pytestmark = on_one_backend

needs_their_preprocessing = pytest.mark.skipif(
    not any(map(importlib.util.find_spec, ("grain", "tensorflow"))),
    reason="KerasHub preprocesses with one of them",
)
SIZES = TINY | {"num_layers": 1, "vocabulary_size": 130, "max_sequence_length": 32}
LENGTHS = {"sequence_length": 16, "truncate": "waterfall"}
MASKS = LENGTHS | {
    "mask_selection_rate": 0.3,
    "mask_selection_length": 7,
    "mask_token_rate": 0.6,
    "random_token_rate": 0.2,
}
# Longer than the rows and of different lengths, so that both settings have an effect.
FIRST = ["the children of the village learned to read in the small red school"] * 2
SECOND = ["nobody asked for the change and the lamps go out", "full by noon"]


def theirs(kind, proto, settings):
    tokenizer = keras_hub.tokenizers.AlbertTokenizer(proto)
    cls = getattr(keras_hub.models, kind)
    options = {"num_classes": 3} if kind == "AlbertTextClassifier" else {}
    preprocessor = cls.preprocessor_cls(tokenizer, **settings)
    backbone = keras_hub.models.AlbertBackbone(**SIZES)
    return fill_weights(cls(backbone, preprocessor=preprocessor, **options))


def settings_of(preprocessor, names):
    return {name: getattr(preprocessor, name) for name in names}


def assert_same_logits(ours, other):
    """Compare the logits of a pair that is too long, with each side's preprocessor."""
    tokenizer = other.preprocessor.tokenizer
    packer = keras_hub.layers.MultiSegmentPacker(
        sequence_length=other.preprocessor.sequence_length,
        start_value=tokenizer.cls_token_id,
        end_value=tokenizer.sep_token_id,
        pad_value=tokenizer.pad_token_id,
        truncate=other.preprocessor.truncate,
    )
    ids, segments = packer((tokenizer(FIRST), tokenizer(SECOND)))
    ids = to_numpy(ids)
    inputs = {"token_ids": ids, "segment_ids": to_numpy(segments)}
    inputs["padding_mask"] = ids != 0
    if isinstance(ours, AlbertMaskedLM):
        # Masking is random, truncation is not.
        positions = np.tile(np.arange(1, 5), (2, 1))
        x, _ = ours.preprocessor.encode_for("prediction", (FIRST, SECOND))
        (mine,) = x.pack(np.arange(2), 16)
        expected = to_numpy(other(inputs | {"mask_positions": positions}))
        found = to_numpy(ours(mine | {"mask_positions": positions.astype("int32")}))
    else:
        expected = to_numpy(other(inputs))
        found = ours.predict((FIRST, SECOND), verbose=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


KINDS = {
    "AlbertTextClassifier": (AlbertClassifier, LENGTHS),
    "AlbertMaskedLM": (AlbertMaskedLM, MASKS),
}


@needs_their_preprocessing
@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_theirs_are_taken(tiny_proto, tmp_path, kind):
    cls, settings = KINDS[kind]
    other = theirs(kind, tiny_proto, settings)
    other.save_to_preset(str(tmp_path))
    ours = cls.from_preset(tmp_path)
    assert settings_of(ours.preprocessor, settings) == settings
    assert ours.preprocessor.max_sequence_length == 32
    assert_same_logits(ours, other)
    again = cls.preprocessor_cls.from_preset(tmp_path, truncate="round_robin")
    assert (again.sequence_length, again.truncate) == (16, "round_robin")


@needs_their_preprocessing
@pytest.mark.parametrize("kind", KINDS)
# KerasHub does not close the vocabulary file.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_settings_of_ours_are_written(tiny_proto, tmp_path, kind):
    cls, settings = KINDS[kind]
    preprocessor = cls.preprocessor_cls(AlbertTokenizer(tiny_proto), **settings)
    options = {"num_classes": 3} if cls is AlbertClassifier else {}
    ours = fill_weights(
        cls(AlbertBackbone(**SIZES), preprocessor=preprocessor, **options)
    )
    export_checkpoint(ours, tmp_path, "keras-hub")
    other = getattr(keras_hub.models, kind).from_preset(str(tmp_path))
    assert settings_of(other.preprocessor, settings) == settings
    if cls is AlbertMaskedLM:
        # KerasHub's head has another epsilon.
        ours = cls.from_preset(tmp_path)
    assert_same_logits(ours, other)


def test_what_depends_on_the_batch_is_written_as_it_is_at_most(tiny_proto, tmp_path):
    tokenizer = AlbertTokenizer(tiny_proto)
    preprocessor = AlbertMaskedLMPreprocessor(tokenizer, max_sequence_length=24)
    masked_lm = AlbertMaskedLM(AlbertBackbone(**SIZES), preprocessor=preprocessor)
    export_checkpoint(masked_lm, tmp_path, "keras-hub")
    written = json.loads((tmp_path / "preprocessor.json").read_text())["config"]
    assert written["sequence_length"] == 24
    assert written["mask_selection_length"] == preprocessor.mask_slots(24)


@needs_their_preprocessing
def test_their_default_length_is_ours_where_it_cuts_nothing_else(tiny_proto, tmp_path):
    theirs("AlbertTextClassifier", tiny_proto, {}).save_to_preset(str(tmp_path))
    found = AlbertClassifierPreprocessor.from_preset(tmp_path)
    assert (found.sequence_length, found.max_length) == (None, 32)


@pytest.fixture
def preset(tiny_proto, tmp_path):
    preprocessor = AlbertClassifierPreprocessor(AlbertTokenizer(tiny_proto), **LENGTHS)
    backbone = AlbertBackbone(**SIZES)
    task = AlbertClassifier(backbone, num_classes=3, preprocessor=preprocessor)
    export_checkpoint(task, tmp_path, "keras-hub")
    return tmp_path


def test_a_preprocessor_of_another_kind_takes_none(preset):
    found = AlbertTokenClassifier.preprocessor_cls.from_preset(preset)
    assert found.sequence_length is None


def test_the_old_name_is_known(preset):
    old = "keras_nlp>AlbertPreprocessor"
    change_json(preset / "preprocessor.json", registered_name=old)
    assert AlbertClassifierPreprocessor.from_preset(preset).sequence_length == 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sequence_length": "16"}, "`sequence_length` must be.*Received: .*'16'"),
        ({"sequence_length": 2}, "`sequence_length` must be .* at least 5"),
        ({"truncate": ["waterfall"]}, "`truncate` must be one of 'round_robin', 'wat"),
    ],
)
def test_damaged_settings_are_refused(preset, changes, message):
    change_json(preset / "preprocessor.json", "config", **changes)
    contradiction = r"task\.json and preprocessor\.json contradict each other"
    with pytest.raises(ValueError, match=contradiction):
        AlbertClassifier.from_preset(preset)
    change_json(preset / "task.json", "config", "preprocessor", "config", **changes)
    with pytest.raises(ValueError, match=message) as caught:
        AlbertClassifier.from_preset(preset)
    assert str(preset) in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 0}, "`num_classes`"),
        ({"num_classes": None}, "`num_classes`"),
        ({"dropout": "a"}, "`dropout`"),
        ({"activation": "none"}, "There is no activation 'none'"),
        ({"activation": {"class_name": "Lambda"}}, "ctivation"),
        ({"backbone": 3}, "damaged"),
    ],
)
def test_a_damaged_task_is_refused(preset, changes, message):
    change_json(preset / "task.json", "config", **changes)
    with pytest.raises(ValueError, match=message) as caught:
        AlbertClassifier.from_preset(preset)
    assert str(preset) in str(caught.value)
