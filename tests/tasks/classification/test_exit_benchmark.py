"""Quality against depth and time, as rows, as text and as a picture."""

import math

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.tasks import describe_exits, measure_exits, plot_exits

LAYERS = 4


@pytest.fixture(scope="module")
def make(make_classifier):
    def make(**kwargs):
        like = make_classifier()
        config = like.backbone.get_config() | {"num_layers": LAYERS}
        kwargs = {"preprocessor": like.preprocessor, "exits": True} | kwargs
        return AlbertClassifier(AlbertBackbone.from_config(config), **kwargs)

    return make


@pytest.fixture(scope="module")
def classifier(make):
    return make(labels=["bad", "good"])


@pytest.fixture(scope="module")
def rows(classifier, toy):
    texts, labels = toy
    return measure_exits(
        *(classifier, texts[:8], labels[:8]), thresholds=[0.6], rounds=1
    )


def test_each_depth_and_rule_has_the_scores_of_evaluate(classifier, toy, rows):
    texts, labels = toy
    arguments = [row["arguments"] for row in rows]
    assert arguments == [
        *({"num_layers": n} for n in range(1, LAYERS + 1)),
        *({"patience": 1}, {"patience": 2}, {"threshold": 0.6}),
    ]
    for row in rows:
        scores = classifier.evaluate(
            texts[:8], labels[:8], return_dict=True, verbose=0, **row["arguments"]
        )
        assert row["accuracy"] == pytest.approx(scores["accuracy"])
        assert row["depth"] == pytest.approx(
            scores.get("depth", row["arguments"].get("num_layers"))
        )
        assert sum(row["texts"]) == 8
        assert np.dot(row["texts"], range(1, LAYERS + 1)) == 8 * row["depth"]


def test_a_regression_tries_tolerances(make, toy):
    scorer = make(num_classes=1)
    rows = measure_exits(
        *(scorer, toy[0][:4], [0.0, 1.0, 2.0, 3.0]),
        patiences=[1],
        tolerances=[0.01, 0.5],
        rounds=1,
    )
    rules = [row["arguments"] for row in rows[LAYERS:]]
    assert rules == [{"patience": 1, "tolerance": t} for t in (0.01, 0.5)]
    assert all(math.isfinite(row["rmse"]) for row in rows)
    assert describe_exits(rows).splitlines()[-1].startswith("patience=1 tolerance=0.5 ")
    figure = plot_exits(rows)
    _, labels = figure.axes[0].get_legend_handles_labels()
    assert labels == ["num_layers", "patience tolerance=0.01", "patience tolerance=0.5"]


def test_text_and_picture_show_every_row(rows, tmp_path):
    header, *lines = describe_exits(rows).splitlines()
    assert header.split()[:5] == ["arguments", "accuracy", "depth", "seconds", "time"]
    assert len(lines) == len(rows)
    assert len({len(line) for line in lines}) == 1
    assert lines[LAYERS - 1].split()[4:] == ["100%", "0", "0", "0", "8"]
    figure = plot_exits(rows, tmp_path / "exits.png")
    assert (tmp_path / "exits.png").read_bytes().startswith(b"\x89PNG")
    by_depth, by_time, histograms = figure.axes
    for axis, key in ((by_depth, "depth"), (by_time, "relative_time")):
        drawn = np.concatenate([line.get_xydata() for line in axis.lines])
        expected = [(row[key], row["accuracy"]) for row in rows]
        np.testing.assert_allclose(drawn, expected)
    shares = np.array([row["texts"] for row in rows[LAYERS:]]) / 8
    np.testing.assert_allclose(histograms.images[0].get_array(), shares)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patiences": [3]}, "largest patience is 2"),
        ({"thresholds": [1.5]}, "between 0 and 1"),
        ({"tolerances": [0.1]}, "for a regression with"),
        ({"rounds": 0}, "`rounds` must be a whole number"),
    ],
)
def test_bad_arguments_are_refused(classifier, toy, monkeypatch, arguments, message):
    monkeypatch.setattr(classifier, "predict", None)
    with pytest.raises(ValueError, match=message):
        measure_exits(classifier, toy[0][:2], toy[1][:2], **arguments)
