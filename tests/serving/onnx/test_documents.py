"""Entities and answers in texts of any length, in ONNX Runtime."""

import importlib.util

import numpy as np
import pytest

from tests.serving.served_calls import QUESTIONS
from tests.serving.served_models import HARD, TAGS, balance, make_task

pytest.importorskip("onnxscript")
if importlib.util.find_spec("onnxruntime_extensions") is None:
    # Not imported here: it changes the environment, and crashes with tensorflow-text.
    pytest.skip("needs onnxruntime_extensions", allow_module_level=True)

from tests.serving.onnx.onnx_sessions import ask, assert_leads_with_the_batch, part

# One length, so that the backend compiles once.
LENGTHS = {"length_buckets": [40]}
# Also texts that end in blanks of each kind.
TEXTS = [*HARD, "abc  ", "  two words \n", "naïve\u200d café\u200b "]


def assert_entities(task, folder):
    blank = [{"text": texts} for texts in ([""], ["", " "])]
    inputs = {"text": TEXTS}
    calls = inputs, part(inputs, 4), part(inputs), *blank
    found, one, none, *empty = ask(task, folder, *calls)
    assert_leads_with_the_batch(found, one, none, 4)
    expected = task.tag(TEXTS)
    assert found["count"].tolist() == [len(row) for row in expected]
    assert max(found["count"]) > 20
    for row, entities in enumerate(expected):
        for place, entity in enumerate(entities):
            for key in ("label", "start", "end"):
                assert found[key][row, place] == entity[key]
            score = found["score"][row, place]
            assert score == pytest.approx(entity["score"], abs=1e-5)
    for call, answer in zip(blank, empty, strict=True):
        rows = len(call["text"])
        assert answer["count"].tolist() == [0] * rows
        assert answer["label"].shape == (rows, 0)


def test_tags(tiny_proto, tmp_path):
    task = make_task("TokenClassifier", tiny_proto, labels=TAGS, lengths=LENGTHS)
    balance(task, task.output_dense.bias, HARD)
    assert_entities(task, tmp_path)


def test_tags_without_a_scheme_from_all_pieces(tiny_proto, tmp_path):
    lengths = LENGTHS | {"stride": 11, "label_all_pieces": True}
    labels = ("O", "a", "b")
    task = make_task("TokenClassifier", tiny_proto, labels=labels, lengths=lengths)
    balance(task, task.output_dense.bias, HARD)
    assert_entities(task, tmp_path)


def assert_answers(task, folder):
    questions = [question for question in QUESTIONS for _ in TEXTS]
    inputs = {"question": questions, "context": TEXTS * len(QUESTIONS)}
    found, one, none = ask(task, folder, inputs, part(inputs, 4), part(inputs))
    assert_leads_with_the_batch(found, one, none, 4)
    expected = task.answer(inputs["question"], inputs["context"])
    for row, answer in enumerate(expected):
        assert found["score"][row] == pytest.approx(answer["score"], abs=1e-5)
        for key in ("start", "end"):
            assert found[key][row] == answer[key]
    return expected


def test_answers(tiny_proto, tmp_path):
    lengths = LENGTHS | {"doc_stride": 9, "max_query_length": 8}
    task = make_task("QuestionAnswerer", tiny_proto, lengths=lengths)
    answers = assert_answers(task, tmp_path)
    assert len({answer["start"] for answer in answers}) > 5


def test_answers_or_says_that_there_is_none(tiny_proto, tmp_path):
    task = make_task(
        "QuestionAnswerer",
        tiny_proto,
        head="conditional",
        start_n_top=3,
        end_n_top=2,
        lengths=LENGTHS,
    )
    windows = (["What do you hear?"] * 3, HARD[2:5])
    doubts = task.predict(windows, verbose=0)["answerability"]
    task.null_threshold = float(np.median(doubts))
    answers = assert_answers(task, tmp_path)
    assert {bool(answer["answer"]) for answer in answers} == {True, False}


def test_bad_input_is_answered(tiny_proto, tmp_path):
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
