"""Presets that are the difference from one in the package, and LoRA's own files."""

import os

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from examples.release import write_difference
from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertTextEmbedder,
    AlbertTokenizer,
)
from tests.foreign_models import change_json

BASE = "albert_tiny_en_uncased"
TEXTS = ["the river runs", "not today", "wind and town"] * 2
LABELS = ["good", "bad", "good"] * 2
KERNEL = "encoder/group_0_block_0/query/kernel"
DIFFERENCE = "difference.safetensors"


def values_of(model):
    return {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}


def predict(task):
    return task.predict(TEXTS, verbose=0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A classifier that was trained with LoRA, and its two presets."""
    folder = tmp_path_factory.mktemp("presets")
    task = AlbertClassifier.from_preset(BASE, labels=["bad", "good"])
    task.backbone.enable_lora(2, ["query", "value"], train_vectors=True)
    task.compile(learning_rate=1e-2)
    task.fit(TEXTS, LABELS, epochs=2, verbose=0)
    for name in ("whole", "small"):
        task.save_to_preset(folder / name)
    write_difference(folder / "whole", folder / "small", BASE, 2)
    return task, folder


@pytest.fixture
def copy(trained, tmp_path):
    """The small one, to be damaged."""
    folder = trained[1]
    for path in (folder / "small").iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def test_it_equals_the_trained_model(trained):
    task, folder = trained
    whole = AlbertClassifier.from_preset(folder / "whole")
    np.testing.assert_allclose(predict(whole), predict(task), atol=1e-5)
    small = AlbertClassifier.from_preset(folder / "small")
    np.testing.assert_allclose(predict(small), predict(task), atol=2e-3)
    assert small.class_names == ("bad", "good")
    assert small.backbone.pretrained
    files = [path for path in (folder / "small").rglob("*") if path.is_file()]
    assert {path.name for path in files}.isdisjoint(
        {"model.weights.h5", "vocabulary.spm"}
    )
    assert sum(path.stat().st_size for path in files) < 3e5


def test_any_class_reads_it_and_saves_it_whole(trained, tmp_path):
    small = trained[1] / "small"
    loaded = AlbertClassifier.from_preset(small)
    expected = values_of(loaded.backbone)
    others = [
        AlbertBackbone.from_preset(small),
        AlbertTextEmbedder.from_preset(small, remat=True).backbone,
        AlbertClassifier.from_preset(small, num_classes=3).backbone,
    ]
    for other in others:
        for path, value in values_of(other).items():
            np.testing.assert_array_equal(value, expected[path])
    tokenizer = AlbertTokenizer.from_preset(small)
    assert tokenizer.proto == loaded.preprocessor.tokenizer.proto
    empty = AlbertClassifier.from_preset(small, load_weights=False)
    assert not np.array_equal(values_of(empty)[KERNEL], expected[KERNEL])
    half = AlbertClassifier.from_preset(small, dtype="bfloat16")
    np.testing.assert_allclose(
        predict(half).astype("float32"), predict(loaded), atol=0.1
    )
    loaded.save_to_preset(tmp_path)
    again = AlbertClassifier.from_preset(tmp_path)
    np.testing.assert_allclose(predict(again), predict(loaded), atol=1e-6)


def test_a_whole_preset_replaces_it(copy, trained):
    trained[0].save_to_preset(copy)
    assert not (copy / DIFFERENCE).exists()
    loaded = AlbertClassifier.from_preset(copy)
    np.testing.assert_allclose(predict(loaded), predict(trained[0]), atol=1e-5)


def name_as_base(value):
    return lambda copy: change_json(copy / "metadata.json", base_preset=value)


def replace(**arrays):
    def change(copy):
        path = copy / DIFFERENCE
        save_file(load_file(path) | arrays, path)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (name_as_base(3), r"`base_preset` in .*metadata\.json.*Received: 3"),
        (name_as_base("/etc"), r"must be one of albert_tiny_en_uncased, .*'/etc'"),
        (name_as_base("hf://me/base"), r"must be one of .*'hf://me/base'"),
        (name_as_base("albert_base_en_uncased"), r"must be one of albert_tiny"),
        (name_as_base("albert_small_en_uncased"), r"is damaged|does not contain"),
        (name_as_base(None), r"vocabulary\.spm is missing"),
        (lambda copy: (copy / DIFFERENCE).unlink(), r"difference\.safetensors"),
        (lambda copy: os.truncate(copy / DIFFERENCE, 900), r"difference\.saf.*damaged"),
        (
            replace(**{f"{KERNEL}.lora_a": np.ones((256, 3), "f2")}),
            r"difference\.saf.*damaged",
        ),
        (
            replace(**{f"{KERNEL}.lora_a": np.ones((8, 2), "f2")}),
            r"query/kernel' has a wrong shape",
        ),
        (replace(**{"other.lora_a": np.ones((2, 3), "f2")}), r"other\.lora_b.*Copy"),
        (replace(other=np.ones(3, "f2")), r"'other' has a wrong shape"),
        (replace(**{"pooler/bias": np.full(256, np.nan, "f2")}), "is not finite"),
    ],
)
def test_damaged_presets_are_refused(copy, change, message):
    change(copy)
    with pytest.raises((ValueError, OSError), match=message):
        AlbertClassifier.from_preset(copy)


def test_loras_own_files(trained, tmp_path):
    """KerasHub's methods, with the head's weights: two small files beside the base."""
    task = AlbertClassifier.from_preset(BASE, labels=["bad", "good"])
    task.backbone.enable_lora(2)
    task.compile(learning_rate=1e-2)
    task.fit(TEXTS, LABELS, verbose=0)
    task.backbone.save_lora_weights(tmp_path / "mine.lora.h5")
    task.save_task_weights(tmp_path / "head.weights.h5")
    again = AlbertClassifier.from_preset(BASE, labels=["bad", "good"])
    again.backbone.load_lora_weights(tmp_path / "mine.lora.h5")
    again.load_task_weights(tmp_path / "head.weights.h5")
    np.testing.assert_allclose(predict(again), predict(task), atol=1e-6)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2e5
