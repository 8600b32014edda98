"""Presets that contain only what differs from another one."""

import functools
import os
import shutil

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertTextEmbedder,
    AlbertTokenizer,
)
from keras_albert.checkpoints.convert import load_task
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary
from tests.exports.served_models import make_task
from tests.foreign_models import change_json

TEXTS = ["the river runs", "not today", "wind and town"] * 2
LABELS = ["good", "bad", "good"] * 2
MATRICES = ["query", "value", "feedforward_output", "token_embedding"]
KERNEL = "encoder/group_0_block_0/query/kernel"


def values_of(model):
    return {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}


def predict(task):
    return task.predict(TEXTS, verbose=0)


@pytest.fixture(scope="module")
def presets(tiny_proto, tmp_path_factory):
    """A base, and the difference of a classifier that was trained from it."""
    folder = tmp_path_factory.mktemp("presets")
    make_task("TextEmbedder", tiny_proto).save_to_preset(folder / "base")
    return folder


@pytest.fixture(scope="module")
def trained(presets):
    task = AlbertClassifier.from_preset(presets / "base", labels=["bad", "good"])
    task.backbone.enable_lora(2, MATRICES, train_vectors=True)
    task.compile(learning_rate=1e-2)
    before = values_of(task)
    task.fit(TEXTS, LABELS, epochs=3, verbose=0)
    after = values_of(task)
    changed = {path for path in after if not np.array_equal(before[path], after[path])}
    # Keras' LoRA freezes matrices; vectors, the pooler and the head are trained whole.
    assert {f"encoder/group_0_block_0/query/lora_kernel_{x}" for x in "ab"} <= changed
    assert {"encoder/group_0_block_0/query/bias", "pooler/kernel"} <= changed
    assert {"embedding/layer_norm/gamma", "logits/kernel", "logits/bias"} <= changed
    assert KERNEL not in changed
    task.save_to_preset(presets / "mine", base=presets / "base")
    return task


@pytest.fixture
def copy(presets, trained, tmp_path):
    """The base and the difference, to be damaged."""
    for name in ("base", "mine"):
        shutil.copytree(presets / name, tmp_path / name)
    return tmp_path / "mine"


def test_it_equals_the_trained_model(presets, trained):
    loaded = AlbertClassifier.from_preset(presets / "mine")
    np.testing.assert_allclose(predict(loaded), predict(trained), atol=1e-3)
    assert loaded.class_names == ("bad", "good")
    assert loaded.backbone.pretrained
    names = {path.name for path in (presets / "mine").iterdir()}
    assert {"base.json", "difference.safetensors", "task.weights.h5"} <= names
    assert "model.weights.h5" not in names
    modes = {(presets / "mine" / name).stat().st_mode for name in names - {"assets"}}
    assert len(modes) == 1
    assert not list((presets / "mine" / "assets").rglob("*.*"))
    # It goes on as any other: trained, quantized, saved whole.
    loaded.fit(TEXTS, LABELS, verbose=0)
    loaded.save_to_preset(presets / "whole")
    whole = AlbertClassifier.from_preset(presets / "whole")
    np.testing.assert_allclose(predict(whole), predict(loaded), atol=1e-5)
    whole.quantize("int8")
    whole.save_to_preset(presets / "whole")
    with pytest.raises(ValueError, match=r"quantized to int8.*without `base`"):
        whole.save_to_preset(presets / "other", base=presets / "base")


def test_no_second_model_is_built(presets, trained, tmp_path, monkeypatch):
    built = []
    build = AlbertBackbone.__init__

    @functools.wraps(build)
    def count(self, *arguments, **kwargs):
        built.append(self)
        build(self, *arguments, **kwargs)

    monkeypatch.setattr(AlbertBackbone, "__init__", count)
    AlbertClassifier.from_preset(presets / "mine")
    assert len(built) == 1
    trained.save_to_preset(tmp_path / "mine", base=presets / "base")
    assert len(built) == 1


def test_a_name_in_the_package_is_a_base(tmp_path):
    name = "albert_tiny_en_uncased"
    task = AlbertClassifier.from_preset(name, num_classes=2)
    task.backbone.enable_lora(8)
    task.backbone.get_layer("encoder").blocks[0].query.lora_kernel_b.assign(
        np.ones((8, 256))
    )
    task.save_to_preset(tmp_path, base=name)
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert size < 6e4
    loaded = load_task(tmp_path)
    np.testing.assert_allclose(predict(loaded), predict(task), atol=1e-3)


def test_a_vocabulary_of_its_own_is_copied(presets, trained, tmp_path):
    tokenizer = AlbertTokenizer(changed(trained.preprocessor.tokenizer.proto))
    preprocessor = AlbertClassifierPreprocessor(tokenizer, max_sequence_length=40)
    task = AlbertClassifier.from_preset(
        presets / "base", num_classes=2, preprocessor=preprocessor
    )
    task.save_to_preset(tmp_path / "mine", base=os.path.relpath(presets / "base"))
    assert (tmp_path / "mine/assets/tokenizer/vocabulary.spm").exists()
    loaded = AlbertTokenizer.from_preset(tmp_path / "mine")
    assert loaded.proto == tokenizer.proto


@pytest.mark.filterwarnings("ignore:.* has no weights for logits")
@pytest.mark.parametrize("kind", ["transformers", "keras_hub"])
def test_a_base_has_any_format(presets, tiny_proto, tmp_path, kind):
    encoder = AlbertBackbone.from_preset(presets / "base")
    tokenizer = AlbertTokenizer(tiny_proto)
    getattr(encoder, f"export_to_{kind}")(tmp_path / "base", tokenizer)
    task = AlbertClassifier.from_preset(tmp_path / "base", num_classes=2)
    task.backbone.enable_lora(2, train_vectors=True)
    task.backbone.pooler.bias.assign(np.ones(16))
    task.save_to_preset(tmp_path / "mine", base=tmp_path / "base")
    assert not list((tmp_path / "mine" / "assets").rglob("*.*"))
    loaded = AlbertClassifier.from_preset(tmp_path / "mine")
    np.testing.assert_allclose(predict(loaded), predict(task), atol=1e-3)


def test_any_class_reads_it(presets, trained):
    loaded = AlbertClassifier.from_preset(presets / "mine")
    expected = values_of(loaded.backbone)
    others = [
        AlbertBackbone.from_preset(presets / "mine"),
        AlbertTextEmbedder.from_preset(presets / "mine").backbone,
        AlbertClassifier.from_preset(presets / "mine", num_classes=3).backbone,
        AlbertClassifier.from_preset(presets / "mine", remat=True).backbone,
        AlbertTextEmbedder.from_preset(presets / "mine", remat=True).backbone,
    ]
    for other in others:
        for path, value in values_of(other).items():
            np.testing.assert_array_equal(value, expected[path])
    tokenizer = AlbertTokenizer.from_preset(presets / "mine")
    assert tokenizer.proto == loaded.preprocessor.tokenizer.proto
    AlbertClassifierPreprocessor.from_preset(presets / "mine")
    head = AlbertClassifier.from_preset(presets / "mine", num_classes=3)
    assert predict(head).shape == (6, 3)
    empty = AlbertClassifier.from_preset(presets / "mine", load_weights=False)
    assert not np.array_equal(values_of(empty)[KERNEL], expected[KERNEL])
    half = AlbertClassifier.from_preset(presets / "mine", dtype="bfloat16")
    np.testing.assert_allclose(
        predict(half).astype("float32"), predict(loaded), atol=0.1
    )
    shallow = AlbertClassifier.from_preset(presets / "mine", num_layers=1)
    assert shallow.backbone.num_layers == 1


def test_both_directories_may_move(copy, trained):
    moved = copy.parent.rename(copy.parent.with_name("moved"))
    loaded = AlbertClassifier.from_preset(moved / "mine")
    np.testing.assert_allclose(predict(loaded), predict(trained), atol=1e-3)


def test_a_preset_replaces_one_of_the_other_kind(copy, trained):
    trained.save_to_preset(copy)
    assert not (copy / "base.json").exists()
    assert not (copy / "difference.safetensors").exists()
    trained.save_to_preset(copy, base=copy.parent / "base")
    assert not (copy / "model.weights.h5").exists()
    AlbertClassifier.from_preset(copy)


def test_what_cannot_be_a_difference_is_refused(presets, trained, tmp_path):
    target, base = tmp_path / "target", presets / "base"
    whole = AlbertClassifier.from_preset(base, num_classes=2)
    whole.backbone.get_layer("encoder").blocks[0].query.kernel.assign(np.ones((16, 16)))
    with pytest.raises(ValueError, match=r"query/kernel differs.*enable_lora"):
        whole.save_to_preset(target, base=base)
    with pytest.raises(ValueError, match=r"do not have the same weights: embedding"):
        trained.save_to_preset(target, base="albert_tiny_en_uncased")
    with pytest.raises(ValueError, match="has a base itself"):
        trained.save_to_preset(target, base=presets / "mine")
    with pytest.raises(ValueError, match="is the base itself"):
        trained.save_to_preset(base, base=base)
    with pytest.raises(ValueError, match="neither an existing directory"):
        trained.save_to_preset(target, base=presets / "absent")
    with pytest.raises(ValueError, match="Only models can be saved with a base"):
        trained.preprocessor.save_to_preset(target, base=base)
    assert not target.exists()


def change_base(copy):
    task = AlbertTextEmbedder.from_preset(copy.parent / "base")
    task.backbone.pooler.bias.assign(np.ones(16))
    task.save_to_preset(copy.parent / "base")


def changed(proto):
    model = parse_vocabulary(proto)
    model.pieces[20].score -= 1
    return model.SerializeToString()


def change_vocabulary(copy):
    path = copy.parent / "base" / "assets" / "tokenizer" / "vocabulary.spm"
    path.write_bytes(changed(path.read_bytes()))


def remove_vocabulary(copy):
    (copy.parent / "base" / "assets" / "tokenizer" / "vocabulary.spm").unlink()


def chain(copy):
    shutil.rmtree(copy.parent / "base")
    shutil.copytree(copy, copy.parent / "base")


def name_as_base(value):
    return lambda c: change_json(c / "base.json", base_model_name_or_path=value)


BASE_WEIGHTS, DIFFERENCE = "base/model.weights.h5", "difference.safetensors"


def replace(**arrays):
    def change(copy):
        path = copy / "difference.safetensors"
        save_file(load_file(path) | arrays, path)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_base, r"is not the base.*SHA-256"),
        (
            lambda c: shutil.rmtree(c.parent / "base"),
            r"names .*base, which does not exist",
        ),
        (
            lambda copy: (copy.parent / BASE_WEIGHTS).write_bytes(b"HDF"),
            r"model\.weights\.h5.* is damaged",
        ),
        (change_vocabulary, r"is not the base.*SHA-256 of its vocabulary"),
        (remove_vocabulary, r"base\.json names a base that cannot be.*vocabulary"),
        (chain, r"base\.json names a base that cannot be.*has a base itself"),
        (name_as_base(3), r"`base_model_name_or_path` in .*Received: 3"),
        (name_as_base("gs://bucket/model"), r"'gs://bucket/model' cannot be a base"),
        (lambda c: (c / DIFFERENCE).unlink(), r"difference\.safetensors is missing"),
        (lambda c: os.truncate(c / DIFFERENCE, 900), r"difference\.saf.* is damaged"),
        (
            lambda c: shutil.copy(c.parent / BASE_WEIGHTS, c),
            r"both model\.weights\.h5 and base\.json",
        ),
        (
            replace(**{f"{KERNEL}.lora_a": np.ones((16, 3), "f2")}),
            r"shapes \(16, 3\), \(2, 16\) for .*query/kernel",
        ),
        (
            replace(**{f"{KERNEL}.lora_a": np.ones((8, 2), "f2")}),
            r"shapes \(8, 2\), \(2, 16\) for .*query/kernel",
        ),
        (
            replace(**{"pooler/bias": np.ones(3, "f2")}),
            r"shapes \(3,\) for 'pooler/bias', and the model has \(16,\)",
        ),
        (
            replace(**{"other.lora_a": np.ones((2, 3), "f2")}),
            r"for 'other', and the model has no such weight",
        ),
        (replace(**{"pooler/bias": np.full(16, np.nan, "f2")}), "NaN"),
        (replace(**{"pooler/bias": np.ones(16, "i4")}), "no floats"),
    ],
)
def test_damaged_presets_are_refused(copy, change, message):
    change(copy)
    with pytest.raises(ValueError, match=message):
        AlbertClassifier.from_preset(copy)
