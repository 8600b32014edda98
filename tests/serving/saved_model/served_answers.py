"""Comparing the predictions of served models."""

from itertools import chain

import numpy as np
import pytest


def rows_of(outputs, *keys):
    """Return dense outputs as lists of dicts, without padding."""
    return [
        [dict(zip(keys, values, strict=True)) for values in row[:count]]
        for count, row in zip(
            outputs["count"],
            np.array([outputs[key].astype(object) for key in keys]).transpose(1, 2, 0),
            strict=True,
        )
    ]


def text_of(value):
    return value.decode() if isinstance(value, bytes) else value


def assert_rows(found, expected):
    """Check that lists of dicts agree: scores approximately, the rest exactly."""
    assert [len(row) for row in found] == [len(row) for row in expected]
    for a, b in zip(chain(*found), chain(*expected), strict=True):
        assert sorted(a) == sorted(b)
        for key, value in b.items():
            if key == "score":
                assert a[key] == pytest.approx(value, abs=1e-5)
            else:
                assert text_of(a[key]) == value, (a, b)


def assert_same(found, expected):
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


def assert_same_in_turn(few, many):
    for key, array in many.items():
        assert_same(array, np.resize(few[key], array.shape))


def assert_fillings(outputs, expected):
    """Check that the tokens for each mask agree with those of `fill_mask`."""
    for row, answers in enumerate(expected):
        # The results for a single mask are not nested in another list.
        masks = answers if isinstance(answers[0], list) else [answers]
        assert outputs["count"][row] == len(masks)
        for mask, tokens in enumerate(masks):
            keys = ("token", "token_str", "score")
            found = [outputs[key][row, mask] for key in keys]
            rows = [dict(zip(keys, t, strict=True)) for t in zip(*found, strict=True)]
            wanted = [{key: answer[key] for key in keys} for answer in tokens]
            assert_rows([rows], [wanted])
