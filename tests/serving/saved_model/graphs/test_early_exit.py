"""A SavedModel of a classifier with exits answers as `predict` does."""

import json

import numpy as np
import pytest

from examples.rest_json import read_rest_request
from keras_albert.commands.predict import open_predictor
from keras_albert.serving import verify
from tests.serving.early_exits import (
    CASES,
    INVALID,
    KINDS,
    TEXTS,
    assert_answers,
    make_early,
    make_rules,
)
from tests.serving.served_calls import ServedModel
from tests.serving.served_models import write
from tests.serving.tried_operations import TRIED_OPERATIONS

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

PAIRS = (TEXTS, TEXTS[::-1])


@pytest.fixture(scope="module")
def classifiers(tiny_proto):
    return {kind: make_early(kind, tiny_proto) for kind in KINDS}


@pytest.fixture(scope="module")
def paths(classifiers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    arguments = []
    for kind, classifier in classifiers.items():
        classifier.save_to_preset(folder / "presets" / kind)
        arguments += [folder / "presets" / kind, folder / kind, "{}"]
    write("saved_model", *arguments)
    return {kind: folder / kind for kind in classifiers}


@pytest.fixture(scope="module")
def models(paths):
    models = {kind: ServedModel(path) for kind, path in paths.items()}
    yield models
    for model in models.values():
        model.session.close()


@pytest.fixture(scope="module")
def ask(models):
    """Run a signature as a server does; return its outputs, or raise its error."""

    def ask(kind, name, numbers=None, **texts):
        signature = models[kind].signatures[name]
        inputs = {
            key: np.array([text.encode() for text in each], object)
            for key, each in texts.items()
        }
        for key, value in (numbers or {}).items():
            inputs[key] = np.array(value, signature.inputs[key].dtype)
        assert inputs.keys() == signature.inputs.keys()
        return models[kind].run(name, inputs)

    return ask


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_texts_leave_as_in_predict(classifiers, ask, kind, name):
    classifier, seen = classifiers[kind], set()
    for rule in make_rules(classifier, name):
        outputs, depths = classifier.predict(
            TEXTS, **rule, return_depths=True, verbose=0
        )
        seen |= set(depths)
        found = ask(kind, f"serve_{name}", rule, text=TEXTS)
        assert_answers(classifier, found, outputs, depths)
        one = ask(kind, f"serve_{name}", rule, text=TEXTS[3:4])
        assert one["depth"].tolist() == [depths[3]]
        none = ask(kind, f"serve_{name}", rule, text=[])
        assert {key: array.shape for key, array in none.items()} == {
            key: (0, *array.shape[1:]) for key, array in found.items()
        }
    assert len(seen) > 1
    outputs, depths = classifier.predict(PAIRS, **rule, return_depths=True, verbose=0)
    found = ask(kind, f"serve_{name}_pair", rule, text=PAIRS[0], text_pair=PAIRS[1])
    assert_answers(classifier, found, outputs, depths)


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_runs_all_layers(classifiers, ask, kind):
    outputs = classifiers[kind].predict(TEXTS, verbose=0)
    found = ask(kind, "serving_default", text=TEXTS)
    assert "depth" not in found
    key = "score" if kind == "scores" else "probabilities"
    expected = outputs[:, 0] if kind == "scores" else None
    if expected is None:
        expected = classifiers[kind].probabilities(outputs)
    np.testing.assert_allclose(found[key], expected, atol=1e-3)


@pytest.mark.parametrize(("kind", "name", "rule", "message"), INVALID)
def test_a_number_out_of_range_is_an_error(ask, kind, name, rule, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        ask(kind, f"serve_{name}", rule, text=TEXTS[:2])


def test_signatures(models):
    usual = {"serving_default", "serve_pair", "serve_document", "serve_tokens"}
    early = {"serve_early", "serve_early_pair"}
    confident = {"serve_confident", "serve_confident_pair"}
    for kind, model in models.items():
        expected = usual | early | (set() if kind == "scores" else confident)
        assert set(model.signatures) == expected
        # Those of a stock server, also of an older one.
        assert model.operations <= TRIED_OPERATIONS


def test_verify_replays_the_signatures(paths):
    # The sessions of all kinds were warmed up with the same requests.
    model = verify(paths["classes"])
    assert model.requests == 2 * len(model.signatures)
    assert model.largest_difference < 1e-5
    # The requests that it shows are those of a client.
    for name, body in model.rest.items():
        assert read_rest_request(body, model.signatures).signature == name
    for name in ("serve_early", "serve_early_pair"):
        tensors = json.loads(model.grpc[name])["inputs"]
        patience = {"dtype": "DT_INT32", "tensor_shape": {"dim": []}}
        assert tensors["patience"] == patience | {"int_val": [1]}


def test_the_command_chooses_the_signature(classifiers, paths):
    path, texts = str(paths["classes"]), {"text": TEXTS}
    expected = classifiers["classes"].classify(TEXTS, patience=1, return_depths=True)
    run = open_predictor(path, 32, patience=1, return_depths=True).predict
    found = run(texts)
    assert [row["depth"] for row in found] == [row["depth"] for row in expected]
    assert [row["label"].decode() for row in found] == [r["label"] for r in expected]
    pairs = texts | {"text_pair": PAIRS[1]}
    assert "depth" not in open_predictor(path, 32, threshold=0.5).predict(pairs)[0]
    with pytest.raises(ValueError, match="`patience` must be a whole number from 1"):
        open_predictor(path, 32, patience=5).predict(texts)
    with pytest.raises(ValueError, match=r"takes --tolerance\. It has: .*serve_early"):
        open_predictor(path, 32, patience=1, tolerance=0.5)
