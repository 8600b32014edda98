"""A linear head: solved as by scikit-learn, kept in all forms of the model."""

import keras
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from keras_albert import AlbertClassifier
from keras_albert.tasks.classification import linear
from keras_albert.tasks.classification.linear import read_vectors
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_the_next_answers_are_of_the_new_head")


def logits_of(model, texts):
    return model.predict(list(texts), verbose=0)


def standardized(model, texts):
    """Return what the head reads, standardized with one deviation."""
    ids = model.preprocessor(list(texts))
    outputs = model.backbone.predict(ids, verbose=0)
    pooled = outputs["pooled_output"]
    if model.pooling_mode == "normalized_mean":
        mask = np.asarray(ids["padding_mask"])[:, :, None]
        pooled = (outputs["sequence_output"] * mask).sum(1)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    centred = pooled - pooled.mean(0)
    return centred / np.sqrt(np.square(centred).mean())


def test_the_head_is_scikit_learns(make_classifier, toy):
    texts, labels = toy[0][:64], toy[1][:64]
    model = make_classifier(labels=("bad", "good"))
    before = model.backbone.get_config()
    history = model.fit(texts, labels, method="linear", C=0.5, verbose=0)
    assert model.pooling_mode == "normalized_mean"
    assert model.backbone.get_config() == before
    x = standardized(model, texts)
    expected = LogisticRegression(C=0.5, max_iter=1000).fit(x, labels)
    outputs = logits_of(model, texts)
    np.testing.assert_allclose(
        model.probabilities(outputs), expected.predict_proba(x), atol=2e-3
    )
    found = model.evaluate(texts, labels, verbose=0, return_dict=True)
    for name in ("loss", "accuracy"):
        assert history.history[name][0] == pytest.approx(found[name], abs=1e-4)
    assert history.history["C"] == [0.5]
    assert 0.5 < history.history["folds_accuracy"][0] <= 1


def test_three_classes_weights_and_names(make_classifier, toy):
    texts, numbers = toy[0][:60], [0, 1, 2] * 20
    weights = np.arange(1.0, 61.0)
    model = make_classifier(3)
    model.fit(texts, numbers, method="linear", C=0.1, sample_weight=weights, verbose=0)
    x = standardized(model, texts)
    expected = LogisticRegression(C=0.1, max_iter=1000)
    expected.fit(x, numbers, sample_weight=weights)
    found = model.probabilities(logits_of(model, texts))
    np.testing.assert_allclose(found, expected.predict_proba(x), atol=2e-3)
    # The same as weights of the rows.
    other = make_classifier(3)
    by_class = {0: 1.0, 1: 3.0, 2: 1.0}
    other.fit(texts, numbers, method="linear", C=0.1, class_weight=by_class, verbose=0)
    x = standardized(other, texts)
    expected.fit(x, numbers, sample_weight=np.array([1.0, 3.0, 1.0] * 20))
    found = other.probabilities(logits_of(other, texts))
    np.testing.assert_allclose(found, expected.predict_proba(x), atol=2e-3)


def test_several_labels(make_classifier, toy):
    texts = toy[0][:60]
    y = np.array([[1, 0], [0, 1], [1, 1]] * 20)
    model = make_classifier(2, activation="sigmoid")
    history = model.fit(texts, y, method="linear", C=0.1, verbose=0)
    x = standardized(model, texts)
    for number in range(2):
        one = LogisticRegression(C=0.1, max_iter=1000).fit(x, y[:, number])
        found = logits_of(model, texts)[:, number]
        np.testing.assert_allclose(found, one.predict_proba(x)[:, 1], atol=2e-3)
    assert "folds_accuracy" in history.history


def test_scores(make_classifier, toy):
    texts = toy[0][:60]
    scores = np.linspace(-1, 3, 60)
    model = make_classifier(1)
    history = model.fit(texts, scores, method="linear", C=0.01, verbose=0)
    x = standardized(model, texts)
    expected = Ridge(alpha=100).fit(x, scores).predict(x)
    np.testing.assert_allclose(logits_of(model, texts)[:, 0], expected, atol=1e-4)
    assert {"loss", "rmse", "folds_rmse"} < set(history.history)


def test_a_good_pooler_stays(make_classifier, toy, monkeypatch):
    """Where the pooled output is better in the folds, the head reads it."""
    texts, numbers = toy[0][:40], [0, 1] * 20
    model = make_classifier()
    # A pooler that knows the answers.
    known = {"normalized_mean": np.random.default_rng(0).normal(size=(40, 32))}
    known["pooler"] = np.eye(32, dtype="f")[numbers]
    monkeypatch.setattr(linear, "pooled_vectors", lambda _: known)
    model.fit(texts, numbers, method="linear", verbose=0)
    assert model.pooling_mode == "pooler"
    kernel = keras.ops.convert_to_numpy(model.output_dense.kernel)
    assert np.abs(kernel[:2]).min() > 100 * np.abs(kernel[2:]).max()


def test_the_next_answers_are_of_the_new_head(make_classifier, toy):
    """What was compiled before the pooler changed is not used any more."""
    texts, labels = toy[0][:32], toy[1][:32]
    model = make_classifier(labels=("bad", "good"))
    logits_of(model, texts), model.explain(texts[0], steps=2)
    model.evaluate(texts, labels, verbose=0)
    model.fit(texts, labels, method="linear", verbose=0)
    outputs = logits_of(model, texts)
    right = np.mean(outputs.argmax(1) == model.encode_targets(labels))
    found = model.evaluate(texts, labels, verbose=0, return_dict=True)
    assert found["accuracy"] == pytest.approx(right)
    row = np.argmax(outputs[0])
    assert model.explain(texts[0], steps=2).logit == pytest.approx(
        outputs[0, row], abs=1e-4
    )
    # And it can be fine-tuned.
    before = outputs
    model.fit(texts, labels, epochs=1, verbose=0)
    assert not np.allclose(logits_of(model, texts), before)


def test_a_preset_and_a_file_keep_it(make_classifier, toy, tmp_path):
    texts, labels = toy[0][:32], toy[1][:32]
    model = make_classifier(labels=("bad", "good"))
    model.fit(texts, labels, method="linear", verbose=0)
    expected = logits_of(model, texts)
    model.save_to_preset(tmp_path / "preset")
    model.save(tmp_path / "model.keras")
    loaded = AlbertClassifier.from_preset(tmp_path / "preset")
    np.testing.assert_allclose(logits_of(loaded, texts), expected, atol=1e-5)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(logits_of(loaded, texts), expected, atol=1e-5)
    with pytest.raises(ValueError, match="pooling_mode='normalized_mean'"):
        model.export_to_transformers(tmp_path / "foreign")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["good"] * 8, {}, "0 of 8 texts have the label 'bad'"),
        (
            ["good"] * 7 + ["bad"],
            {},
            "1 of 8 texts have the label 'bad', where folds need 2",
        ),
        (["good", "ugly"] * 4, {}, "'ugly', which is not a class"),
        (
            ["good", "bad"] * 4,
            {"epochs": 3},
            "Leave out 'epochs' with `method='linear'`",
        ),
        (
            ["good", "bad"] * 4,
            {"validation_split": 0.5},
            "Leave out 'validation_split'",
        ),
        (["good", "bad"] * 4, {"C": -1.0}, "`C` must be a finite number above 0"),
        (["good", "bad"] * 4, {"sample_weight": [0.0] * 8}, "0 of 0 texts have"),
        (["good", "bad"] * 3, {}, "8 examples, but 6 targets"),
        (None, {}, "A loss needs targets"),
    ],
)
def test_what_cannot_be_solved(make_classifier, toy, labels, options, message):
    model = make_classifier(labels=("bad", "good"))
    before = logits_of(model, toy[0][:2])
    with pytest.raises(ValueError, match=message):
        model.fit(toy[0][:8], labels, method="linear", verbose=0, **options)
    np.testing.assert_array_equal(logits_of(model, toy[0][:2]), before)


def test_models_that_cannot_be_solved(make_classifier, toy):
    texts, numbers = toy[0][:8], [0, 1] * 4
    with pytest.raises(ValueError, match="has a head after each layer"):
        make_classifier(exits=True).fit(texts, numbers, method="linear")
    model = make_classifier()
    with pytest.raises(ValueError, match="`method` must be one of"):
        model.fit(texts, numbers, method="logistic")
    with pytest.raises(ValueError, match="Leave out 'C' with"):
        model.fit(texts, numbers, C=1.0)
    ids = model.preprocessor(texts)
    with pytest.raises(ValueError, match="Received: x=dict"):
        model.fit(ids, numbers, method="linear")
    model.compile(loss="categorical_crossentropy")
    with pytest.raises(ValueError, match="the loss learns probabilities"):
        model.fit(texts, numbers, method="linear")
    model.backbone.encoder.blocks[0].feedforward_output.bias.assign(np.full(32, np.nan))
    model.compile()
    with pytest.raises(ValueError, match="vectors of the texts are NaN"):
        model.fit(texts, numbers, method="linear")


@pytest.fixture
def pretrained(make_classifier):
    """A classifier whose weights count as pretrained."""
    model = make_classifier(labels=("bad", "good"))
    model.backbone.pretrained = True
    return model


def test_few_labels_are_advised(pretrained, toy, capsys):
    texts, labels = toy[0][:20], toy[1][:20]
    pretrained.fit(texts, labels, verbose=2)
    assert "With 20 labels, `fit(..., method='linear')`" in capsys.readouterr().out
    # The head is a trained one by now.
    pretrained.fit(texts, labels, verbose=2)
    assert "method=" not in capsys.readouterr().out


def test_a_second_fit_reads_the_cache(make_classifier, toy, tmp_path):
    texts, path = toy[0][:32], tmp_path / "vectors.sqlite"
    model = make_classifier()
    expected = read_vectors(model, texts, cache=path)
    ran = []
    model.run_batch.cached("vectors", lambda: None)
    model.run_batch._made["vectors"] = lambda ids: ran.append(ids) or expected[:1]
    # In another order, twice.
    np.testing.assert_array_equal(
        read_vectors(model, texts[::-1] + texts, cache=path),
        np.concatenate([expected[::-1], expected]),
    )
    assert not ran
    # Other weights have other vectors.
    model.backbone.embedding.layer_norm.gamma.assign_add(np.ones(16))
    read_vectors(model, texts[:1], cache=path)
    assert ran


def test_tables_and_pairs(pretrained, toy):
    texts, labels = toy[0][:20], toy[1][:20]
    rows = [{"text": a, "label": b} for a, b in zip(texts, labels, strict=True)]
    history = pretrained.fit(rows, method="linear", verbose=0)
    assert "folds_accuracy" in history.history
    pairs = {"a": texts, "b": texts, "y": labels}
    history = pretrained.fit(
        pairs, text="a", text_pair="b", label="y", method="linear", verbose=0
    )
    assert "folds_accuracy" in history.history
