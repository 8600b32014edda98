import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier
from keras_albert.preprocessors import AlbertClassifierPreprocessor
from tests.one_backend import on_one_backend_except
from tests.tasks.small_models import small_backbone

pytestmark = on_one_backend_except("test_learns_a_separable_problem")

PAIRS = (["the old lamps", "rain"] * 8, ["a storm", "bread by the hill"] * 8)


def test_learns_a_separable_problem(trained, toy):
    loss, accuracy = trained.evaluate(*toy, verbose=0)
    assert accuracy > 0.9
    assert loss < 0.6
    answers = trained.classify(["bread and lamps lamps", "the storm of rain rain"])
    assert [answer["label"] for answer in answers] == ["good", "bad"]


def test_the_order_of_a_pair_matters(make_classifier):
    classifier = make_classifier()
    # Larger than they start, or all texts look much alike.
    classifier.set_weights([8 * weight for weight in classifier.get_weights()])
    outputs = classifier.predict(PAIRS, verbose=0)
    swapped = classifier.predict(PAIRS[::-1], verbose=0)
    assert np.abs(swapped - outputs).max() > 1e-3


def test_no_texts_give_no_predictions(trained):
    for empty in ([], ([], []), trained.preprocessor([])):
        assert trained.predict(empty, verbose=0).shape == (0, 2)
    assert trained.classify([]) == []


def test_a_model_of_one_segment_reads_pairs(trained):
    """As one whose segments are equal, since there is no other for the second text."""
    one, two = (
        AlbertClassifier(small_backbone(num_segments=n), 2, trained.preprocessor)
        for n in (1, 2)
    )
    for mine, other in zip(one.weights, two.weights, strict=True):
        other.assign(keras.ops.broadcast_to(mine, other.shape))
    np.testing.assert_allclose(
        one.predict(PAIRS, verbose=0), two.predict(PAIRS, verbose=0), atol=1e-6
    )
    ids = one.preprocessor(PAIRS)
    assert ids["segment_ids"].max() == 1
    np.testing.assert_array_equal(
        one.predict(ids, verbose=0), one.predict(PAIRS, verbose=0)
    )


class TestClassify:
    def test_one_text_gives_one_answer(self, trained):
        answer = trained.classify("bread lamps bread")
        assert sorted(answer) == ["label", "score"]
        assert answer["label"] == "good"
        assert 0.5 < answer["score"] <= 1
        pair = trained.classify(("bread lamps", "bread"))
        assert pair["label"] in ("good", "bad")

    def test_many_texts_give_many(self, trained):
        answers = trained.classify(["bread lamps bread", "rain storm rain", ""])
        assert [answer["label"] for answer in answers[:2]] == ["good", "bad"]
        assert len(answers) == 3
        assert len(trained.classify(PAIRS, batch_size=5)) == 16

    def test_top_k_are_the_likeliest_first(self, trained):
        first, second = trained.classify("bread lamps bread", top_k=2)
        assert (first["label"], second["label"]) == ("good", "bad")
        assert first["score"] + second["score"] == pytest.approx(1)
        assert trained.classify("bread lamps bread", top_k=9) == [first, second]
        assert trained.classify(["bread lamps bread"], top_k=2) == [[first, second]]
        with pytest.raises(ValueError, match=r"`top_k` .*Received: top_k=0"):
            trained.classify("bread", top_k=0)

    def test_softmax_in_the_model_is_not_applied_twice(self, make_classifier):
        classifier = make_classifier(3, activation="softmax")
        outputs = classifier.predict(["rain"], verbose=0)
        assert outputs.sum() == pytest.approx(1, abs=1e-5)
        answers = classifier.classify("rain", top_k=3)
        assert sorted(a["score"] for a in answers) == pytest.approx(sorted(outputs[0]))
        logits = make_classifier(3)
        logits.set_weights(classifier.get_weights())
        y = [0, 1, 2]
        x = ["rain", "bread", "the storm"]
        assert classifier.evaluate(x, y, verbose=0) == pytest.approx(
            logits.evaluate(x, y, verbose=0), abs=1e-5
        )


def test_regression(make_classifier, toy):
    scores = [3.0 if label == "good" else -1.0 for label in toy[1]]
    classifier = make_classifier(1)
    assert classifier.is_regression
    classifier.compile(learning_rate=4e-3)
    classifier.fit(toy[0], scores, batch_size=16, epochs=5, verbose=0)
    result = classifier.evaluate(toy[0], scores, return_dict=True, verbose=0)
    assert sorted(result) == ["loss", "rmse"]
    assert result["rmse"] == pytest.approx(result["loss"] ** 0.5, rel=1e-3)
    assert result["rmse"] < 1.5  # 2 would be the mean of both scores
    good, bad = classifier.classify(["bread lamps bread", "rain storm rain"])
    assert sorted(good) == ["score"]
    assert good["score"] > bad["score"] + 1
    with pytest.raises(ValueError, match=r"label 'good'\. A regression"):
        classifier.fit(["a", "b"], [1.0, "good"])


class TestLabels:
    def test_names_are_learned_and_kept(self, make_classifier, toy):
        classifier = make_classifier()
        assert classifier.class_names == ("0", "1")
        classifier.fit(toy[0][:16], toy[1][:16], verbose=0)
        assert classifier.labels == classifier.class_names == ("bad", "good")
        classifier.fit(toy[0][:16], [0, 1] * 8, verbose=0)
        with pytest.raises(ValueError, match="Row 2 has the label 'ugly'"):
            classifier.fit(["a", "b", "c"], ["good", "bad", "ugly"])
        assert classifier.labels == ("bad", "good")

    def test_names_and_numbers_of_classes_agree(self, make_classifier):
        named = make_classifier(None, labels=["x", "y", "z"])
        assert named.num_classes == 3
        assert named.encode_targets(["z", "x"]).tolist() == [2, 0]
        with pytest.raises(
            ValueError, match=r"have 3 names \(a, b, c\).*has 2 classes"
        ):
            make_classifier(2).fit(["a"] * 3, ["a", "b", "c"])
        for arguments in (
            {"num_classes": 3, "labels": ["x"]},
            {"num_classes": None},
            {"num_classes": 0},
            {"num_classes": 2.5},
            {"num_classes": "2"},
        ):
            with pytest.raises(ValueError, match="number of classes"):
                make_classifier(**arguments)
        # Numbers of a dict would not be those of its order.
        for wrong in ("no", [0, 1], ["no", None], {"b": 1, "a": 0}, {"a", "b"}, 3):
            with pytest.raises(ValueError, match="`labels` must be a list of strings"):
                make_classifier(None, labels=wrong)
        with pytest.raises(ValueError, match="Each class needs a name of its own"):
            make_classifier(None, labels=["x", "x"])


class TestBadInput:
    @pytest.mark.parametrize(
        ("x", "y", "message"),
        [
            ([], [], "There are no examples"),
            (["a", "b"], None, "A loss needs targets"),
            (["a", "b"], [0], "2 examples, but 1 targets"),
            (["a", "b"], [0, float("nan")], "Row 1 has the label nan"),
            (["a", "b"], [0, 2], "Row 1 has the label 2. The model has"),
            (["a", None], [0, 1], "row 1 of texts is None"),
            ("a", [0], "Pass a list of examples, .* a single one: 'a'"),
            (("a", "b"), [0], "Pass a list of examples, or a data set"),
            (np.eye(2), [0, 1], r"row 0 of first texts is 1.0 \(float\)"),
            ({"film": ["a"]}, [0], "no column 'text'; they have 'film'"),
        ],
    )
    def test_fit_and_evaluate_say_what_is_wrong(self, trained, x, y, message):
        for method in (trained.fit, trained.evaluate):
            with pytest.raises((ValueError, TypeError), match=message):
                method(x, y, verbose=0)
        if message.startswith(("row", "Pass")):
            with pytest.raises((ValueError, TypeError), match=message):
                trained.predict(x)

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("token_ids", 40, "Row 1 of `token_ids` contains an id outside 0 to 39"),
            ("token_ids", -1, "Row 1 of `token_ids` contains an id outside"),
            ("segment_ids", 2, "Row 1 of `segment_ids` contains an id outside 0 to 1"),
        ],
    )
    def test_ids_out_of_range(self, trained, name, value, message):
        ids = trained.preprocessor(["rain", "bread"])
        ids[name][1, 2] = value
        for call in (trained.predict, lambda x: trained.fit(x, [0, 1])):
            with pytest.raises(ValueError, match=message):
                call(ids)

    def test_ids_of_wrong_shapes(self, trained):
        ids = {
            name: rows.tolist() for name, rows in trained.preprocessor(["a"]).items()
        }
        assert trained.predict(ids, verbose=0).shape == (1, 2)
        long = {name: np.ones((1, 33), int) for name in ids}
        with pytest.raises(
            ValueError, match="have 33 tokens, but the model reads 1 to 32"
        ):
            trained.predict(long)
        for wrong in (
            ids | {"token_ids": [[2, 3]]},
            {name: rows[0] for name, rows in ids.items()},
            ids | {"token_ids": np.array(ids["token_ids"], float)},
        ):
            with pytest.raises(
                ValueError, match=r"must have one shape|must be an array of integers"
            ):
                trained.predict(wrong)
        del ids["padding_mask"]
        with pytest.raises(TypeError, match="a dict of token_ids, segment_ids, padd"):
            trained.predict(ids)

    def test_texts_need_a_preprocessor(self, make_classifier):
        with pytest.raises(TypeError, match="takes texts, for which it needs a prepro"):
            make_classifier(preprocessor=None).predict(["a"])

    def test_preprocessor_and_backbone_must_fit(self, trained, make_classifier):
        long = AlbertClassifierPreprocessor(trained.preprocessor.tokenizer)
        with pytest.raises(
            ValueError, match=r"up to 512 tokens, but .* reads at most 32"
        ):
            make_classifier(preprocessor=long)

    def test_batch_methods_read_texts(self, make_classifier):
        classifier = make_classifier()
        x, y = ["rain", "bread"], ["bad", "good"]
        assert np.isfinite(classifier.train_on_batch(x, y)).all()
        assert np.isfinite(classifier.test_on_batch(x, y)).all()
        np.testing.assert_allclose(
            classifier.predict_on_batch(x), classifier.predict(x, verbose=0), atol=1e-5
        )
        with pytest.raises(ValueError, match="Row 1 has the label 'ugly'"):
            classifier.train_on_batch(x, ["bad", "ugly"])
