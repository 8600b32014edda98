"""Probabilities that mean what they say, and sets of labels."""

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

from keras_albert import AlbertClassifier
from keras_albert.tasks.classification.calibration import (
    find_temperature,
    label_sets,
    set_threshold,
)
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

DATA = Path(__file__).parents[3] / "examples" / "data"
TEXTS = ["a fine film", "an awful film", "good fun", "so boring", "not bad"] * 4
LABELS = ["positive", "negative", "positive", "negative", "negative"] * 4


def draw(random, count, classes, temperature):
    """Labels, and logits that are too certain by the temperature."""
    logits = random.normal(0, 2, (count, classes))
    gumbel = random.gumbel(size=logits.shape)
    return logits * temperature, (logits + gumbel).argmax(-1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_is_found(temperature):
    logits, y = draw(np.random.default_rng(0), 20_000, 4, temperature)
    assert find_temperature(logits, y) == pytest.approx(temperature, rel=0.05)
    # Without an error, certainty would have no end.
    assert find_temperature(logits, logits.argmax(-1)) == 1


def held_out_logits(name):
    """Logits of a head of 100 labels for 400 other rows of a data set, and targets."""
    with (DATA / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:500]
    column = "sentence" if "sentence" in rows[0] else "text"
    texts, labels = ([row[key] for row in rows] for key in (column, "label"))
    names = sorted(set(labels))
    model = AlbertClassifier.from_preset("albert_small_en_uncased", labels=names)
    model.fit(texts[:100], labels[:100], method="linear", C=0.1, verbose=0)
    return model.predict(texts[100:], verbose=0), model.encode_targets(labels[100:])


@pytest.mark.parametrize("name", ["support_messages", "reviews"])
def test_sets_lack_the_label_as_often_as_asked(name):
    splits, (logits, y) = 100, held_out_logits(name)
    for error_rate in (0.1, 0.25):
        covered = []
        for split in range(splits):
            order = np.random.default_rng(split).permutation(len(y))
            # As `calibrate` does: the temperature has rows of its own.
            first, second, test = np.array_split(order, 3)
            x = softmax(logits / find_temperature(logits[first], y[first]), axis=-1)
            threshold = set_threshold(x[second], y[second], error_rate)
            rows = np.arange(len(test))
            sets = label_sets(x[test], threshold)
            # The most likely class is always possible.
            assert sets[rows, x[test].argmax(-1)].all()
            inside = x[test] >= threshold
            covered.append((inside[rows, y[test]], sets[rows, y[test]]))
        without, found = np.mean(covered, axis=(0, 2))
        # A split's coverage is beta distributed; its test set is binomial.
        count = len(second)
        low, high = 1 - error_rate, 1 - error_rate + 1 / (count + 1)
        margin = 3 * np.sqrt(2 * error_rate * (1 - error_rate) / count / splits)
        assert low - margin < without < high + margin
        assert found >= without


def test_a_calibrated_model_is_saved_and_exported(tmp_path):
    classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
    before = classifier.predict(TEXTS, verbose=0)
    table = {"text": TEXTS, "label": LABELS}
    found = classifier.calibrate(table, error_rate=0.2)
    assert found["loss"] <= found["loss_before"]
    after = classifier.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(after * found["temperature"], before, atol=1e-3)
    answers = classifier.classify(TEXTS)
    assert answers[0]["set"] == ["positive"]
    sizes = [len(answer["set"]) for answer in answers]
    assert 1 <= min(sizes) <= max(sizes) <= 2
    classifier.set_threshold = 0.01
    assert classifier.classify("not bad")["set"] == ["negative", "positive"]
    classifier.save_to_preset(tmp_path / "mine")
    again = AlbertClassifier.from_preset(tmp_path / "mine")
    assert again.classify(TEXTS[:5]) == [
        answer | {"score": pytest.approx(answer["score"], abs=1e-5)}
        for answer in classifier.classify(TEXTS[:5])
    ]
    expected = label_sets(
        classifier.probabilities(classifier.predict(TEXTS, verbose=0)), 0.01
    )
    classifier.export(tmp_path / "mine.onnx", format="onnx", inputs="text")
    import onnxruntime
    from onnxruntime_extensions import get_library_path

    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(get_library_path())
    session = onnxruntime.InferenceSession(tmp_path / "mine.onnx", options)
    (inside,) = session.run(["in_set"], {"text": np.array(TEXTS)})
    np.testing.assert_array_equal(inside, expected)
    if importlib.util.find_spec("tensorflow_text") is None:
        return
    import tensorflow as tf

    path = classifier.export(tmp_path / "served")
    served = tf.saved_model.load(str(path)).signatures["serving_default"]
    inside = served(text=tf.constant(TEXTS))["in_set"].numpy()
    np.testing.assert_array_equal(inside, expected)


@pytest.mark.parametrize(
    ("head", "options", "message"),
    [
        ({"num_classes": 1}, {}, "num_classes=1"),
        ({"num_classes": 2, "activation": "sigmoid"}, {}, "activation=sigmoid"),
        ({"num_classes": 2}, {"error_rate": 1.5}, "error_rate=1.5"),
        ({"num_classes": 2}, {"error_rate": "0.1"}, "error_rate='0.1'"),
        ({"num_classes": 2}, {"error_rate": 0.01}, "at least 198 texts"),
        ({"num_classes": 2}, {"y": [0, 2] * 10}, "label"),
        ({"num_classes": 2}, {"y": [0, 1]}, "20 texts"),
        ({"num_classes": 2}, {"x": [], "y": []}, "`x` is empty"),
        ({"num_classes": 2}, {"y": [1] * 20}, "All 20 texts have the label '1'"),
    ],
)
def test_mistakes_change_nothing(head, options, message):
    classifier = AlbertClassifier.from_preset("albert_tiny_en_uncased", **head)
    kernel = classifier.output_dense.get_weights()[0]
    arguments = {"x": TEXTS, "y": [0, 1] * 10} | options
    with pytest.raises(ValueError, match=message):
        classifier.calibrate(**arguments)
    np.testing.assert_array_equal(classifier.output_dense.get_weights()[0], kernel)
    assert classifier.set_threshold is None


@pytest.mark.filterwarnings("ignore:__array__ implementation")
@pytest.mark.parametrize("method", ["finetune", "linear"])
def test_training_drops_the_sets(method):
    classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
    classifier.calibrate(TEXTS, LABELS, error_rate=0.2)
    assert "set" in classifier.classify("an awful film")
    with pytest.warns(UserWarning, match="Call `calibrate` again"):
        classifier.fit(TEXTS, LABELS, method=method, verbose=0)
    assert "set" not in classifier.classify("an awful film")
