import keras
import numpy as np
import pytest

from keras_albert.devices.batch_sharding import MASKED_TOKENS
from keras_albert.pretraining import PretrainingData
from keras_albert.text.masking import MaskingRates, RowDraws, permute
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

BATCH = 8


def assert_same(one, other):
    keras.tree.assert_same_structure(one, other)
    np.testing.assert_equal(keras.tree.flatten(one), keras.tree.flatten(other))


def joined(*batches):
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *batches)


@pytest.fixture(scope="module")
def data(prepared):
    return PretrainingData(prepared)


def test_shapes_are_static_and_complete(data):
    x, y, weights = data.batches(BATCH).batch(0)
    slots = data.masking.rates.slots(24)
    for name in ("token_ids", "segment_ids", "padding_mask"):
        assert x[name].shape == (BATCH, 24)
    assert x["mask_positions"].shape == y["masked_lm"].shape == (BATCH, slots)
    assert weights["masked_lm"].shape == (BATCH, slots)
    assert y["sentence_order"].shape == weights["sentence_order"].shape == (BATCH,)
    assert {array.dtype.name for array in x.values()} == {"int32"}


def test_a_batch_is_a_function_of_its_number(prepared, data):
    batches = data.batches(BATCH)
    third = batches.batch(3)
    batches.batch(40)
    assert_same(batches.batch(3), third)
    assert_same(PretrainingData(prepared).batches(BATCH).batch(3), third)
    for other in (
        data.batches(BATCH).batch(4),
        PretrainingData(prepared, seed=1).batches(BATCH).batch(3),
        batches.batch(3 + batches.steps_per_epoch),
    ):
        assert (other[0]["token_ids"] != third[0]["token_ids"]).any()


def weighed(batches):
    """The rows of all processes, with weights as after a training step's scaling."""
    x, y, weights = joined(*batches)
    counts = x.pop(MASKED_TOKENS)
    share = (counts / counts.mean())[:, None]
    if isinstance(weights, dict):
        return x, y, weights | {"masked_lm": weights["masked_lm"] * share}
    return x, y, weights * share


@pytest.mark.parametrize("task", ["sentence_order", "next_sentence", None])
@pytest.mark.parametrize(("num_shards", "accumulation"), [(2, 1), (4, 3), (8, 1)])
def test_parts_of_a_batch_are_the_whole(prepared, task, num_shards, accumulation):
    data = PretrainingData(prepared, second_task=task)

    def batches():
        return data.batches(BATCH, 20, accumulation)

    parts = [batches().batch(5, i, num_shards) for i in range(num_shards)]
    x, y, weights = weighed(parts)
    whole = batches().batch(5)
    assert_same((x, y), whole[:2])
    for a, b in zip(*map(keras.tree.flatten, (weights, whole[2])), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert len({int(part[0][MASKED_TOKENS][0]) for part in parts}) > 1


def test_a_process_reads_only_its_rows(prepared, monkeypatch):
    data, read = PretrainingData(prepared), []
    segments = data.segments
    monkeypatch.setattr(data, "segments", lambda r: (read.extend(r), segments(r))[1])
    data.batches(48).batch(0, 3, 4)
    # The rows of all batches that are made at a time.
    assert len(read) <= 512
    wanted = data.batches(48).batch(0, 3, 4)[0]["token_ids"]
    read.clear()
    monkeypatch.setattr("keras_albert.pretraining.dataset._ROWS_AT_ONCE", 1)
    found = data.batches(48).batch(0, 3, 4)[0]["token_ids"]
    assert read == permute(np.arange(36, 48), 96, 0, 0).tolist()
    np.testing.assert_array_equal(found, wanted)


def test_accumulated_batches_are_one_large_batch(data):
    small = data.batches(BATCH, accumulation_steps=3)
    assert_same(
        joined(*(small.batch(6 + i) for i in range(3))),
        data.batches(3 * BATCH).batch(2),
    )


def original(data, x, y):
    """The rows before masking."""
    ids = x["token_ids"].copy()
    rows, slots = np.nonzero(y["masked_lm"])
    ids[rows, x["mask_positions"][rows, slots]] = y["masked_lm"][rows, slots]
    return ids


def pairs_of(data, rows):
    special = data.tokenizer.sep_token_id
    for row in rows:
        first, second = np.flatnonzero(row == special)
        yield tuple(row[1:first].tolist()), tuple(row[first + 1 : second].tolist())


def known(data):
    first, second = data.segments(np.arange(len(data)))
    columns = (map(tuple, rows.to_lists()) for rows in (first, second))
    return list(zip(*columns, strict=True))


def test_an_epoch_has_each_example_once_in_an_order_of_its_own(data):
    expected = sorted(known(data))
    batches = data.batches(BATCH)
    orders = []
    for epoch in range(2):
        seen = []
        for step in range(12):
            x, y, _ = batches.batch(12 * epoch + step)
            pairs = pairs_of(data, original(data, x, y))
            turned = y["sentence_order"].astype(bool)
            seen += [p[::-1] if t else p for p, t in zip(pairs, turned, strict=True)]
        assert sorted(seen) == expected
        orders.append(seen)
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("shards", "steps"), [(1, 1), (2, 1), (2, 3)])
def test_weights_make_the_mean_over_all_masked_tokens(data, shards, steps):
    """As in the loss: a mean over cells, then over parts, weighed, and batches."""
    rng = np.random.default_rng(0)
    slots = data.batches(BATCH).slots
    losses = rng.random((steps, BATCH, slots))
    batches = data.batches(BATCH, accumulation_steps=steps)
    size = BATCH // shards
    means, counts, masked = [], [], []
    for step in range(steps):
        for shard in range(shards):
            part = losses[step, shard * size : (shard + 1) * size]
            x, y, weights = batches.batch(step, shard, shards)
            means.append((part * weights["masked_lm"]).mean())
            counts.append(x[MASKED_TOKENS][0] if shards > 1 else 1)
            masked.append(part[y["masked_lm"] > 0])
    mean = np.average(means, weights=counts)
    np.testing.assert_allclose(mean, np.concatenate(masked).mean(), rtol=1e-6)


def test_held_out_examples_come_once_and_always_masked_alike(prepared):
    data = PretrainingData(prepared, "held_out")
    batches = data.batches(10, shuffle=False)
    assert batches.steps_per_epoch == 3
    all_batches = [batches.batch(step) for step in range(3)]
    again = data.batches(10, shuffle=False)
    for step in (2, 0, 1):
        assert_same(again.batch(step), all_batches[step])
    _, _, weights = joined(*all_batches)
    assert weights["sentence_order"].tolist() == [1.0] * 24 + [0.0] * 6
    assert set(np.unique(weights["masked_lm"])) == {0.0, 1.0}
    assert not weights["masked_lm"][24:].any()
    with pytest.raises(ValueError, match="`step` must be at most 2"):
        batches.batch(3)


def test_without_a_second_task_pairs_stay(prepared):
    data = PretrainingData(prepared, second_task=None)
    x, labels, weights = data.batches(96).batch(0)
    assert labels.shape == weights.shape == x["mask_positions"].shape
    pairs = pairs_of(data, original(data, x, {"masked_lm": labels}))
    assert sorted(pairs) == sorted(known(data))


def test_next_sentence_draws_from_another_document(prepared):
    data = PretrainingData(prepared, second_task="next_sentence")
    pairs = known(data)
    x, y, _ = data.batches(96).batch(0)
    changed = y["sentence_order"].astype(bool)
    assert 20 < changed.sum() < 76
    seconds = dict(pairs)
    rows = pairs_of(data, original(data, x, y))
    for (first, second), is_changed in zip(rows, changed, strict=True):
        if not is_changed:
            assert (first, second) in pairs
        else:
            # As long as the one that it replaces.
            lengths = {len(b) for a, b in pairs if a == first}
            assert len(second) in lengths
            assert first in seconds
    rows = np.arange(96)
    others = data.files.draw_others(rows, RowDraws(0, rows))
    documents = data.files.documents
    assert (documents(others) != documents(rows)).all()


def test_shorter_rows_without_a_second_task_are_windows(prepared):
    data = PretrainingData(
        prepared, second_task=None, rates=MaskingRates(mask_selection_rate=0.0)
    )
    tokenizer, budget = data.tokenizer, 12 - 3
    whole = [[*first, *second] for first, second in known(data)]
    x, _, _ = data.batches(len(data), 12).batch(0)
    special = [tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id]
    starts = []
    places = permute(np.arange(len(data)), len(data), 0, 0)
    for row, place in enumerate(places.tolist()):
        ids = [i for i in x["token_ids"][row].tolist() if i not in special]
        text = whole[place]
        assert len(ids) == min(budget, len(text))
        found = [i for i in range(len(text)) if text[i : i + len(ids)] == ids]
        assert found
        starts += found[:1]
        second = x["segment_ids"][row].sum()
        assert x["padding_mask"][row].sum() == len(ids) + 3
        assert 1 <= second <= len(ids)
    assert len(set(starts)) > 3


def test_as_a_tensorflow_dataset(data):
    pytest.importorskip("tensorflow")
    batches = data.batches(BATCH)
    dataset = batches.tf_dataset(start=2, stop=4, shard=1, num_shards=2)
    found = list(dataset.as_numpy_iterator())
    assert len(found) == 2
    assert dataset.element_spec[0]["token_ids"].shape == (BATCH // 2, 24)
    for step, batch in zip((2, 3), found, strict=True):
        assert_same(batch, batches.batch(step, 1, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, d: PretrainingData(p, split="test"), "`split` must be one of"),
        (lambda p, d: PretrainingData(p, second_task="order"), "second_task"),
        (lambda p, d: d.batches(8, accumulation_steps=0), "`accum.*at least 1"),
        (lambda p, d: d.batches(8, sequence_length=25), "at most 24"),
        (lambda p, d: d.batches(8, sequence_length=4), "at least 5"),
        (lambda p, d: d.batches(8).batch(-1, 0, 1), "step=-1"),
        (lambda p, d: d.batches(8).batch(0, 0, 3), "num_shards=3"),
        (lambda p, d: d.batches(8).batch(0, 2, 2), "shard=2"),
    ],
)
def test_wrong_settings_are_named(prepared, data, call, message):
    with pytest.raises(ValueError, match=message):
        call(prepared, data)
