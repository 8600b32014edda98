"""The threshold of "no answer"."""

import numpy as np
import pytest

from keras_albert.tasks.question_answering.answers import best_null_threshold
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


class TestThreshold:
    def test_it_is_the_best_of_all(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            scores = rng.integers(-3, 4, 12).astype(float)
            answered, unanswered = rng.random(12), rng.integers(0, 2, 12).astype(float)
            threshold = best_null_threshold(scores, answered, unanswered)

            def total(limit, scores=scores, pair=(answered, unanswered)):
                return np.where(scores > limit, pair[1], pair[0]).sum()

            best = max(total(limit) for limit in np.arange(-4.5, 5))
            assert total(threshold) == pytest.approx(best)

    def test_infinite_scores_stay_usable(self):
        scores = np.array([np.inf, -1.0, 2.0])
        threshold = best_null_threshold(
            scores, np.array([0.0, 1.0, 1.0]), np.array([1.0, 0.0, 0.0])
        )
        assert 2 < threshold < np.inf
