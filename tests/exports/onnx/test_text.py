"""Texts in ONNX Runtime; `tests/exports/test_every_task.py` has all tasks."""

import importlib.util
import json

import numpy as np
import pytest

from tests.exports.served_models import HARD, TAGS, balance, make_task
from tests.programs import run_python
from tests.word_pieces import word_proto

pytest.importorskip("onnxscript")
if importlib.util.find_spec("onnxruntime_extensions") is None:
    # Not imported here: it changes the environment, and crashes with tensorflow-text.
    pytest.skip("needs onnxruntime_extensions", allow_module_level=True)

from tests.exports.onnx.onnx_sessions import ask

# One length, so that the backend compiles once.
LENGTHS = {"length_buckets": [40]}
LABELS = ("good", "bad", "très bien")


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    task = make_task("Classifier", tiny_proto, lengths=LENGTHS, labels=LABELS)
    balance(task, task.output_dense.bias, HARD)
    return task


def test_truncates_as_it_was_told(tiny_proto, tmp_path):
    lengths = LENGTHS | {"truncate": "waterfall"}
    task = make_task("Classifier", tiny_proto, lengths=lengths, num_classes=2)
    pair = ["long " * 20, "a", "long " * 20], ["short text", "long " * 40, "x " * 50]
    inputs = {"text": pair[0], "text_pair": pair[1]}
    (found,) = ask(task, tmp_path, inputs, pairs=True)
    logits = task.predict(pair, verbose=0)
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)


def test_bad_input_is_answered(classifier, tmp_path):
    bad = [b"\xff caf\xe9 \xf0\x9f", b"a\0b", b"word " * 200_000]
    texts = [text.decode(errors="surrogateescape") for text in bad]
    calls = [{"text": texts}, {"text": [1, 2]}, {"text": [["a"]]}]
    found, *wrong = ask(classifier, tmp_path, *calls, quantize="int8")
    assert found["logits"].shape == (3, 3)
    assert np.isfinite(found["logits"]).all()
    for answer in wrong:
        assert "INVALID_ARGUMENT" in str(answer["error"])


def test_bad_documents_are_answered(tiny_proto, tmp_path):
    bad = [b"\xff caf\xe9 \xf0\x9f", b"a\0b"]
    texts = [text.decode(errors="surrogateescape") for text in bad]
    # A megabyte, whose windows run in batches.
    long = ["The river runs through the town, and nobody asked. " * 20_000]
    tagger = make_task("TokenClassifier", tiny_proto, labels=TAGS)
    found, large = ask(tagger, tmp_path, {"text": texts}, {"text": long})
    assert len(found["count"]) == 2
    assert len(large["count"]) == 1
    reader = make_task("QuestionAnswerer", tiny_proto)
    calls = [
        {"question": texts, "context": texts},
        {"question": ["Who asked?"], "context": long},
        {"question": [1], "context": [2]},
        {"question": texts, "context": texts[:1]},
    ]
    found, large, *wrong = ask(reader, tmp_path, *calls, quantize="int8")
    assert np.isfinite(found["score"]).all()
    assert len(large["score"]) == 1
    assert all("ONNXRuntimeError" in str(answer["error"]) for answer in wrong)


def test_windows_are_run_some_at_a_time(tiny_proto, tmp_path):
    """Otherwise the memory would grow with the document."""
    onnx = pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    task = make_task("TokenClassifier", tiny_proto, labels=TAGS)
    task.export(path, format="onnx", inputs="text")
    graph = onnx.load(path).graph
    (scan,) = (node for node in graph.node if node.op_type == "Scan")
    (body,) = (attribute.g for attribute in scan.attribute if attribute.name == "body")
    # Only the loop's body contains the model; the weights are outside, stored once.
    kinds = [[node.op_type for node in each.node] for each in (graph, body)]
    assert [kind.count("LayerNormalization") for kind in kinds] == [0, 5]
    assert not body.initializer


AFTER_TENSORFLOW = """
import sys

import tensorflow
import numpy as np
import onnxruntime
from onnxruntime_extensions import get_library_path

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
try:
    session = onnxruntime.InferenceSession(sys.argv[1], options)
    print(session.run(["logits"], {"text": np.array(["the town"])})[0].tolist()[0])
except Exception as error:
    print(error)
"""


def test_a_process_with_tensorflow_is_answered_or_told(tmp_path):
    pytest.importorskip("tensorflow")
    task = make_task("Classifier", word_proto(), lengths=LENGTHS, num_classes=2)
    task.export(tmp_path / "model.onnx", format="onnx", inputs="text")
    printed = run_python("-c", AFTER_TENSORFLOW, tmp_path / "model.onnx")
    # Its patterns matched nothing: all texts had one answer.
    assert "import_onnxruntime_extensions_before_TensorFlow" in printed
    before = "import onnxruntime_extensions\n" + AFTER_TENSORFLOW
    found = json.loads(run_python("-c", before, tmp_path / "model.onnx"))
    expected = task.predict(["the town"], verbose=0)[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_process_that_exports_may_run_it(tmp_path):
    program = f"""
import numpy as np
import onnxruntime
from keras_albert import AlbertClassifier

task = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
task.export({str(tmp_path / "model.onnx")!r}, format="onnx", inputs="text")
from onnxruntime_extensions import get_library_path

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
session = onnxruntime.InferenceSession({str(tmp_path / "model.onnx")!r}, options)
texts = ["a fine film", "an awful film"]
found = session.run(["logits"], {{"text": np.array(texts)}})[0]
np.testing.assert_allclose(found, task.predict(texts, verbose=0), atol=1e-4)
"""
    run_python("-c", program)
