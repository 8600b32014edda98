import numpy as np
import pytest

from keras_albert.text.tokenizer.read_token_ids import to_id_rows
from keras_albert.text.tokenizer.token_rows import TokenRows


@pytest.mark.parametrize(
    ("given", "rows", "batched"),
    [
        (5, [[5]], False),
        ([], [[]], False),
        ([5, 6], [[5, 6]], False),
        (np.array([5, 6]), [[5, 6]], False),
        ([np.int64(5)], [[5]], False),
        ([[5], []], [[5], []], True),
        (np.array([[5, 6]]), [[5, 6]], True),
        ([np.array([5]), (6, 7)], [[5], [6, 7]], True),
        (TokenRows.from_lists([[5], []]), [[5], []], True),
    ],
)
def test_reads_all_types(given, rows, batched):
    assert to_id_rows(given, 10) == (rows, batched)


@pytest.mark.parametrize(
    "bad", [[-100], [10], [0.5], ["a"], [[1], [2, None]], [[1], 2]]
)
def test_invalid_ids_raise(bad):
    with pytest.raises(ValueError, match="whole numbers from 0 to 9"):
        to_id_rows(bad, 10)
