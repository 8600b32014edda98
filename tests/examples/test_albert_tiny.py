"""The steps that made the model in the package, with a smaller one and toy texts."""

import gzip
import json

import h5py
import keras
import pytest

from keras_albert import AlbertClassifier, AlbertMaskedLM
from tests.examples.test_examples import EXAMPLES, run

SETTINGS = """
size = "tiny"
steps = 6
batch_size = 8
sequence_length = 64
second_task = "none"
log_every = 1
evaluate_every = 2

[[stages]]
steps = 0.34
sequence_length = 32
backbone = {num_layers = 1}

[[stages]]
sequence_length = 512

[backbone]
num_layers = 2
"""

# The commands themselves are tested on each backend; this tests their combination in
# the example.
pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="one backend is enough for an example"
)


def test_from_texts_to_what_is_released(tmp_path):
    stories = (EXAMPLES / "data" / "stories.txt").read_text(encoding="utf-8")
    documents = stories.strip().split("\n\n")
    (tmp_path / "articles.txt").write_text("\n\n".join(documents[:60]))
    with gzip.open(tmp_path / "shard_0.txt.gz", "wt") as file:
        file.write("\n\n".join(documents[60:66]) + "\n")
    (tmp_path / "MANIFEST.tsv").write_text(
        "shard\ttitle\tyear\tchapters\nshard_0\tOld\t1900\t4\nshard_0\tNew\t1931\t2\n"
    )
    output = tmp_path / "out"
    arguments = [str(tmp_path / "articles.txt"), "--output", str(output)]
    arguments += ["--books", str(tmp_path / "*.txt.gz"), "--workers", "1"]
    arguments += ["--manifest", str(tmp_path / "MANIFEST.tsv")]
    (tmp_path / "settings.toml").write_text(SETTINGS)
    arguments += ["--config", str(tmp_path / "settings.toml"), "--steps", "3"]
    arguments += ["--vocabulary-size", "200", "--held-out", "0.1"]
    run("albert_tiny.py", *arguments)
    counters = json.loads((output / "prepared" / "metadata.json").read_text())
    # Without the two chapters of the newer book.
    assert counters["counters"]["documents"] == 64
    report = json.loads((output / "run" / "report.json").read_text())
    assert report["settings"]["steps"] == 3
    assert report["settings"]["stages"][0]["steps"] == 0.34

    released = output / "albert_tiny_en_uncased"
    card = (released / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in card
    assert str(tmp_path) not in card
    with h5py.File(released / "model.weights.h5") as file:
        kinds = set()
        file.visititems(
            lambda _, entry: kinds.add(str(getattr(entry, "dtype", "group")))
        )
    assert kinds == {"group", "float16"}
    whole = AlbertMaskedLM.from_preset(output / "run" / "preset")
    half = AlbertMaskedLM.from_preset(released)
    assert half.backbone.num_layers == 2
    assert half.backbone.max_sequence_length == 512
    for one, other in zip(whole.weights, half.weights, strict=True):
        assert other.dtype == "float32"
        assert abs(one.numpy() - other.numpy()).max() < 1e-3
    classifier = AlbertClassifier.from_preset(released, num_classes=2)
    assert classifier.backbone.pretrained
    # What nothing was learned with is as it was drawn.
    start = AlbertMaskedLM.from_preset(output / "start")
    for one, other in zip(
        start.backbone.pooler.weights, whole.backbone.pooler.weights, strict=True
    ):
        assert (one.numpy() == other.numpy()).all()
    # Once it is done, nothing is done again.
    written = (output / "run" / "report.json").stat().st_mtime_ns
    run("albert_tiny.py", *arguments)
    assert (output / "run" / "report.json").stat().st_mtime_ns == written
