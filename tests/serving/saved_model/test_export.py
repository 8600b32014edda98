"""Served predictions of classifiers, in a process that imports only TensorFlow."""

import json

import keras
import numpy as np
import pytest

from tests.one_backend import on_one_backend

pytest.importorskip("tensorflow_text")

LABELS = ("billing", "praise", "returns")


@pytest.fixture(scope="module")
def classifier(build, tiny_proto, messages):
    model = build(tiny_proto, 3, labels=LABELS)
    # Centered, so that each class is predicted for some text.
    bias = model.output_dense.bias
    bias.assign_sub(np.median(model.predict(messages, verbose=0), axis=0))
    return model


@pytest.fixture(scope="module")
def other(build, messages):
    """A regression with another vocabulary and realistic sizes of weights."""
    from keras_albert.text import train_vocabulary

    wide = {"hidden_dim": 768, "intermediate_dim": 3072, "num_heads": 8}
    return build(train_vocabulary(messages[:300], vocabulary_size=200), 1, wide)


@pytest.fixture(scope="module")
def export(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "messages"
    (path / "latest").mkdir(parents=True)  # no version
    version = classifier.export(str(path), top_k=2)
    assert version == path / "1"
    return version


@pytest.fixture(scope="module")
def other_export(other, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "other"
    path.mkdir()
    (path / "7").mkdir()
    version = other.export(path, max_length=20)
    assert version == path / "8"
    return version


@on_one_backend
def test_a_view_is_served_at_its_depth(classifier, short, serve, tmp_path):
    whole, one = (classifier.predict(short, num_layers=n, verbose=0) for n in (2, 1))
    version = classifier.with_num_layers(1).export(tmp_path)
    program = """
serving = tf.saved_model.load(given["export"]).signatures["serving_default"]
keep("view", serving(text=tf.constant(given["texts"])))
"""
    found = serve(program, export=str(version), texts=short)["view/logits"]
    np.testing.assert_allclose(found, one, atol=1e-5)
    assert np.abs(whole - one).max() > 1e-2


@pytest.fixture(scope="module")
def pairs(messages):
    return [messages[:60] + messages[-5:], messages[60:120][::-1] + messages[-5:]]


@pytest.fixture(scope="module")
def short(messages):
    return sorted(filter(None, messages), key=len)[:8]


@pytest.fixture(scope="module")
def answers(classifier, export, other_export, messages, short, pairs, serve):
    """All outputs for the tests below, from one process."""
    packed = classifier.preprocessor(short)
    lengths = packed["padding_mask"].sum(axis=1)
    width = int(lengths.max()) + 3
    # A server pads rows with their first elements, so that the mask ends in ones.
    padded = {
        "token_ids": np.zeros((8, width), int),
        "segment_ids": np.zeros((8, width), int),
        "padding_mask": np.ones((8, width), int),
    }
    for row, length in enumerate(lengths):
        padded["token_ids"][row, :length] = packed["token_ids"][row, :length]
    program = """
model = tf.saved_model.load(given["export"])
other = tf.saved_model.load(given["other"])
serving = model.signatures["serving_default"]
texts = tf.constant(given["texts"])
keep("texts", serving(text=texts))
keep("one", serving(text=texts[:1]))
keep("none", serving(text=texts[:0]))
keep("65", serving(text=texts[:65]))
keep("other", other.signatures["serving_default"](text=texts[-40:]))
keep("again", serving(text=texts[:9]))
first, second = map(tf.constant, given["pairs"])
document = model.signatures["serve_document"]
keep("documents", document(text=texts))
keep("no_documents", document(text=texts[:0]))
other_document = other.signatures["serve_document"]
keep("other_documents", other_document(text=texts[-40:-1]))
pair = model.signatures["serve_pair"]
keep("pairs", pair(text=first, text_pair=second))
keep("one_pair", pair(text=first[:1], text_pair=second[:1]))
keep("no_pairs", pair(text=first[:0], text_pair=second[:0]))
for name in ("packed", "padded"):
    ids = {key: tf.constant(rows, tf.int32) for key, rows in given[name].items()}
    keep(name, model.signatures["serve_tokens"](**ids))
try:
    ids = {key: tf.ones((1, 65), tf.int32) for key in given["packed"]}
    model.signatures["serve_tokens"](**ids)
except tf.errors.InvalidArgumentError as error:
    answers["too_long"] = np.array(error.message)
for key, wrong in (("token_ids", -5), ("token_ids", 130), ("segment_ids", 2)):
    ids = {name: np.ones((3, 4), np.int32) for name in given["packed"]}
    ids[key][1, 2] = wrong
    try:
        model.signatures["serve_tokens"](**{n: tf.constant(x) for n, x in ids.items()})
    except tf.errors.InvalidArgumentError as error:
        answers[f"{key} {wrong}"] = np.array(error.message)
answers["signatures"] = np.array(sorted(model.signatures))
answers["inputs"] = np.array(sorted(serving.structured_input_signature[1]))
"""
    return serve(
        program,
        export=str(export),
        other=str(other_export),
        texts=messages,
        pairs=pairs,
        packed={name: rows.tolist() for name, rows in packed.items()},
        padded={name: rows.tolist() for name, rows in padded.items()},
    )


def assert_agrees(answers, name, logits):
    """Check that all outputs of a signature agree with the logits of `predict`."""
    np.testing.assert_allclose(answers[f"{name}/logits"], logits, atol=1e-5)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = raised / raised.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(answers[f"{name}/probabilities"], expected, atol=1e-5)
    np.testing.assert_allclose(
        answers[f"{name}/score"], expected.max(axis=1), atol=1e-5
    )
    best = [LABELS[number].encode() for number in logits.argmax(axis=1)]
    assert answers[f"{name}/label"].tolist() == best
    names = [[label.encode() for label in LABELS]] * len(logits)
    assert answers[f"{name}/classes"].tolist() == names


def test_answers_texts_as_predict_does(classifier, answers, messages):
    logits = classifier.predict(messages, verbose=0)
    assert len(logits) == 505
    assert logits.std(axis=0).min() > 0.01  # predictions differ between texts
    assert len(set(logits.argmax(axis=1))) > 1
    assert_agrees(answers, "texts", logits)
    assert_agrees(answers, "65", logits[:65])


def test_gives_the_likeliest_classes(classifier, answers, messages):
    logits = classifier.predict(messages, verbose=0)
    best = np.argsort(-logits, axis=1)[:, :2]
    labels = [[LABELS[number].encode() for number in row] for row in best]
    assert answers["texts/top_k_labels"].tolist() == labels
    scores = np.take_along_axis(answers["texts/probabilities"], best, axis=1)
    np.testing.assert_array_equal(answers["texts/top_k_scores"], scores)


def test_answers_pairs_as_predict_does(classifier, answers, pairs):
    logits = classifier.predict(tuple(pairs), verbose=0)
    assert_agrees(answers, "pairs", logits)
    assert_agrees(answers, "one_pair", logits[:1])


def test_answers_documents_as_predict_documents_does(classifier, answers, messages):
    logits = classifier.predict_documents(messages)
    assert_agrees(answers, "documents", logits)
    # The message of many windows, and some of two or three, differ.
    moved = np.abs(logits - answers["texts/logits"]).max(axis=1) > 0.01
    assert moved[-1]
    assert 3 < moved.sum() < 250


def test_answers_tokens_as_predict_does(classifier, answers, short):
    logits = classifier.predict(short, verbose=0)
    assert_agrees(answers, "packed", logits)
    assert_agrees(answers, "padded", logits)
    assert "has more tokens than the model reads. Truncate" in str(answers["too_long"])


@pytest.mark.parametrize("wrong", ["token_ids -5", "token_ids 130", "segment_ids 2"])
def test_an_id_without_an_embedding_is_refused(answers, wrong):
    name, number = wrong.split()
    most = {"token_ids": 129, "segment_ids": 1}[name]
    message = " ".join(str(answers[wrong]).split())
    assert f"`{name}` contains an id outside 0 to {most}." in message
    assert f"[1] [{number}]" in message


def test_every_output_leads_with_the_batch(classifier, answers, messages):
    assert_agrees(answers, "one", classifier.predict(messages[:1], verbose=0))
    shapes = {"probabilities": (3,), "logits": (3,), "classes": (3,)}
    shapes |= {"label": (), "score": (), "top_k_labels": (2,), "top_k_scores": (2,)}
    sizes = {"texts": 505, "one": 1, "none": 0, "65": 65}
    sizes |= {"pairs": 65, "one_pair": 1, "no_pairs": 0}
    sizes |= {"documents": 505, "no_documents": 0}
    for name, size in sizes.items():
        found = {
            key.split("/")[1]: array.shape
            for key, array in answers.items()
            if key.startswith(f"{name}/")
        }
        assert found == {key: (size, *rest) for key, rest in shapes.items()}


def test_signatures(answers):
    assert answers["signatures"].tolist() == [
        *("serve_document", "serve_pair", "serve_tokens", "serving_default")
    ]
    assert answers["inputs"].tolist() == ["text"]


def test_a_regression_with_a_vocabulary_of_its_own(other, answers, messages):
    texts = messages[-40:]
    whole = other.predict(texts, verbose=0)[:, 0]
    other.preprocessor.max_sequence_length = 20
    scores = other.predict(texts, verbose=0)[:, 0]
    assert scores.std() > 0.01
    np.testing.assert_allclose(answers["other/score"], scores, atol=1e-5)
    # Some texts are longer than the `max_length` of the export.
    assert np.abs(whole - scores).max() > 0.01
    assert [key for key in answers if key.startswith("other/")] == ["other/score"]
    documents = other.predict_documents(texts[:-1])[:, 0]
    np.testing.assert_allclose(answers["other_documents/score"], documents, atol=1e-5)
    assert np.abs(documents - scores[:-1]).max() > 0.01


def test_two_models_in_one_process_stay_apart(answers):
    """The first model's outputs are the same after the other one ran."""
    before, after = answers["texts/probabilities"][:9], answers["again/probabilities"]
    # The other rows of a batch change the last digit.
    np.testing.assert_allclose(after, before, atol=1e-6)
    assert answers["again/label"].tolist() == answers["texts/label"][:9].tolist()


def test_an_export_is_little_more_than_its_weights(other, other_export):
    weights = sum(weight.nbytes for weight in other.get_weights())
    vocabulary = len(other.preprocessor.tokenizer.proto)
    files = [path for path in other_export.rglob("*") if path.is_file()]
    assert weights > 10_000_000
    # tensorflow-text writes the vocabulary twice: for the graph, and for its loader.
    size = sum(path.stat().st_size for path in files)
    assert weights + vocabulary <= size <= 1.05 * (weights + 2 * vocabulary)


def test_an_export_says_what_it_is(export):
    extra = export / "assets.extra"
    assert extra.joinpath("labels.txt").read_text().split() == list(LABELS)
    manifest = json.loads(extra.joinpath("manifest.json").read_text(encoding="utf-8"))
    assert manifest["task"] == "AlbertClassifier"
    assert manifest["written_with"]["tensorflow"].startswith("2.")
    assert manifest["versions"]["backend"] == keras.config.backend()
    assert manifest["written_with"]["tensorflow-text"].startswith("2.")
    assert manifest["labels"] == list(LABELS)
    assert (manifest["max_length"], manifest["top_k"]) == (64, 2)
    assert manifest["trained"] == {
        "backend": keras.config.backend(),
        "dtype": "float32",
        "from_loaded_weights": False,
    }
    signature = manifest["signatures"]["serve_pair"]
    text = {"dtype": "string", "shape": [None]}
    assert signature["inputs"] == {"text": text, "text_pair": text}
    scores = {"dtype": "float32", "shape": [None, 3]}
    assert signature["outputs"]["probabilities"] == scores
    document = manifest["signatures"]["serve_document"]
    assert document == manifest["signatures"]["serving_default"]


@pytest.mark.shared_data
def test_real_sentences_with_alberts_own_vocabulary(
    build, serve, shared_data, tmp_path
):
    lines = (shared_data / "glue/SST-2/dev.tsv").read_text(encoding="utf-8")
    sentences = [line.split("\t")[0] for line in lines.splitlines()[1:501]]
    sentences += ["", "very long indeed " * 2000]
    classifier = build(str(shared_data / "albert_spm/spiece.model"), 2)
    path = classifier.export(tmp_path / "sst2")
    program = """
serving = tf.saved_model.load(given["path"])
keep("texts", serving.signatures["serving_default"](text=tf.constant(given["texts"])))
"""
    answers = serve(program, path=str(path), texts=sentences)
    logits = classifier.predict(sentences, verbose=0)
    assert logits.shape == (502, 2)
    np.testing.assert_allclose(answers["texts/logits"], logits, atol=1e-5)
    assert set(answers["texts/label"].tolist()) <= {b"0", b"1"}
