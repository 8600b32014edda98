"""An ONNX model of a classifier with exits answers as `predict` does."""

import numpy as np
import pytest

from tests.serving.early_exits import (
    CASES,
    INVALID,
    KINDS,
    TEXTS,
    assert_answers,
    make_early,
    make_rules,
)
from tests.serving.served_models import make_task

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import onnx

from tests.serving.onnx.onnx_sessions import export, run

EARLY = {"early": "patience", "confident": "threshold"}
DTYPES = {"patience": "int32", "threshold": "float32", "tolerance": "float32"}


@pytest.fixture(scope="module")
def classifiers(tiny_proto):
    return {kind: make_early(kind, tiny_proto) for kind in KINDS}


@pytest.fixture(scope="module")
def ask(classifiers, tmp_path_factory):
    """Run a model on rows of ids, with the numbers of a rule."""
    folder = tmp_path_factory.mktemp("onnx")
    sessions = {
        (kind, name): export(classifiers[kind], folder, early=EARLY[name])
        for kind, name in CASES
    }

    def ask(kind, name, rule, ids):
        numbers = {key: np.array(x, DTYPES[key]) for key, x in rule.items()}
        return run(sessions[kind, name], ids | numbers)

    return ask


@pytest.fixture(scope="module")
def ids(classifiers):
    return dict(classifiers["classes"].preprocessor(TEXTS))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_texts_leave_as_in_predict(classifiers, ask, ids, kind, name):
    classifier, seen = classifiers[kind], set()
    rows = {key: np.asarray(x) for key, x in ids.items()}
    for rule in make_rules(classifier, name):
        outputs, depths = classifier.predict(
            TEXTS, **rule, return_depths=True, verbose=0
        )
        seen |= set(depths)
        found = ask(kind, name, rule, ids)
        assert_answers(classifier, found, outputs, depths)
        one = ask(kind, name, rule, {key: x[3:4] for key, x in rows.items()})
        assert_answers(classifier, one, outputs[3:4], depths[3:4])
        none = ask(kind, name, rule, {key: x[:0] for key, x in rows.items()})
        assert {key: x.shape for key, x in none.items()} == {
            key: (0, *x.shape[1:]) for key, x in found.items()
        }
    assert len(seen) > 1


@pytest.mark.parametrize(("kind", "name", "rule", "message"), INVALID)
def test_a_number_out_of_range_is_an_error(ask, ids, kind, name, rule, message):
    # The name of the operation that fails.
    named = message.replace("between", "from").replace("and", "to").replace(" ", "_")
    with pytest.raises(Exception, match=named):
        ask(kind, name, rule, ids)


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_the_layer_is_stored_once(classifiers, tmp_path, quantize):
    """In the graph of the loop, whose weights are those of the model."""
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


def test_int8_rounds_as_without_a_rule(classifiers, ids, tmp_path):
    classifier = classifiers["classes"]
    expected = run(export(classifier, tmp_path, quantize="int8"), ids)
    session = export(classifier, tmp_path, early="threshold", quantize="int8")
    # No text leaves: all have run through the layers of the model.
    found = run(session, ids | {"threshold": np.array(0.9999999, "float32")})
    assert set(found["depth"]) == {classifier.backbone.num_layers}
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_rule_all_layers_run(classifiers, ids, tmp_path, kind):
    classifier = classifiers[kind]
    found = run(export(classifier, tmp_path), ids)
    outputs = classifier.predict(TEXTS, verbose=0)
    depths = np.full(len(TEXTS), classifier.backbone.num_layers)
    found["depth"] = depths.astype("int32")
    assert_answers(classifier, found, outputs, depths)


def test_refuses_what_it_cannot_write(classifiers, tiny_proto, tmp_path):
    plain = make_task("Classifier", tiny_proto, num_classes=2)
    shallow = make_task("Classifier", tiny_proto, num_classes=2, exits=True)
    for task, early, message in (
        (classifiers["classes"], "tolerance", "is None, 'patience' or 'threshold'"),
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
