"""All tasks in ONNX Runtime return the tasks' predictions for texts of any length."""

import importlib.util

import numpy as np
import pytest

from keras_albert import AlbertTokenizer
from keras_albert.text.tokenizer.word_piece import WordPieceRules
from tests.serving.served_calls import CHOICES, ORDERED, QUESTIONS, assert_fillings
from tests.serving.served_models import HARD, MASKED, TAGS, balance, make_task
from tests.word_pieces import WORD_PIECES, word_proto

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
    assert_fillings(found, answers)
    for row, count in enumerate(found["count"]):
        assert not found["score"][row, count:].any()
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


@pytest.mark.parametrize(
    ("labels", "lengths"),
    [(TAGS, {}), (("O", "a", "b"), {"stride": 11, "label_all_pieces": True})],
    ids=["a scheme", "no scheme, all pieces"],
)
def test_tags(tiny_proto, tmp_path, labels, lengths):
    lengths = LENGTHS | lengths
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


READ = LENGTHS | {"doc_stride": 9, "max_query_length": 8}


def test_answers(tiny_proto, tmp_path):
    task = make_task("QuestionAnswerer", tiny_proto, lengths=READ)
    answers = assert_answers(task, tmp_path)
    assert len({answer["start"] for answer in answers}) > 5


def test_answers_or_says_that_there_is_none(tiny_proto, tmp_path):
    options = {"head": "conditional", "start_n_top": 3, "end_n_top": 2}
    task = make_task("QuestionAnswerer", tiny_proto, lengths=LENGTHS, **options)
    windows = (["What do you hear?"] * 3, HARD[2:5])
    doubts = task.predict(windows, verbose=0)["answerability"]
    task.null_threshold = float(np.median(doubts))
    answers = assert_answers(task, tmp_path)
    assert {bool(answer["answer"]) for answer in answers} == {True, False}


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


def test_fills_masks_of_word_pieces(tmp_path):
    task = make_task("MaskedLM", word_proto(), lengths=LENGTHS)
    (found,) = ask(task, tmp_path, {"text": MASKED})
    assert_fillings(found, task.fill_mask(MASKED))


def test_answers_from_word_pieces(tmp_path):
    task = make_task("QuestionAnswerer", word_proto(), lengths=READ)
    questions, contexts = ["What runs?"] * 3, HARD[2:5]
    (found,) = ask(task, tmp_path, {"question": questions, "context": contexts})
    for row, answer in enumerate(task.answer(questions, contexts)):
        assert found["score"][row] == pytest.approx(answer["score"], abs=1e-5)
        assert found["start"][row] == answer["start"]
        assert found["end"][row] == answer["end"]


def test_tokens_that_are_never_split(tmp_path):
    rules = WordPieceRules(never_split=("[E1]", "[E12]"))
    # U+FFFD is removed from texts, and no other character becomes it.
    proto = AlbertTokenizer([*WORD_PIECES, "[E1]", "[E12]", "\ufffd"], rules).proto
    task = make_task("TextEmbedder", proto, lengths=LENGTHS)
    texts = ["the [E1]river[E12] [E2]", "[E12]", "in 🙂 town", ""]
    (found,) = ask(task, tmp_path, {"text": texts})
    np.testing.assert_allclose(found["embedding"], task.embed(texts), atol=1e-5)
