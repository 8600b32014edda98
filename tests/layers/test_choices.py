import numpy as np

from keras_albert.layers.choices import MISSING_CHOICE, ChoiceScores, ChoicesToRows
from tests.compiled import to_numpy


def test_rows_and_scores_of_choices():
    ids = np.arange(24).reshape(2, 3, 4).astype("int32")
    mask = np.ones((2, 3, 4), "int32")
    mask[1, 2] = 0
    mask[0, 1, 2:] = 0
    rows = to_numpy(ChoicesToRows()({"token_ids": ids, "padding_mask": mask}))
    np.testing.assert_array_equal(rows["token_ids"], ids.reshape(6, 4))
    # A missing choice has one position unmasked; the masks of all others are unchanged.
    expected = mask.reshape(6, 4).copy()
    expected[5, 0] = 1
    np.testing.assert_array_equal(rows["padding_mask"], expected)
    scores = to_numpy({"": ChoiceScores()(np.arange(6.0)[:, None], mask)})[""]
    np.testing.assert_array_equal(scores, [[0, 1, 2], [3, 4, MISSING_CHOICE]])
