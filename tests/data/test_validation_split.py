import pytest

from keras_albert.data.tables import RawData, split_validation
from keras_albert.text.reading import TextBatch, text_columns
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


def test_splits_pairs_and_ids():
    pairs = (["a", "b"], ["c", "d"])
    train, held = split_validation(RawData(pairs, [0, 1]), 0.5, text_columns)
    assert train[0] == TextBatch((["a"], ["c"]), True)
    assert held[0] == TextBatch((["b"], ["d"]), True)
    assert train[2] is held[2] is None
    ids = {"token_ids": [[1], [2]], "padding_mask": [[1], [1]]}
    train, held = split_validation(RawData(ids, [0, 1]), 0.5, text_columns)
    assert held[0]["token_ids"].tolist() == [[2]]


def test_a_tuple_of_targets_or_weights_is_of_examples():
    ids = {"token_ids": [[1], [2], [3]]}
    data = RawData(ids, ("p", "q", "r"), (1.0, 2.0, 3.0))
    train, held = split_validation(data, 0.4, text_columns)
    assert list(train[1:3]) == [("p",), (1.0,)]
    assert list(held[1:3]) == [("q", "r"), (2.0, 3.0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], [0, 1], None, 1.5), "fraction between 0 and 1.*=1.5"),
        ((["a", "b"], [0, 1], None, -0.5), "fraction between 0 and 1"),
        ((["a"], [0], None, 0.5), "of 1 examples leaves one side empty"),
        (([], [], None, 0.5), "of 0 examples leaves one side empty"),
        ((["a", "b"], [0, 1, 0], None, 0.5), "2 examples, but 3 targets"),
        ((["a", "b"], [0, 1], [1], 0.5), "2 examples, but 1 sample weights"),
        ((iter([]), None, None, 0.5), "Pass `validation_data` instead"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        split_validation(RawData(*arguments[:3]), arguments[3], text_columns)
