"""Texts of which each may have several labels, or none."""

import json

import numpy as np
import pytest

from keras_albert import AlbertClassifier
from keras_albert.data.labels import encode_label_sets
from tests.foreign_models import ragged_inputs, save_transformers, transformers_logits
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_transformers_both_ways")

TEXTS = ["lamps bread lamps", "rain storm rain", "lamps storm bread rain"] * 6
SETS = [["light"], ["wet"], ["wet", "light"]] * 6


@pytest.fixture(scope="module")
def learned(make_classifier):
    classifier = make_classifier(num_classes=2, activation="sigmoid")
    classifier.compile(learning_rate=4e-3)
    history = classifier.fit(TEXTS, SETS, epochs=30, batch_size=6, verbose=0)
    assert set(history.history) == {"loss", "accuracy"}
    return classifier


def test_it_learns_each_label_for_itself(learned):
    assert learned.labels == ("light", "wet")
    for text, labels in zip(TEXTS[:3], SETS[:3], strict=True):
        answers = learned.classify(text)
        assert {a["label"] for a in answers if a["score"] > 0.5} == set(labels)
        # All of them, the likeliest first.
        assert len(answers) == 2
        assert answers[0]["score"] >= answers[1]["score"]
    assert learned.classify(TEXTS[:2], top_k=1)[1]["label"] == "wet"
    flags = encode_label_sets(SETS, 2, learned.labels)
    assert learned.evaluate(TEXTS, flags, verbose=0, return_dict=True)["accuracy"] == 1
    # Of two labels there is none.
    assert learned.evaluate(["the hill"], [[]], verbose=0)[0] > 0


def test_transformers_both_ways(tmp_path):
    theirs = save_transformers(
        tmp_path / "theirs",
        "AlbertForSequenceClassification",
        problem_type="multi_label_classification",
        num_labels=3,
    )
    ours = AlbertClassifier.from_preset(tmp_path / "theirs", preprocessor=None)
    assert ours.is_multi_label
    expected = 1 / (1 + np.exp(-transformers_logits(theirs, ragged_inputs())))
    found = ours.predict(ragged_inputs(), verbose=0)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    ours.export_to_transformers(tmp_path / "ours")
    config = json.loads((tmp_path / "ours/config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["rude"], "Row 1 has the label 'rude'.*Its labels are: 'light', 'wet'"),
        ([1.0, 2.0], r"Row 1 has the labels \[1.0, 2.0\].*2 zeros and ones"),
        ([1.0], "Row 1 has the labels"),
        ("wet", "Row 1 has the labels 'wet'.*list of their names"),
        (None, "Row 1 has the labels None"),
    ],
)
def test_says_what_is_wrong(learned, row, message):
    with pytest.raises(ValueError, match=message):
        learned.fit(["a", "b"], [["wet"], row], verbose=0)
