"""Losses and metrics fit the outputs and targets of a task, in any form."""

import keras
import numpy as np
import pytest
import sklearn.metrics

from keras_albert.tasks.losses_and_metrics import TokenAccuracy
from tests.one_backend import on_one_backend_except
from tests.tasks.small_models import small_tagger, toy_tags

pytestmark = on_one_backend_except(
    "test_binary_losses_are_of_each_class_or_score",
    "test_metrics_by_class[class]",
    "test_names_are_scores_of_scikit_learn[class]",
    "test_metrics_by_class_of_a_tagger_ignore_padding",
    "test_token_accuracy_is_keras_own",
    "test_each_token_counts_alike_whatever_its_batch",
)

METRICS = keras.metrics


def first_loss(model, x, y, **arguments):
    model.compile(**arguments)
    return model.evaluate(x, y, verbose=0, return_dict=True)["loss"]


@pytest.mark.parametrize("activation", [None, "softmax"])
@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        "SparseCategoricalCrossentropy",
        "crossentropy",
        keras.losses.sparse_categorical_crossentropy,
        "categorical_crossentropy",
    ],
)
def test_a_name_is_the_loss_of_the_head(make_classifier, toy, activation, loss):
    model = make_classifier(activation=activation, labels=("bad", "good"))
    data = toy[0][:16], toy[1][:16]
    expected = first_loss(model, *data)
    assert first_loss(model, *data, loss=loss) == pytest.approx(expected, rel=1e-4)


def test_binary_losses_are_of_each_class_or_score(make_classifier, toy):
    texts, numbers = toy[0][:16], [0, 1] * 8
    for model in (make_classifier(), make_classifier(1)):
        logits = model.predict(texts, verbose=0)
        targets = np.eye(2)[numbers] if model.num_classes == 2 else np.c_[numbers]
        expected = np.mean(np.logaddexp(0, logits) - targets * logits)
        found = first_loss(model, texts, numbers, loss="binary_crossentropy")
        assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("activation", "loss"),
    [
        (None, keras.losses.SparseCategoricalCrossentropy()),
        (None, keras.losses.KLDivergence()),
        (None, "kl_divergence"),
        ("softmax", keras.losses.CategoricalCrossentropy(from_logits=True)),
        ("sigmoid", keras.losses.BinaryFocalCrossentropy(from_logits=True)),
    ],
)
def test_an_object_against_the_head_is_refused(make_classifier, activation, loss):
    model = make_classifier(activation=activation)
    default = model.loss
    with pytest.raises(ValueError, match=r"reads (logits|prob.*), but this model"):
        model.compile(loss=loss)
    assert model.loss is default


def test_other_losses_are_not_changed(make_classifier):
    model = make_classifier(activation="tanh")
    loss = keras.losses.CategoricalCrossentropy()
    model.compile(loss=loss)
    assert model.loss is loss


CLASS_METRICS = {
    "f1_score": lambda: METRICS.F1Score("macro", name="f1_score"),
    "auc": lambda: METRICS.AUC(name="auc"),
    "logit_auc": lambda: METRICS.AUC(from_logits=True, name="logit_auc"),
    "precision": lambda: METRICS.Precision(name="precision"),
    "recall": lambda: METRICS.Recall(class_id=1, name="recall"),
    "ce": lambda: METRICS.CategoricalCrossentropy(name="ce"),
}


@pytest.mark.parametrize("kind", ["class", "names", "probabilities", "labels"])
def test_metrics_by_class(make_classifier, toy, kind):
    texts, rows = toy[0][:16], np.eye(2, dtype="float32")[[0, 1] * 8]
    targets = {"names": ["bad", "good"] * 8, "probabilities": rows, "labels": rows}
    y = targets.get(kind, [0, 1] * 8)
    model = make_classifier(
        activation="sigmoid" if kind == "labels" else None, labels=("bad", "good")
    )
    loss = "categorical_crossentropy" if kind == "probabilities" else "auto"
    model.compile(
        loss=loss,
        metrics=[make() for make in CLASS_METRICS.values()],
        weighted_metrics=[METRICS.F1Score(name="weighted")],
    )
    history = model.fit(texts, y, verbose=0, batch_size=8, validation_data=(texts, y))
    assert set(CLASS_METRICS) < set(history.history)
    weights = np.arange(16.0)
    found = model.evaluate(texts, y, sample_weight=weights, verbose=0, return_dict=True)
    outputs = model.predict(texts, verbose=0)
    chances = model.probabilities(outputs)
    for name, make in CLASS_METRICS.items():
        metric = METRICS.get(make())
        metric.update_state(rows, outputs if name == "logit_auc" else chances)
        assert found[name] == pytest.approx(float(metric.result()), abs=1e-4), name
    metric = METRICS.F1Score()
    metric.update_state(rows, chances, sample_weight=weights)
    np.testing.assert_allclose(found["weighted"], metric.result(), atol=1e-4)


@pytest.mark.parametrize("kind", ["class", "names", "probabilities", "labels"])
def test_names_are_scores_of_scikit_learn(make_classifier, toy, kind):
    texts, random = toy[0][:60], np.random.default_rng(0)
    numbers, weights = random.integers(0, 3, 60), random.integers(1, 5, 60)
    names = ["f1", "precision", "recall", "auc"]
    rows, y, options = np.eye(3)[numbers], numbers, {}
    if kind == "labels":
        y = rows = random.integers(0, 2, (60, 3))
        options = {"activation": "sigmoid"}
    else:
        names.append("mcc")
    if kind == "probabilities":
        y = rows
    if kind == "names":
        y = np.array(["a", "b", "c"])[numbers]
    model = make_classifier(3, **options)
    loss = "categorical_crossentropy" if kind == "probabilities" else "auto"
    model.compile(loss=loss, weighted_metrics=names, learning_rate=0.02)
    history = model.fit(texts, y, epochs=2, batch_size=16, verbose=0)
    assert set(names) < set(history.history)
    found = model.evaluate(texts, y, sample_weight=weights, verbose=0, return_dict=True)
    chances = model.probabilities(model.predict(texts, verbose=0))
    answers = chances > 0.5 if kind == "labels" else chances.argmax(1)
    true = rows if kind == "labels" else numbers
    macro = {"average": "macro", "zero_division": 0, "sample_weight": weights}
    expected = {
        "f1": sklearn.metrics.f1_score(true, answers, **macro),
        "precision": sklearn.metrics.precision_score(true, answers, **macro),
        "recall": sklearn.metrics.recall_score(true, answers, **macro),
        # With a thousand thresholds, what lies between two of them is a tie.
        "auc": sklearn.metrics.roc_auc_score(
            rows, np.ceil(chances * 999), sample_weight=weights
        ),
    }
    if kind != "labels":
        mcc = sklearn.metrics.matthews_corrcoef
        expected["mcc"] = mcc(true, answers, sample_weight=weights)
    for name, value in expected.items():
        near = 1e-3 if name == "auc" else 1e-5
        assert found[name] == pytest.approx(value, abs=near), name


def test_names_that_are_not_of_the_outputs(make_classifier):
    with pytest.raises(ValueError, match="'f1' is a metric for classes"):
        make_classifier(1).compile(metrics=["f1"])
    with pytest.raises(ValueError, match="a text may have several labels"):
        make_classifier(activation="sigmoid").compile(metrics=["mcc"])
    with pytest.raises(ValueError, match="Did you mean 'mcc'"):
        make_classifier().compile(metrics=["mmcc"])


def test_metrics_by_class_of_a_tagger_ignore_padding(toy_proto):
    tagger = small_tagger(toy_proto, labels=("B-place", "O"), scheme="BIO")
    words, tags = toy_tags(16)
    tagger.compile(metrics=["accuracy", METRICS.F1Score("micro", name="f1")])
    found = tagger.evaluate(words, tags, verbose=0, return_dict=True)
    outputs = [row.argmax(-1) for row in tagger.predict_words(words)]
    right = np.concatenate(outputs) == np.concatenate(tagger.encode_targets(tags))
    assert found["accuracy"] == pytest.approx(right.mean(), abs=1e-5)
    assert found["f1"] == pytest.approx(right.mean(), abs=1e-5)


def test_metrics_by_class_are_saved(make_classifier, toy, tmp_path):
    model = make_classifier()
    loss = "sparse_categorical_crossentropy"
    model.compile(metrics=[METRICS.F1Score(), "mcc"], loss=loss)
    data = toy[0][:8], [0, 1] * 4
    model.fit(*data, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(
        model.evaluate(*data, verbose=0), loaded.evaluate(*data, verbose=0), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_accuracy_of_several_labels_counts_each(make_classifier, toy):
    model = make_classifier(activation="sigmoid")
    data = toy[0][:8], [[1, 1]] * 8
    expected = model.evaluate(*data, verbose=0, return_dict=True)["accuracy"]
    model.compile(metrics=["accuracy"])
    found = model.evaluate(*data, verbose=0, return_dict=True)["accuracy"]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(7,), (3, 5)])
def test_token_accuracy_is_keras_own(shape):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, shape)
    scores = rng.normal(size=(*shape, 4)).astype("float32")
    weights = rng.integers(0, 2, shape).astype("float32")
    ours, theirs = TokenAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    for _ in range(2):
        for metric in (ours, theirs):
            metric.update_state(labels, scores, sample_weight=weights)
        scores = -scores
    assert 0 < float(ours.result()) < 1
    assert float(ours.result()) == pytest.approx(float(theirs.result()))
    again = TokenAccuracy.from_config(ours.get_config())
    assert again.name == "accuracy"


def test_each_token_counts_alike_whatever_its_batch():
    accuracy = TokenAccuracy()
    scores = np.eye(4, dtype="float32")
    # One of one in a batch of one slot, none of three in a batch of six.
    accuracy.update_state([[1]], scores[[[1]]], sample_weight=[[1.0]])
    wide = np.array([[0, 0, 0, 2, 2, 2]])
    accuracy.update_state(wide, scores[wide - 1], [[1.0] * 3 + [0.0] * 3])
    assert float(accuracy.result()) == pytest.approx(1 / 4)
    # One weight a row is that of each of its tokens.
    accuracy.update_state(wide, scores[wide], sample_weight=[2.0])
    assert float(accuracy.result()) == pytest.approx((1 + 12) / (4 + 12))
