"""Strings into ONNX Runtime: the answers of the tasks' own calls."""

import numpy as np
import pytest

from tests.serving.served_calls import CHOICES, QUESTIONS
from tests.serving.served_models import HARD, MASKED, balance, make_task

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime_extensions")

from tests.serving.onnx_sessions import export, run

# One length, so that the backend compiles once.
LENGTHS = {"length_buckets": [40]}
LABELS = ("good", "bad", "très bien")


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    task = make_task("Classifier", tiny_proto, lengths=LENGTHS, labels=LABELS)
    balance(task, task.output_dense.bias, HARD)
    return task


def assert_leads_with_the_batch(session, inputs, found):
    """Answers to one row and to none have the same form."""
    size = len(next(iter(inputs.values())))
    assert {len(array) for array in found.values()} == {size}
    for part in (slice(2, 3), slice(0, 0)):
        rows = {name: np.array(texts, object)[part] for name, texts in inputs.items()}
        answers = run(session, rows)
        for name, array in found.items():
            assert len(answers[name]) == len(array[part])
            assert answers[name].ndim == array.ndim
            assert answers[name].dtype == array.dtype


@pytest.mark.parametrize("pairs", [False, True])
def test_classifies(classifier, tmp_path, pairs):
    session = export(classifier, tmp_path, inputs="text", pairs=pairs)
    inputs = {"text": HARD} | ({"text_pair": HARD[::-1]} if pairs else {})
    found = run(session, inputs)
    logits = classifier.predict(tuple(inputs.values()) if pairs else HARD, verbose=0)
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    best = [LABELS[number] for number in logits.argmax(axis=-1)]
    assert found["label"].tolist() == best
    assert len(set(best)) > 1
    assert_leads_with_the_batch(session, inputs, found)


def test_truncates_as_it_was_told(tiny_proto, tmp_path):
    lengths = LENGTHS | {"truncate": "waterfall"}
    task = make_task("Classifier", tiny_proto, lengths=lengths, num_classes=2)
    session = export(task, tmp_path, inputs="text", pairs=True)
    pair = ["long " * 20, "a", "long " * 20], ["short text", "long " * 40, "x " * 50]
    found = run(session, {"text": pair[0], "text_pair": pair[1]})
    logits = task.predict(pair, verbose=0)
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)


def test_embeds_and_compares(tiny_proto, tmp_path):
    task = make_task("TextEmbedder", tiny_proto, lengths=LENGTHS)
    vectors = task.embed(HARD)
    session = export(task, tmp_path, inputs="text")
    found = run(session, {"text": HARD})
    np.testing.assert_allclose(found["embedding"], vectors, atol=1e-5)
    assert_leads_with_the_batch(session, {"text": HARD}, found)
    session = export(task, tmp_path, inputs="text", pairs=True)
    inputs = {"text": HARD, "text_pair": HARD[::-1]}
    found = run(session, inputs)
    expected = (vectors * vectors[::-1]).sum(axis=-1)
    np.testing.assert_allclose(found["similarity"], expected, atol=1e-5)
    assert_leads_with_the_batch(session, inputs, found)


def test_fills_masks(tiny_proto, tmp_path):
    task = make_task("MaskedLM", tiny_proto, lengths=LENGTHS)
    for pairs in (False, True):
        session = export(task, tmp_path, inputs="text", pairs=pairs)
        inputs = {"text": MASKED} | ({"text_pair": MASKED[::-1]} if pairs else {})
        found = run(session, inputs)
        answers = task.fill_mask(tuple(inputs.values()) if pairs else MASKED)
        for row, fillings in enumerate(answers):
            masks = fillings if isinstance(fillings[0], list) else [fillings]
            assert found["count"][row] == len(masks)
            for slot, ranked in enumerate(masks):
                for key in ("token", "token_str"):
                    expected = [answer[key] for answer in ranked]
                    assert found[key][row, slot].tolist() == expected
                scores = [answer["score"] for answer in ranked]
                np.testing.assert_allclose(found["score"][row, slot], scores, atol=1e-5)
            assert not found["score"][row, len(masks) :].any()
        assert_leads_with_the_batch(session, inputs, found)
    without = run(session, {"text": HARD, "text_pair": HARD})
    assert without["count"].tolist() == [0] * len(HARD)


def test_scores_order(tiny_proto, tmp_path):
    task = make_task("Pretrainer", tiny_proto, lengths=LENGTHS)
    session = export(task, tmp_path, inputs="text")
    inputs = {"text": HARD, "text_pair": HARD[::-1]}
    found = run(session, inputs)
    expected = task.score_order(HARD, HARD[::-1])
    np.testing.assert_allclose(found["score"], expected, atol=1e-5)
    assert_leads_with_the_batch(session, inputs, found)


def test_chooses(tiny_proto, tmp_path):
    lengths = LENGTHS | {"max_qa_length": 9}
    task = make_task("MultipleChoice", tiny_proto, lengths=lengths)
    session = export(task, tmp_path, inputs="text")
    inputs = {"context": HARD[2:6], "question": QUESTIONS, "choices": CHOICES}
    found = run(session, inputs)
    choices = [[text for text in row if text] for row in CHOICES]
    for row, answer in enumerate(task.choose(HARD[2:6], QUESTIONS, choices)):
        count = len(choices[row])
        np.testing.assert_allclose(
            found["scores"][row], answer["scores"] + [0] * (3 - count), atol=1e-5
        )
        assert found["index"][row] == answer["index"]
        assert found["choice"][row] == answer["choice"]
    assert_leads_with_the_batch(session, inputs, found)
    # Without a context; without choices; with none at all.
    alone = run(session, inputs | {"context": [""] * 4})
    answers = task.choose(None, QUESTIONS, choices)
    assert alone["choice"].tolist() == [answer["choice"] for answer in answers]
    for empty in ([["", ""]], [[]]):
        rows = {"context": ["a"], "question": ["_"], "choices": empty}
        none = run(session, rows)
        assert (none["index"].tolist(), none["choice"].tolist()) == ([-1], [""])


def test_bad_input_is_answered(classifier, tmp_path):
    session = export(classifier, tmp_path, inputs="text", quantize="int8")
    bad = [b"\xff caf\xe9 \xf0\x9f", b"a\0b", b"word " * 200_000]
    found = run(session, {"text": bad})
    assert np.isfinite(found["logits"]).all()
    assert found["logits"].shape == (3, 3)
    for wrong in (np.array([1, 2]), np.array([["a"]], object)):
        with pytest.raises(Exception, match=r"(?i)invalid|unexpected"):
            run(session, {"text": wrong})
