"""Opened checkpoints: each file is read once, whatever its format."""

import builtins
import inspect
import io
import os
from collections import Counter

import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertTextEmbedder,
    AlbertTokenizer,
)
from keras_albert.checkpoints import export_checkpoint
from keras_albert.presets.checkpoint import open_checkpoint
from tests.exports.served_models import make_task

FORMATS = (
    *("keras-albert", "transformers", "keras-hub", "google"),
    "sentence-transformers",
)


@pytest.mark.parametrize("key", FORMATS)
def test_each_file_is_opened_once(key, tiny_proto, tmp_path, monkeypatch):
    if key == "google":
        pytest.importorskip("tensorflow")
    cls, options = AlbertClassifier, {"num_classes": 2}
    if key == "sentence-transformers":
        cls, options = AlbertTextEmbedder, {}
    task = make_task(cls.__name__.removeprefix("Albert"), tiny_proto, **options)
    export_checkpoint(task, tmp_path, key)
    opened = Counter()

    def count(file, *arguments, _open=io.open, **kwargs):
        if isinstance(file, str | os.PathLike):
            opened[os.path.relpath(file, tmp_path)] += 1
        return _open(file, *arguments, **kwargs)

    monkeypatch.setattr(builtins, "open", count)
    monkeypatch.setattr(io, "open", count)
    cls.from_preset(tmp_path)
    read = {name: n for name, n in opened.items() if not name.startswith("..")}
    config = "albert_config.json" if key == "google" else "config.json"
    assert read[config] == 1
    assert {name for name, n in read.items() if n > 1} == set()
    assert open_checkpoint(tmp_path).format.key == key


def test_an_editor_shows_the_arguments():
    for cls in (AlbertClassifier, AlbertBackbone, AlbertTokenizer, AlbertTextEmbedder):
        names = list(inspect.signature(cls.from_preset).parameters)
        assert names[:3] == ["preset", "load_weights", "dtype"]
    assert {"num_classes", "labels"} <= set(
        inspect.signature(AlbertClassifier.from_preset).parameters
    )


def test_only_models_are_exported(tiny_proto, tmp_path):
    tokenizer = AlbertTokenizer(tiny_proto)
    with pytest.raises(TypeError, match=r"A model is exported.*: AlbertTokenizer"):
        export_checkpoint(tokenizer, tmp_path / "no", "transformers")
    task = make_task("Classifier", tiny_proto, num_classes=2)
    with pytest.raises(ValueError, match=r"'keras-hub'.*Received: format='keras_hub'"):
        export_checkpoint(task, tmp_path / "no", "keras_hub")
    assert not (tmp_path / "no").exists()
