"""All tasks in ONNX Runtime return the tasks' predictions for strings."""

import importlib.util

import numpy as np
import pytest

from tests.serving.served_calls import CHOICES, ORDERED, QUESTIONS
from tests.serving.served_models import HARD, MASKED, balance, make_task

pytest.importorskip("onnxscript")
if importlib.util.find_spec("onnxruntime_extensions") is None:
    # Not imported here: it changes the environment, and crashes with tensorflow-text.
    pytest.skip("needs onnxruntime_extensions", allow_module_level=True)

from tests.serving.onnx.onnx_sessions import ask, assert_leads_with_the_batch, part

# One length, so that the backend compiles once.
LENGTHS = {"length_buckets": [40]}
LABELS = ("good", "bad", "très bien")


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    task = make_task("Classifier", tiny_proto, lengths=LENGTHS, labels=LABELS)
    balance(task, task.output_dense.bias, HARD)
    return task


def ask_all(task, folder, inputs, *more, **kwargs):
    """Run many rows, one row and no rows, and then additional calls."""
    calls = inputs, part(inputs, 2), part(inputs), *more
    found, one, none, *others = ask(task, folder, *calls, **kwargs)
    assert_leads_with_the_batch(found, one, none, 2)
    return (found, *others) if more else found


@pytest.mark.parametrize("pairs", [False, True])
def test_classifies(classifier, tmp_path, pairs):
    inputs = {"text": HARD} | ({"text_pair": HARD[::-1]} if pairs else {})
    found = ask_all(classifier, tmp_path, inputs, pairs=pairs)
    logits = classifier.predict(tuple(inputs.values()) if pairs else HARD, verbose=0)
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    best = [LABELS[number] for number in logits.argmax(axis=-1)]
    assert found["label"].tolist() == best
    assert len(set(best)) > 1


def test_truncates_as_it_was_told(tiny_proto, tmp_path):
    lengths = LENGTHS | {"truncate": "waterfall"}
    task = make_task("Classifier", tiny_proto, lengths=lengths, num_classes=2)
    pair = ["long " * 20, "a", "long " * 20], ["short text", "long " * 40, "x " * 50]
    inputs = {"text": pair[0], "text_pair": pair[1]}
    (found,) = ask(task, tmp_path, inputs, pairs=True)
    logits = task.predict(pair, verbose=0)
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)


def test_embeds_and_compares(tiny_proto, tmp_path):
    task = make_task("TextEmbedder", tiny_proto, lengths=LENGTHS)
    vectors = task.embed(HARD)
    found = ask_all(task, tmp_path, {"text": HARD})
    np.testing.assert_allclose(found["embedding"], vectors, atol=1e-5)
    inputs = {"text": HARD, "text_pair": HARD[::-1]}
    found = ask_all(task, tmp_path, inputs, pairs=True)
    expected = (vectors * vectors[::-1]).sum(axis=-1)
    np.testing.assert_allclose(found["similarity"], expected, atol=1e-5)


@pytest.mark.parametrize("pairs", [False, True])
def test_fills_masks(tiny_proto, tmp_path, pairs):
    task = make_task("MaskedLM", tiny_proto, lengths=LENGTHS)
    inputs = {"text": MASKED} | ({"text_pair": MASKED[::-1]} if pairs else {})
    bare = dict.fromkeys(inputs, HARD)
    found, without = ask_all(task, tmp_path, inputs, bare, pairs=pairs)
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
    assert without["count"].tolist() == [0] * len(HARD)


def test_scores_order(tiny_proto, tmp_path):
    task = make_task("Pretrainer", tiny_proto, lengths=LENGTHS)
    inputs = {"text": HARD, "text_pair": ORDERED}
    found = ask_all(task, tmp_path, inputs)
    expected = task.score_order(HARD, ORDERED)
    np.testing.assert_allclose(found["score"], expected, atol=1e-5)


def test_chooses(tiny_proto, tmp_path):
    lengths = LENGTHS | {"max_qa_length": 9}
    task = make_task("MultipleChoice", tiny_proto, lengths=lengths)
    inputs = {"context": HARD[2:6], "question": QUESTIONS, "choices": CHOICES}
    empty = [
        {"context": ["a"], "question": ["_"], "choices": choices}
        for choices in ([["", ""]], [[]])
    ]
    bare = inputs | {"context": [""] * 4}
    found, alone, *none = ask_all(task, tmp_path, inputs, bare, *empty)
    choices = [[text for text in row if text] for row in CHOICES]
    for row, answer in enumerate(task.choose(HARD[2:6], QUESTIONS, choices)):
        missing = [0] * (3 - len(choices[row]))
        np.testing.assert_allclose(
            found["scores"][row], answer["scores"] + missing, atol=1e-5
        )
        assert found["index"][row] == answer["index"]
        assert found["choice"][row] == answer["choice"]
    answers = task.choose(None, QUESTIONS, choices)
    assert alone["choice"].tolist() == [answer["choice"] for answer in answers]
    for answer in none:
        assert (answer["index"].tolist(), answer["choice"].tolist()) == ([-1], [""])


def test_bad_input_is_answered(classifier, tmp_path):
    bad = [b"\xff caf\xe9 \xf0\x9f", b"a\0b", b"word " * 200_000]
    texts = [text.decode(errors="surrogateescape") for text in bad]
    calls = [{"text": texts}, {"text": [1, 2]}, {"text": [["a"]]}]
    found, *wrong = ask(classifier, tmp_path, *calls, quantize="int8")
    assert found["logits"].shape == (3, 3)
    assert np.isfinite(found["logits"]).all()
    for answer in wrong:
        assert "INVALID_ARGUMENT" in str(answer["error"])
