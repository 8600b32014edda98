import keras
import numpy as np
import pytest

from keras_albert.data.batches import LengthBatches
from keras_albert.text import TokenRows
from keras_albert.text.masking import RowSeeds, hashed
from keras_albert.text.packing import EncodedTexts, LabelledTexts, SpecialIds

COUNT = 23


@pytest.fixture
def texts():
    lengths = np.random.default_rng(0).integers(0, 28, COUNT)
    rows = [[10 + row] * length for row, length in enumerate(lengths)]
    return EncodedTexts((TokenRows.from_lists(rows),), SpecialIds(2, 3, 0), 32)


def make(texts, shuffle, y=None, sample_weight=None):
    return LengthBatches(
        LabelledTexts(texts, y, sample_weight),
        lambda longest: longest,
        batch_size=4,
        shuffle=shuffle,
    )


def plan_of(batches):
    return [rows.tolist() for rows in batches.plan]


def test_batches_hold_texts_targets_and_weights_of_the_same_rows(texts):
    y, weights = np.arange(COUNT), np.arange(COUNT, dtype=np.float32) / 2
    batches = make(texts, True, y=y, sample_weight=weights)
    assert len(batches) == 6
    seen = []
    for index in range(len(batches)):
        inputs, targets, sample_weight = batches[index]
        rows = targets.tolist()
        seen += rows
        np.testing.assert_array_equal(sample_weight, weights[rows])
        lengths = texts.lengths[rows]
        assert inputs["token_ids"].shape == (len(rows), lengths.max())
        np.testing.assert_array_equal(inputs["padding_mask"].sum(axis=1), lengths)
        # What stands in a row tells whose it is.
        for row, ids in zip(rows, inputs["token_ids"], strict=True):
            assert set(ids.tolist()) <= {0, 2, 3, 10 + row}
    assert sorted(seen) == list(range(COUNT))


def test_restores_the_order(texts):
    batches = make(texts, False)
    outputs = np.concatenate(batches.plan).astype(float)[:, None]
    np.testing.assert_array_equal(batches.restore_order(outputs)[:, 0], range(COUNT))


def test_each_epoch_has_another_plan_and_all_are_reproducible(texts):
    def three_plans(seed):
        keras.utils.set_random_seed(seed)
        batches = make(texts, True)
        plans = [plan_of(batches)]
        for _ in range(2):
            batches.on_epoch_end()
            plans.append(plan_of(batches))
        return plans

    first, again, other = three_plans(1), three_plans(1), three_plans(2)
    assert first == again
    assert first != other
    assert first[0] != first[1] != first[2]


def test_an_epoch_follows_from_the_seed_and_its_number(texts):
    keras.utils.set_random_seed(1)
    batches = make(texts, True)
    plans = []
    for _ in range(3):
        plans.append(plan_of(batches))
        batches.on_epoch_end()
    # In any order, whatever was drawn before.
    for epoch in (2, 0, 1, 2):
        np.random.random()
        assert plan_of(batches.of_epoch(epoch)) == plans[epoch]
    assert plan_of(make(texts, False).of_epoch(3)) == plan_of(make(texts, False))


class DrawnTexts:
    """Examples that are drawn anew each time, as those of a masked language model."""

    def __init__(self, count):
        self.lengths = np.arange(count)
        self.seeds = RowSeeds(hashed(7, self.lengths))

    def __len__(self):
        return len(self.lengths)

    def pack(self, rows, length):
        return (self.seeds.draws(rows).random(np.arange(len(rows))),)


def test_what_is_drawn_for_an_epoch_is_the_same_again():
    keras.utils.set_random_seed(1)
    batches = LengthBatches(DrawnTexts(COUNT), lambda longest: longest, 4, shuffle=True)
    epochs = [batches.of_epoch(number) for number in (0, 1)]
    drawn = [np.concatenate([batch for (batch,) in epoch]) for epoch in epochs]
    again = np.concatenate([batch for (batch,) in batches.of_epoch(1)])
    np.testing.assert_array_equal(again, drawn[1])
    assert not set(drawn[0]) & set(drawn[1])
