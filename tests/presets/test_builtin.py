"""The bundled presets: no network, a few megabytes, useful weights."""

import keras
import numpy as np
import pytest
from huggingface_hub import ModelCard

from keras_albert import AlbertClassifier, AlbertMaskedLM
from keras_albert.presets import BUILTIN_PRESETS, handles

INSIDE = [name for name, preset in BUILTIN_PRESETS.items() if preset.handle is None]


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("asked a hub")

    monkeypatch.setattr(handles, "_fetch", refuse)


def test_the_small_model_is_inside():
    assert INSIDE == ["albert_tiny_en_uncased"]


@pytest.mark.parametrize("name", INSIDE)
def test_it_is_small_and_has_a_card(name):
    files = [p for p in handles.local_directory(name).rglob("*") if p.is_file()]
    assert sum(path.stat().st_size for path in files) < 8e6
    (card,) = (path for path in files if path.name == "README.md")
    text = card.read_text(encoding="utf-8")
    words = ("CC BY-SA 3.0", "public domain", "Bias", "| masked lm accuracy |", name)
    assert [word for word in words if word not in text] == []
    metadata = ModelCard(text).data
    assert (metadata.language, metadata.license) == ("en", "apache-2.0")
    for each in metadata.eval_results:
        assert f"| {each.metric_name} | {each.metric_value:.4f} |" in text


@pytest.mark.parametrize("name", INSIDE)
def test_it_tells_likely_words_from_unlikely_ones(name):
    masked_lm = AlbertMaskedLM.from_preset(name)
    assert {weight.dtype for weight in masked_lm.weights} == {"float32"}
    answers = masked_lm.fill_mask("he was the king [MASK] france .", top_k=3)
    assert "of" in [answer["token_str"].strip() for answer in answers]


@pytest.mark.parametrize("name", INSIDE)
def test_it_becomes_a_classifier(name):
    classifier = AlbertClassifier.from_preset(name, num_classes=3)
    assert classifier.backbone.pretrained
    assert classifier.backbone.count_params() == BUILTIN_PRESETS[name].parameters
    values = [keras.ops.convert_to_numpy(v) for v in classifier.backbone.weights]
    assert all(np.isfinite(value).all() for value in values)
    assert classifier.predict(["a text"], verbose=0).shape == (1, 3)
