"""Exported classifiers with exits answer as `predict` does."""

import importlib.util
import json

import numpy as np
import pytest

from keras_albert.cli.predict import open_predictor
from keras_albert.exports import verify
from keras_albert.serve.requests import read_rest_request
from tests.exports.early_exits import (
    CASES,
    INVALID,
    KINDS,
    TEXTS,
    assert_answers,
    make_early,
    make_rules,
)
from tests.exports.served_calls import TRIED_OPERATIONS, ServedModel
from tests.exports.served_models import make_task, write

PAIRS = (TEXTS, TEXTS[::-1])
EARLY = {"early": "patience", "confident": "threshold"}
DTYPES = {"patience": "int32", "threshold": "float32", "tolerance": "float32"}
NEEDS = {"onnx": ("onnxscript", "onnxruntime"), "saved_model": ("tensorflow_text",)}


def need(format_):
    for package in NEEDS[format_]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")


@pytest.fixture(scope="module")
def classifiers(tiny_proto):
    return {kind: make_early(kind, tiny_proto) for kind in KINDS}


@pytest.fixture(scope="module")
def paths(classifiers, tmp_path_factory):
    """SavedModels, written in one process, as `export` writes one."""
    need("saved_model")
    folder = tmp_path_factory.mktemp("exports")
    arguments = []
    for kind, classifier in classifiers.items():
        classifier.save_to_preset(folder / "presets" / kind)
        arguments += [folder / "presets" / kind, folder / kind, "{}"]
    write("saved_model", *arguments)
    return {kind: folder / kind for kind in classifiers}


@pytest.fixture(scope="module")
def models(paths):
    return {kind: ServedModel(path) for kind, path in paths.items()}


@pytest.fixture(scope="module")
def ask_served(models):
    """Run a signature of a SavedModel."""

    def ask(kind, name, rule, *columns):
        columns = [np.array([x.encode() for x in texts], object) for texts in columns]
        texts = dict(zip(("text", "text_pair"), columns, strict=False))
        numbers = {key: np.array(x, DTYPES[key]) for key, x in rule.items()}
        inputs = texts | numbers
        name = f"serve_{name}" + ("_pair" if len(columns) > 1 else "")
        name = name if numbers else "serving_default"
        assert inputs.keys() == models[kind].signatures[name].inputs.keys()
        return models[kind].run(name, inputs)

    return ask


@pytest.fixture(scope="module")
def ask_onnx(classifiers, tmp_path_factory):
    """Run an ONNX model on the ids of texts."""
    need("onnx")
    from tests.exports.onnx.onnx_sessions import export, run

    folder = tmp_path_factory.mktemp("onnx")
    sessions = {
        (kind, name): export(classifiers[kind], folder, early=EARLY[name])
        for kind, name in CASES
    }
    # One length, so that the ids of no texts have one, too.
    ids = dict(classifiers["classes"].preprocessor(TEXTS))
    rows = {text: row for row, text in enumerate(TEXTS)}

    def ask(kind, name, rule, texts):
        at = np.array([rows[text] for text in texts], int)
        numbers = {key: np.array(x, DTYPES[key]) for key, x in rule.items()}
        inputs = {key: np.asarray(x)[at] for key, x in ids.items()}
        return run(sessions[kind, name], inputs | numbers)

    return ask


@pytest.fixture(params=["saved_model", "onnx"])
def ask(request):
    need(request.param)
    kind = {"saved_model": "served", "onnx": "onnx"}[request.param]
    return request.getfixturevalue(f"ask_{kind}")


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_texts_leave_as_in_predict(classifiers, ask, kind, name):
    classifier, seen = classifiers[kind], set()
    for rule in make_rules(classifier, name):
        outputs, depths = classifier.predict(
            TEXTS, **rule, return_depths=True, verbose=0
        )
        seen |= set(depths)
        found = ask(kind, name, rule, TEXTS)
        assert_answers(classifier, found, outputs, depths)
        one = ask(kind, name, rule, TEXTS[3:4])
        assert_answers(classifier, one, outputs[3:4], depths[3:4])
        none = ask(kind, name, rule, [])
        assert {key: array.shape for key, array in none.items()} == {
            key: (0, *array.shape[1:]) for key, array in found.items()
        }
    assert len(seen) > 1


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_pairs_leave_as_in_predict(classifiers, ask_served, kind, name):
    rule = make_rules(classifiers[kind], name)[-1]
    outputs, depths = classifiers[kind].predict(
        PAIRS, **rule, return_depths=True, verbose=0
    )
    found = ask_served(kind, name, rule, *PAIRS)
    assert_answers(classifiers[kind], found, outputs, depths)


@pytest.mark.parametrize(("kind", "name", "rule", "message"), INVALID)
def test_a_number_out_of_range_is_an_error(ask, kind, name, rule, message):
    # In ONNX, the name of the operation that fails.
    named = message.replace("between", "from").replace("and", "to").replace(" ", "_")
    with pytest.raises(Exception, match=f"{message}|{named}"):
        ask(kind, name, rule, TEXTS[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_rule_all_layers_run(classifiers, models, ask_served, kind, tmp_path):
    from tests.exports.onnx.onnx_sessions import export, run

    classifier = classifiers[kind]
    outputs = classifier.predict(TEXTS, verbose=0)
    depths = np.full(len(TEXTS), classifier.backbone.num_layers, "int32")
    served = ask_served(kind, "early", {}, TEXTS)
    ids = dict(classifier.preprocessor(TEXTS))
    for found in (served, run(export(classifier, tmp_path), ids)):
        assert "depth" not in found
        assert_answers(classifier, found | {"depth": depths}, outputs, depths)


def test_signatures(models):
    usual = {"serving_default", "serve_pair", "serve_document", "serve_tokens"}
    early = {"serve_early", "serve_early_pair"}
    confident = {"serve_confident", "serve_confident_pair"}
    for kind, model in models.items():
        expected = usual | early | (set() if kind == "scores" else confident)
        assert set(model.signatures) == expected
        assert model.operations <= TRIED_OPERATIONS


def test_verify_replays_the_signatures(paths):
    # The sessions of all kinds were warmed up with the same requests.
    model = verify(paths["classes"])
    assert model.requests == 2 * len(model.signatures)
    # The program that wrote it did not optimize the graph.
    assert model.largest_difference < 3e-5
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


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_the_layer_is_stored_once(classifiers, tmp_path, quantize):
    """In the graph of the loop, whose weights are those of the model."""
    need("onnx")
    import onnx

    from tests.exports.onnx.onnx_sessions import export

    export(classifiers["classes"], tmp_path, early="patience", quantize=quantize)
    model = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(model, full_check=True)
    (loop,) = (node for node in model.graph.node if node.op_type == "Loop")
    body = loop.attribute[0].g
    assert not body.initializer
    products = {"MatMul", "MatMulInteger"}
    # Six of the block, with two of adapters each, two of attention, the pooler and the
    # exit.
    assert sum(node.op_type in products for node in body.node) == 22


def test_int8_rounds_as_without_a_rule(classifiers, tmp_path):
    need("onnx")
    from tests.exports.onnx.onnx_sessions import export, run

    classifier = classifiers["classes"]
    ids = dict(classifier.preprocessor(TEXTS))
    expected = run(export(classifier, tmp_path, quantize="int8"), ids)
    session = export(classifier, tmp_path, early="threshold", quantize="int8")
    # No text leaves: all have run through the layers of the model.
    found = run(session, ids | {"threshold": np.array(0.9999999, "float32")})
    assert set(found["depth"]) == {classifier.backbone.num_layers}
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-3)


def test_refuses_what_cannot_be(classifiers, tiny_proto, tmp_path):
    plain = make_task("Classifier", tiny_proto, num_classes=2)
    shallow = make_task("Classifier", tiny_proto, num_classes=2, exits=True)
    for task, early, message in (
        (
            classifiers["classes"],
            "tolerance",
            "must be None, 'patience' or 'threshold'",
        ),
        (plain, "patience", "built with `exits=True`, or leave out `early`"),
        (make_task("TextEmbedder", tiny_proto), "patience", "this AlbertTextEmbedder"),
        (classifiers["scores"], "threshold", "A score has no probability"),
        (shallow, "patience", "no text can leave a model of 2 layers"),
    ):
        with pytest.raises(ValueError, match=message):
            task.export(tmp_path / "model.onnx", format="onnx", early=early)
    for format_ in ("litert", "tf_saved_model"):
        with pytest.raises(ValueError, match=r"'early' is an option of: onnx"):
            classifiers["classes"].export(
                tmp_path / "model", format=format_, early="patience"
            )
    assert not list(tmp_path.iterdir())
