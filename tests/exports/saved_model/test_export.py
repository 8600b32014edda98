"""Served predictions of classifiers, and what an export says of itself."""

import json
import random

import keras
import numpy as np
import pytest

from tests.exports.served_calls import ServedModel
from tests.exports.served_models import HARD, WORDS, balance, make_task, write

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

LABELS = ("billing", "praise", "returns")
_RANDOM = random.Random(7)
TEXTS = [
    *(" ".join(_RANDOM.choices(WORDS.split(), k=k)) for k in range(1, 31, 2)),
    *HARD,
]
IDS = ("token_ids", "segment_ids", "padding_mask")


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    task = make_task("Classifier", tiny_proto, labels=LABELS)
    balance(task, task.output_dense.bias, TEXTS)
    return task


@pytest.fixture(scope="module")
def regression(tiny_proto):
    return make_task("Classifier", tiny_proto, num_classes=1)


@pytest.fixture(scope="module")
def export(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("exports") / "messages"
    (path / "latest").mkdir(parents=True)  # no version
    version = classifier.export(str(path), top_k=2)
    assert version == path / "1"
    return version


@pytest.fixture(scope="module")
def models(regression, export, tmp_path_factory):
    """SavedModels in this process."""
    folder = tmp_path_factory.mktemp("others")
    regression.save_to_preset(folder / "preset")
    path = folder / "regression"
    write("saved_model", folder / "preset", path, json.dumps({"max_length": 20}))
    return {"whole": ServedModel(export), "regression": ServedModel(path)}


@pytest.fixture(scope="module")
def ask(models):
    def ask(name, signature, texts):
        texts = np.array([text.encode() for text in texts], object)
        return models[name].run(signature, {"text": texts})

    return ask


def assert_agrees(found, logits):
    """Check that all outputs of a signature agree with the logits of `predict`."""
    np.testing.assert_allclose(found["logits"], logits, atol=1e-5)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = raised / raised.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)
    np.testing.assert_allclose(found["score"], expected.max(axis=1), atol=1e-5)
    labels = np.array([label.encode() for label in LABELS], object)
    order = np.argsort(-logits, axis=1)
    assert found["label"].tolist() == labels[order[:, 0]].tolist()
    assert found["classes"].tolist() == [labels.tolist()] * len(logits)
    assert found["top_k_labels"].tolist() == labels[order[:, :2]].tolist()
    scores = np.take_along_axis(found["probabilities"], order[:, :2], axis=1)
    np.testing.assert_array_equal(found["top_k_scores"], scores)


def test_answers_as_predict_does(classifier, ask):
    logits = classifier.predict(TEXTS, verbose=0)
    assert len(set(logits.argmax(axis=1))) == 3
    found = ask("whole", "serving_default", TEXTS)
    assert_agrees(found, logits)
    # The other rows of a batch, and another model, change nothing.
    assert_agrees(ask("whole", "serving_default", TEXTS[:1]), logits[:1])
    ask("regression", "serving_default", TEXTS)
    found = ask("whole", "serving_default", TEXTS[::-1] * 3)
    assert_agrees(found, np.tile(logits[::-1], (3, 1)))


@pytest.mark.parametrize(
    ("name", "wrong", "last"),
    [("token_ids", -5, 129), ("token_ids", 130, 129), ("segment_ids", 2, 1)],
)
def test_an_id_without_an_embedding_is_refused(models, name, wrong, last):
    ids = {key: np.ones((3, 4), np.int32) for key in IDS}
    ids[name][1, 2] = wrong
    message = rf"`{name}` contains an id outside 0 to {last}\."
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        models["whole"].run("serve_tokens", ids)


def test_a_row_that_is_too_long_is_refused(models):
    ids = {key: np.ones((2, 41), np.int32) for key in IDS}
    message = "`token_ids` has more tokens than the model reads. Truncate"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        models["whole"].run("serve_tokens", ids)


def test_a_regression_of_shorter_rows(regression, ask):
    whole = regression.predict(TEXTS, verbose=0)[:, 0]
    regression.preprocessor.max_sequence_length = 20
    scores = regression.predict(TEXTS, verbose=0)[:, 0]
    assert scores.std() > 0.01
    found = ask("regression", "serving_default", TEXTS)
    assert list(found) == ["score"]
    np.testing.assert_allclose(found["score"], scores, atol=1e-5)
    # Some texts are longer than the `max_length` of the export.
    assert np.abs(whole - scores).max() > 0.01
    documents = regression.predict(TEXTS, truncate=False, verbose=0)[:, 0]
    found = ask("regression", "serve_document", TEXTS)["score"]
    np.testing.assert_allclose(found, documents, atol=1e-5)
    assert np.abs(documents - scores).max() > 0.01


def test_an_export_says_what_it_is(export):
    extra = export / "assets.extra"
    assert extra.joinpath("labels.txt").read_text().split() == list(LABELS)
    manifest = json.loads(extra.joinpath("manifest.json").read_text(encoding="utf-8"))
    assert manifest["task"] == "AlbertClassifier"
    assert manifest["written_with"]["tensorflow"].startswith("2.")
    assert manifest["versions"]["backend"] == keras.config.backend()
    assert manifest["written_with"]["tensorflow-text"].startswith("2.")
    assert manifest["labels"] == list(LABELS)
    assert (manifest["max_length"], manifest["top_k"]) == (40, 2)
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
def test_real_sentences_with_alberts_own_vocabulary(shared_data, tmp_path):
    lines = (shared_data / "glue/SST-2/dev.tsv").read_text(encoding="utf-8")
    sentences = [line.split("\t")[0] for line in lines.splitlines()[1:501]]
    sentences += ["", "very long indeed " * 2000]
    proto = (shared_data / "albert_spm/spiece.model").read_bytes()
    task = make_task("Classifier", proto, num_classes=2)
    model = ServedModel(task.export(tmp_path / "sst2"))
    texts = np.array([text.encode() for text in sentences], object)
    found = model.run("serving_default", {"text": texts})["logits"]
    np.testing.assert_allclose(found, task.predict(sentences, verbose=0), atol=1e-5)
