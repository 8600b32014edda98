"""Orders and draws by index."""

import numpy as np
import pytest

from keras_albert.text.masking import RowDraws, number_in_row, permute


@pytest.mark.parametrize("count", [*range(1, 20), 64, 65, 1000])
def test_an_order_has_each_number_once(count):
    places = np.arange(count)
    found = permute(places, count, 3, 0)
    assert sorted(found.tolist()) == places.tolist()
    np.testing.assert_array_equal(permute(places[::-2], count, 3, 0), found[::-2])


def test_orders_are_of_their_key_and_random():
    count, places = 1000, np.arange(1000)
    orders = np.array([permute(places, count, seed, 7) for seed in range(400)])
    assert len({order.tobytes() for order in orders}) == 400
    # The mean at each place, and the correlation of neighbours.
    deviation = count / np.sqrt(12 * 400)
    assert np.abs(orders.mean(axis=0) - 499.5).max() < 5 * deviation
    neighbours = np.corrcoef(orders[:, :-1].ravel(), orders[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 0.01
    assert abs((orders == places).mean() - 1 / count) < 0.0005


def test_an_order_of_any_size_needs_no_memory():
    places = np.array([0, 1, 2**40 - 1])
    found = permute(places, 2**40, 0, 0)
    assert len(set(found.tolist())) == 3
    assert found.max() > 2**32


def test_draws_of_a_row_depend_on_its_key_alone():
    keys, rows = np.array([5, 9, 7]), np.array([0, 0, 0, 2, 2])
    draws, alone = RowDraws(1, keys), RowDraws(1, keys[2:])
    for _ in range(2):
        found = draws.random(rows)
        np.testing.assert_array_equal(found[3:], alone.random(np.array([0, 0])))
        assert len(set(found.tolist())) == 5
    many = RowDraws(0, np.arange(200)).random(np.repeat(np.arange(200), 500))
    assert abs(many.mean() - 0.5) < 0.005
    assert (many >= 0).all()
    assert (many < 1).all()
    shares = np.histogram(many, 20)[0] / len(many)
    assert np.abs(shares - 0.05).max() < 0.005


def test_entries_are_numbered_in_their_rows():
    assert number_in_row(np.array([3, 3, 5])).tolist() == [0, 1, 0]
    assert number_in_row(np.empty(0, np.int64)).tolist() == []
