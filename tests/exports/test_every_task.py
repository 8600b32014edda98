"""SavedModels and ONNX models of strings predict what Python does, for all tasks."""

import importlib.util

import keras
import numpy as np
import pytest

from keras_albert.exports import verify
from tests.exports.served_calls import (
    CHOICES,
    OLDER_PYTHONS,
    OLDEST_CONSUMER,
    ORDERED,
    QUESTIONS,
    REPEATED,
    ask,
    ask_onnx,
    asked_for,
    assert_fillings,
    assert_rows,
    assert_same,
    assert_same_in_turn,
    make_calls,
    rows_of,
    text_of,
)
from tests.exports.served_models import HARD, LONG, MASKED, make_tasks, write

pytest.importorskip("tensorflow_text")
# Each change tests one export of each format, in the files beside this one.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def tasks(tiny_proto):
    return make_tasks(tiny_proto)


@pytest.fixture(scope="module")
def paths(tasks, tmp_path_factory):
    """All exports, written in one process, as `export` writes one."""
    folder = tmp_path_factory.mktemp("exports")
    arguments = []
    for name, task in tasks.items():
        task.save_to_preset(folder / "presets" / name)
        arguments += [folder / "presets" / name, folder / name, "{}"]
    write("saved_model", *arguments)
    return {name: folder / name for name in tasks}


@pytest.fixture(scope="module")
def calls(tasks):
    return make_calls(tasks)


@pytest.fixture(scope="module")
def answers(paths, calls):
    """All outputs, computed as in a server."""
    found = {}
    for model, path in paths.items():
        own = {name: call[1:] for name, call in calls.items() if call[0] == model}
        found |= ask(path, own)
    return found


class Served:
    """The outputs of calls by name."""

    def __init__(self, answers):
        self._answers = answers
        self.names = {key.rpartition("/")[0] for key in answers}

    def __call__(self, name):
        """Return the outputs of a call; skip the test of one that a format lacks."""
        start = f"{name}/"
        found = {k: x for k, x in self._answers.items() if k.startswith(start)}
        if not found:
            pytest.skip(f"no {name}")
        return {key.removeprefix(start): array for key, array in found.items()}


@pytest.fixture(scope="module", params=["saved_model", "onnx"])
def served(request, tasks, calls, tmp_path_factory):
    if request.param == "saved_model":
        return Served(request.getfixturevalue("answers"))
    for name in ("onnxscript", "onnxruntime_extensions"):
        # Not imported here: it changes the environment, and crashes with
        # tensorflow-text.
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    return Served(ask_onnx(tasks, calls, tmp_path_factory.mktemp("onnx")))


def test_every_output_leads_with_the_batch(served, calls):
    assert {"embed", "choose", "tag", "read", "fill", "order"} <= served.names
    for name in served.names & set(calls):
        size = len(next(iter(calls[name][2].values())))
        for key, array in served(name).items():
            assert array.shape[0] == size, name
            assert array.dtype.kind in "iOfU"
            assert array.dtype.kind in "OU" or array.dtype.itemsize == 4
            assert not key.endswith("_bytes")


@pytest.mark.parametrize("python", [None, *OLDER_PYTHONS])
def test_a_server_loads_an_export(paths, python):
    # The installed TensorFlow has already loaded all of them for other tests.
    for name in paths if python else ("tagger",):
        model = verify(paths[name], python)
        assert model.requests == 2 * len(model.signatures)
        assert model.largest_difference < (0.02 if name == "rounded" else 3e-5)


def test_an_older_tensorflow_reads_the_graph(paths):
    """`ask` checks the operations, which were recorded with older versions."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    for path in paths.values():
        contents = (path / "saved_model.pb").read_bytes()
        (graph,) = SavedModel.FromString(contents).meta_graphs
        assert graph.graph_def.versions.min_consumer <= OLDEST_CONSUMER
        assert graph.meta_info_def.stripped_default_attrs


def test_an_export_holds_each_weight_once(tasks, paths):
    for name, path in paths.items():
        (data,) = path.glob("variables/variables.data*")
        weights = sum(weight.nbytes for weight in tasks[name].get_weights())
        assert weights <= data.stat().st_size < 1.1 * weights + 30_000


@pytest.mark.parametrize(("kind", "rows"), [("bad", 2), ("large", 1)])
def test_bytes_that_are_no_text_and_long_texts_are_answered(kind, rows, answers, paths):
    found = {k: a for k, a in answers.items() if k.startswith(f"{kind}/")}
    assert {key.split("/")[1] for key in found} == set(asked_for(kind, paths))
    assert all(array.shape[0] == rows for array in found.values())


def test_a_request_of_uneven_inputs_is_refused(answers):
    """A regression test: an operation read beyond the shorter input and crashed."""
    messages = {key: m for key, m in answers.items() if key.startswith("uneven/")}
    assert len(messages) == 27
    assert all("must have the same number of rows" in m for m in messages.values())


def test_one_text_is_answered_as_among_others(served):
    for name in served.names & set(REPEATED):
        many, one = served(name), served(f"{name}_1")
        for key, array in one.items():
            expected = many[key][2:3]
            if array.ndim == 2:
                expected = expected[:, : array.shape[1]]
            assert_same(array, expected)
        assert_same_in_turn(many, served(f"{name}_65"))


def test_embeddings(tasks, served, calls):
    vectors = tasks["word_embedder"].embed(calls["word_embed"][2]["text"])
    found = served("word_embed")["embedding"]
    np.testing.assert_allclose(found, vectors, atol=1e-5)
    vectors = tasks["embedder"].embed(HARD)
    assert vectors.std(axis=0).max() > 0.1
    np.testing.assert_allclose(served("embed")["embedding"], vectors, atol=1e-5)
    similarity = (vectors * vectors[::-1]).sum(axis=-1)
    found = served("embed_pair")["similarity"]
    np.testing.assert_allclose(found, similarity, atol=1e-5)
    tokens = served("embedder_tokens")["embedding"]
    np.testing.assert_allclose(tokens, vectors, atol=1e-5)


def test_documents(tasks, served):
    vectors = tasks["embedder"].embed(HARD, truncate=False)
    found = served("embed_document")["embedding"]
    np.testing.assert_allclose(found, vectors, atol=1e-5)
    difference = np.abs(found - served("embed")["embedding"]).max(axis=1)
    assert (difference > 1e-3).tolist() == [text == LONG for text in HARD]


def test_a_quantized_task_is_served(tasks, served):
    vectors = tasks["rounded"].embed(HARD)
    # A number halfway between two integers may be rounded to either.
    found = served("embed_rounded")["embedding"]
    np.testing.assert_allclose(found, vectors, atol=0.02)
    assert np.abs(vectors - tasks["embedder"].embed(HARD)).max() > 0.1


@pytest.mark.parametrize("name", ["choose", "choose_question"])
def test_choices(tasks, served, name):
    contexts = HARD[2:6] if name == "choose" else None
    lists = [[choice for choice in row if choice] for row in CHOICES]
    expected = tasks["chooser"].choose(contexts, QUESTIONS, lists)
    outputs = served(name)
    assert len(set(outputs["index"].tolist())) > 1
    for row, answer in enumerate(expected):
        assert outputs["index"][row] == answer["index"]
        assert text_of(outputs["choice"][row]) == answer["choice"]
        scores = np.zeros(3)
        scores[: len(answer["scores"])] = answer["scores"]
        np.testing.assert_allclose(outputs["scores"][row], scores, atol=1e-5)


def test_choices_and_masks_from_tokens(tasks, served):
    questions = (HARD[2:4], QUESTIONS[:2], [["a", "b"], ["c", "d"]])
    expected = [answer["scores"] for answer in tasks["chooser"].choose(*questions)]
    found = served("chooser_tokens")["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    texts, ids = served("fill"), served("filler_tokens")
    np.testing.assert_array_equal(ids["token"], texts["token"])


def test_a_choice_that_is_not_there_is_not_chosen(served):
    outputs = served("nothing_to_choose")
    assert outputs["index"].tolist() == [-1, 1]
    assert [text_of(choice) for choice in outputs["choice"]] == ["", "a"]
    np.testing.assert_allclose(outputs["scores"], [[0, 0], [0, 1]])


@pytest.mark.parametrize("name", ["label", "label_pair", "label_document", "tokens"])
def test_classes_of_which_a_text_has_any_number(tasks, served, name):
    x = (HARD, HARD[::-1]) if name == "label_pair" else HARD
    expected = tasks["labeler"].predict(x, verbose=0)
    if name == "label_document":
        expected = tasks["labeler"].predict(HARD, truncate=False, verbose=0)
    assert (np.abs(expected.sum(axis=1) - 1) > 0.1).all()
    outputs = served("labeler_tokens" if name == "tokens" else name)
    np.testing.assert_allclose(outputs["probabilities"], expected, atol=1e-5)
    assert "logits" not in outputs
    labels = [tasks["labeler"].class_names[best] for best in expected.argmax(axis=1)]
    assert [text_of(label) for label in outputs["label"]] == labels


@pytest.mark.parametrize("prefix", ["", "bare_", "word_"])
def test_entities_and_tags(tasks, served, calls, prefix):
    tagger, texts = tasks[f"{prefix}tagger"], calls["tag"][2]["text"]
    expected = tagger.tag(texts)
    assert len({e["label"] for row in expected for e in row}) == 2
    outputs = served(f"{prefix}tag")
    keys = [key for key in ("label", "score", "start", "end", "text") if key in outputs]
    expected = [[{key: e[key] for key in keys} for e in row] for row in expected]
    assert_rows(rows_of(outputs, *keys), expected)
    outputs = served(f"{prefix}words")
    found = rows_of(outputs, "label", "start", "end", "text")
    tags = tagger.predict_tags(texts)
    assert [[word["label"].decode() for word in row] for row in found] == tags
    for text, row in zip(texts, found, strict=True):
        words = [text[word["start"] : word["end"]] for word in row]
        assert [word["text"].decode() for word in row] == words
    best = np.concatenate([p.max(axis=-1) for p in tagger.predict_words(texts)])
    scores = [word["score"] for row in rows_of(outputs, "score") for word in row]
    np.testing.assert_allclose(scores, best, atol=1e-5)


def test_tags_of_tokens(tasks, served):
    logits = tasks["tagger"].predict(HARD, verbose=0)
    outputs = served("tagger_tokens")
    expected = keras.ops.convert_to_numpy(keras.ops.softmax(logits))
    is_real = tasks["tagger"].preprocessor(HARD)["padding_mask"] > 0
    found = outputs["probabilities"]
    np.testing.assert_allclose(found[is_real], expected[is_real], atol=1e-5)


@pytest.mark.parametrize(
    "name", ["fill", "fill_pair", "fill_of_pretrainer", "word_fill"]
)
def test_masks(tasks, served, calls, name):
    model, _, inputs = calls[name]
    pairs = (MASKED, MASKED[::-1])
    expected = tasks[model].fill_mask(pairs if "text_pair" in inputs else MASKED)
    outputs = served(name)
    assert len(set(outputs["token"][0, :, 0].tolist())) > 1
    assert_fillings(outputs, expected)


def test_texts_without_masks(served):
    outputs = served("fill_hard")
    assert not outputs["count"].any()
    assert outputs["token"].shape == (len(HARD), 0, 5)


def test_order_of_sentences(tasks, served):
    scores = tasks["pretrainer"].score_order(HARD, ORDERED)
    assert scores.std() > 0.01
    np.testing.assert_allclose(served("order")["score"], scores, atol=1e-5)
    ids = served("pretrainer_tokens")["score"]
    np.testing.assert_allclose(ids, scores, atol=1e-5)


@pytest.mark.parametrize("name", ["read", "doubt", "word_read"])
def test_answers(tasks, served, name, calls):
    model, _, inputs = calls[name]
    pairs = list(zip(inputs["question"], inputs["context"], strict=True))
    outputs = served(name)
    expected = tasks[model].answer(*map(list, zip(*pairs, strict=True)))
    assert len({answer["answer"] for answer in expected}) > 1
    for row, answer in enumerate(expected):
        found = {key: array[row] for key, array in outputs.items()}
        assert_rows([[found]], [[{key: answer[key] for key in found}]])


@pytest.mark.parametrize("model", ["reader", "doubter"])
def test_answers_from_tokens(tasks, served, model):
    x = ([QUESTIONS[0]], ["The wind and the sea."])
    expected = tasks[model].predict(x, verbose=0)
    found = served(f"{model}_tokens")
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=1e-5)
