import keras
import numpy as np
import pytest

from keras_albert.data.labels import (
    class_names,
    encode_class_weights,
    encode_classes,
    encode_scores,
)
from tests.one_backend import on_one_backend_except
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm
from tests.tasks.small_models import small_embedder, small_tagger, toy_tags

pytestmark = on_one_backend_except(
    "test_lists_and_data_sets_learn_with_the_same_weights", "test_reads_tensors"
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {0: 1, 1: 1}),
        ({0: 2.0}, {0: 2, 1: 1}),
        ({np.int64(1): np.float32(0.5)}, {0: 1, 1: 0.5}),
        ({1.0: 0}, {0: 1, 1: 0}),
        ({"b": 3, 0: 4}, {0: 4, 1: 3}),
    ],
)
def test_each_class_has_a_weight(given, expected):
    assert encode_class_weights(given, 2, ("a", "b")) == expected


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([1.0, 2.0], TypeError, r"must be a dict.*Received: class_weight=\[1.0, 2.0\]"),
        ("balanced", TypeError, "must be a dict"),
        (np.ones(2), TypeError, "must be a dict"),
        ({7: 2.0}, ValueError, "has 7, which is not a class.*are: 'a', 'b'"),
        ({-1: 2.0}, ValueError, "has -1"),
        ({0.5: 2.0}, ValueError, "has 0.5"),
        ({True: 2.0}, ValueError, "has True"),
        ({"c": 2.0}, ValueError, r"has 'c'.*'b'\. To name them, pass `labels=\["),
        ({(0, 1): 2.0}, ValueError, "is not a class"),
        ({0: np.nan}, ValueError, "finite.*Received: nan for the class 0"),
        ({"a": np.inf}, ValueError, "Received: inf for the class 'a'"),
        ({0: 1e39}, ValueError, r"finite.*Received: 1e\+39 for the class 0"),
        ({0: 2.0, "a": 3.0}, ValueError, "has 0 and 'a', which are the same class"),
        ({0: -1.0}, ValueError, "at least 0. Received: -1.0"),
        ({0: None}, ValueError, "finite numbers.* Received: None"),
        ({0: "2"}, ValueError, "finite numbers.* Received: '2'"),
    ],
)
def test_what_is_wrong_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        encode_class_weights(given, 2, ("a", "b"))


def _dataset(x, y):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((x, y)).batch(6)


def test_lists_and_data_sets_learn_with_the_same_weights(make_classifier, toy):
    pytest.importorskip("tensorflow")
    x, y = toy[0][:12], [int(label == "good") for label in toy[1][:12]]
    losses = []
    for data in ((x, y), (_dataset(x, y),)):
        classifier = make_classifier(sequence_length=16)
        classifier.compile(keras.optimizers.SGD(0.0))
        history = classifier.fit(
            *data,
            batch_size=6 if len(data) > 1 else None,
            class_weight={0: 3.0},
            shuffle=False,
            verbose=0,
        )
        losses.append(history.history["loss"][0])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    weights = np.where(np.array(y) == 0, 3.0, 1.0)
    expected = classifier.evaluate(x, y, sample_weight=weights, verbose=0)[0]
    np.testing.assert_allclose(losses[0], expected, rtol=1e-5)


def test_wrong_weights_leave_the_model_alone(make_classifier, toy):
    x, y = toy[0][:8], toy[1][:8]
    classifier = make_classifier()
    with pytest.raises(ValueError, match="Received: nan"):
        classifier.fit(x, y, class_weight={"good": np.nan})
    with pytest.raises(TypeError, match="must be a dict"):
        classifier.fit(x, y, class_weight=[1.0, 2.0])
    with pytest.raises(ValueError, match="not both"):
        classifier.fit(x, y, class_weight={0: 1.0}, sample_weight=np.ones(8))
    ids = classifier.preprocessor(x)
    with pytest.raises(ValueError, match="has 7, which is not a class"):
        classifier.train_on_batch(ids, np.zeros(8, int), class_weight={7: 2.0})
    assert np.isfinite(classifier.train_on_batch(x, y, class_weight={"good": 2})).all()


def test_tasks_without_classes_refuse_them(make_classifier, toy, toy_proto):
    x = toy[0][:4]
    tagger, (words, tags) = small_tagger(toy_proto, num_classes=2), toy_tags(4)
    for task, data in (
        (make_classifier(num_classes=1), (x, [0.0, 1.0, 0.0, 1.0])),
        (make_classifier(activation="sigmoid"), (x, [["a"], ["b"], [], ["a", "b"]])),
        (make_masked_lm(toy_proto), (x,)),
        (small_embedder(toy_proto), ((x, x), [1.0] * 4)),
        (tagger, (words, tags)),
    ):
        with pytest.raises(ValueError, match="Pass `sample_weight` instead"):
            task.fit(*data, class_weight={0: 2.0}, verbose=0)


NAMES = ("no", "yes")
# NumPy 2 has strings of any length.
STRINGS = getattr(np.dtypes, "StringDType", str)()


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (["no", "yes", "no"], NAMES),
        (("no", "yes", "no"), NAMES),
        (np.array(["no", "yes", "no"]), NAMES),
        (np.array(["no", b"yes", "no"], object), NAMES),
        (np.array(["no", "yes", "no"], STRINGS), NAMES),
        ([b"no", b"yes", b"no"], NAMES),
        ([["no"], ["yes"], ["no"]], NAMES),
        ([0, 1, 0], None),
        ([0, 1, 0], NAMES),
        ([0.0, 1.0, 0.0], None),
        ([False, True, False], None),
        (np.array([[0], [1], [0]], np.uint8), None),
        (np.array([0, 1.0, np.int64(0)], object), None),
    ],
)
def test_reads_classes(y, labels):
    encoded = encode_classes(y, 2, labels)
    assert encoded.tolist() == [0, 1, 0]
    assert encoded.dtype == np.int32


def test_reads_tensors():
    y = keras.ops.convert_to_tensor([0, 1, 0], "int32")
    assert encode_classes(y, 2, None).tolist() == [0, 1, 0]
    assert encode_scores(keras.ops.convert_to_tensor([0.5])).tolist() == [[0.5]]


@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([0, float("nan"), float("nan")], None, "Row 1 has the label nan.* 1 more"),
        ([0, float("inf")], None, "Row 1 has the label inf"),
        ([0, 1, 2], None, r"Row 2 has the label 2. The model has 2 classes, 0 to 1"),
        ([0, -1], None, "Row 1 has the label -1. The model has"),
        ([0, 2**40], None, "Row 1 has the label .*The model has"),
        ([0, 1, 0.5], None, "Row 2 has the label 0.5. Classes are integers"),
        ([0, None], None, "Row 1 has the label None. Pass the number or"),
        (np.array([0, object()], object), None, "Row 1 has the label <object"),
        (["no", "maybe"], NAMES, "Row 1 has the label 'maybe'.*classes are: 'no', 'y"),
        (["no", None], NAMES, "Row 1 has the label None"),
        (["no", float("nan")], NAMES, "Row 1 has the label nan"),
        (["no", float("nan")], (*NAMES, "nan"), "Row 1 has the label nan"),
        (["no", 1], NAMES, "Row 1 has the label 1, which is not a class"),
        (["no"], None, r"Row 0 has the label 'no'.*pass `labels="),
        ([[0, 1], [1, 0]], None, r"\[\[0, 1\], \[1, 0\]\]. For one-hot labels pass"),
        ([["no", "yes"]], NAMES, r"Received: \[\['no', 'yes'\]\]"),
        (0, None, r"must be a list, one for each text\. Received: 0\."),
        ("mood", NAMES, "Received: 'mood'. To name the column of a table"),
        ({"mood": [0]}, NAMES, "must be a list, one for each text"),
        ([[0], [0, 1]], None, r"Received: \[\[0\], \[0, 1\]\]"),
        (np.array(["2020-01-01"], "M8[D]"), None, "the label datetime.date.*Pass the"),
    ],
)
def test_refuses_and_names_the_row(y, labels, message):
    with pytest.raises(ValueError, match=message):
        encode_classes(y, 2, labels)


def test_names_are_learned_sorted():
    assert class_names(["b", "a", "b", b"c"]) == ("a", "b", "c")
    assert class_names([1, 0]) == ()
    # A missing label is no class, and `encode_classes` then names its row.
    assert class_names(["b", None, float("nan")]) == ("b",)
    # Spaces around a name are no part of it.
    with pytest.warns(UserWarning, match="around labels are removed: 'delivery '"):
        assert class_names(["delivery ", "delivery", b" a\n"]) == ("a", "delivery")
    assert encode_classes(["yes ", " no"], 2, NAMES).tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"Row 1 has the label ' '\. Drop the row"):
        class_names(["b", " "])


def test_reads_scores():
    for y in ([0.5, 2], [[0.5], [2]], np.array([0.5, 2], object)):
        scores = encode_scores(y)
        assert scores.tolist() == [[0.5], [2.0]]
        assert scores.dtype == np.float32


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, float("nan")], "Row 1 has the label nan. Drop the row"),
        ([0.5, float("-inf")], "Row 1 has the label -inf"),
        ([0.5, None], "Row 1 has the label None. A regression"),
        ([0.5, "2"], "Row 1 has the label '2'. A regression"),
        (["1", "2"], "Row 0 has the label '1'"),
        ([[0.5, 1.0]], r"Received: \[\[0.5, 1.0\]\]"),
    ],
)
def test_refuses_scores_and_names_the_row(y, message):
    with pytest.raises(ValueError, match=message):
        encode_scores(y)
