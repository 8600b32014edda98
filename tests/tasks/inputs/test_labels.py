import keras
import numpy as np
import pytest

from keras_albert.tasks.inputs.labels import class_names, encode_classes, encode_scores

NAMES = ("no", "yes")


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (["no", "yes", "no"], NAMES),
        (("no", "yes", "no"), NAMES),
        (np.array(["no", "yes", "no"]), NAMES),
        (np.array(["no", b"yes", "no"], object), NAMES),
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
        ([0, 1, 2], None, r"Row 2 has the label 2, which is out of range.*0 to 1"),
        ([0, -1], None, "Row 1 has the label -1, which is out of range"),
        ([0, 2**40], None, "Row 1 has the label .*out of range"),
        ([0, 1, 0.5], None, r"Row 2 has the label 0.5, which is no class number"),
        ([0, None], None, "Row 1 has the label None, which is neither"),
        (np.array([0, object()], object), None, "Row 1 has the label <object"),
        (["no", "maybe"], NAMES, "Row 1 has the label 'maybe'.*classes are: 'no', 'y"),
        (["no", None], NAMES, "Row 1 has the label None"),
        (["no", float("nan")], NAMES, "Row 1 has the label nan"),
        (["no", float("nan")], (*NAMES, "nan"), "Row 1 has the label nan"),
        (["no", 1], NAMES, "Row 1 has the label 1, which is no class"),
        (["no"], None, r"Row 0 has the label 'no'.*pass `labels="),
        ([[0, 1], [1, 0]], None, r"shape \(2, 2\). For one-hot labels pass"),
        ([["no", "yes"]], NAMES, r"shape \(1, 2\)"),
        (0, None, r"an array of shape \(\)"),
        (np.array(["2020-01-01"], "M8[D]"), None, "Labels of dtype datetime64"),
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


def test_reads_scores():
    for y in ([0.5, 2], [[0.5], [2]], np.array([0.5, 2], object)):
        scores = encode_scores(y)
        assert scores.tolist() == [[0.5], [2.0]]
        assert scores.dtype == np.float32


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0.5, float("nan")], "Row 1 has the label nan, which is no target"),
        ([0.5, float("-inf")], "Row 1 has the label -inf"),
        ([0.5, None], "Row 1 has the target None"),
        ([0.5, "2"], "Row 1 has the target '2', and a regression"),
        (["1", "2"], "Row 0 has the target '1'"),
        ([[0.5, 1.0]], r"shape \(1, 2\)"),
    ],
)
def test_refuses_scores_and_names_the_row(y, message):
    with pytest.raises(ValueError, match=message):
        encode_scores(y)
