"""The masked language model: its numbers, its training, and its answers."""

import keras
import numpy as np
import pytest

from keras_albert.tasks.masked_lm import TokenCrossEntropy
from tests.compiled import to_numpy
from tests.one_backend import on_one_backend_except
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm

pytestmark = on_one_backend_except(
    "TestTraining::test_the_loss_is_the_mean_over_masked_tokens",
    "TestTraining::test_all_or_nothing_is_masked[0.0]",
    "test_token_cross_entropy_is_keras_own",
)


@pytest.fixture(scope="module")
def masked_lm(toy_proto):
    """To read, not to change."""
    return make_masked_lm(toy_proto)


class TestTraining:
    def test_it_learns(self, toy_proto, toy):
        masked_lm = make_masked_lm(toy_proto, seed=1)
        masked_lm.compile(learning_rate=1e-2)
        texts = ["the old town by the sea"] * 64
        before = masked_lm.evaluate(texts, verbose=0, return_dict=True)
        # One mask pattern for all evaluations.
        assert masked_lm.evaluate(texts, verbose=0, return_dict=True) == before
        history = masked_lm.fit(
            texts, batch_size=16, epochs=12, validation_split=0.25, verbose=0
        ).history
        assert history["val_loss"][-1] < 0.5 * before["loss"]
        # Of one text that is masked in one way.
        assert history["val_accuracy"][-1] > 0.5
        best = masked_lm.fill_mask("the old [MASK] by the sea")
        assert len(best) == 5

    def test_the_loss_is_the_mean_over_masked_tokens(self, masked_lm, toy):
        x, y, weights = masked_lm.preprocessor(toy[0][:8])
        weights[4:] = 0
        logits = to_numpy(masked_lm(x)).astype("float64")
        chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        losses = -np.log(np.take_along_axis(chances, y[..., None], -1))[..., 0]
        scores = masked_lm.evaluate(x, y, sample_weight=weights, verbose=0)
        assert scores[0] == pytest.approx((losses * weights).sum() / weights.sum())

    @pytest.mark.parametrize("rate", [0.0, 1.0])
    def test_all_or_nothing_is_masked(self, toy_proto, toy, rate):
        masked_lm = make_masked_lm(toy_proto, mask_selection_rate=rate)
        before = masked_lm.get_weights()
        masked_lm.compile(keras.optimizers.SGD(1.0))
        history = masked_lm.fit(toy[0][:8], verbose=0).history
        loss = masked_lm.evaluate(toy[0][:8], verbose=0, return_dict=True)["loss"]
        assert (history["loss"][0] == loss == 0.0) == (rate == 0.0)
        assert np.isfinite([history["loss"][0], loss]).all()
        changed = list(map(np.array_equal, before, masked_lm.get_weights()))
        assert all(changed) == (rate == 0.0)

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (["second"] * 4, "Leave them out. Pairs are"),
            ([0, 1, 0, 1], "from the texts"),
        ],
    )
    def test_targets_are_refused(self, masked_lm, toy, y, message):
        with pytest.raises(ValueError, match=message):
            masked_lm.evaluate(toy[0][:4], y)

    def test_ids_are_checked(self, masked_lm, toy):
        x, y, weights = masked_lm.preprocessor(toy[0][:4])
        short = {k: v for k, v in x.items() if k != "mask_positions"}
        with pytest.raises(TypeError, match="mask_positions"):
            masked_lm.predict(short, verbose=0)
        outside = x | {"mask_positions": x["mask_positions"] + 90}
        with pytest.raises(ValueError, match="Row 0 of `mask_positions`"):
            masked_lm.predict(outside, verbose=0)
        with pytest.raises(ValueError, match="Row 0 of the targets"):
            masked_lm.evaluate(x, y + 90, sample_weight=weights, verbose=0)
        with pytest.raises(ValueError, match="integers"):
            masked_lm.evaluate(x, y[:, 0], verbose=0)


@pytest.mark.parametrize(
    "reduction", ["sum_over_batch_size", "mean_with_sample_weight"]
)
def test_token_cross_entropy_is_keras_own(reduction):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 7, (3, 5))
    scores = rng.normal(size=(3, 5, 7)).astype("float32")
    weights = rng.integers(0, 2, (3, 5)).astype("float32")
    ours = TokenCrossEntropy(reduction=reduction)
    theirs = keras.losses.SparseCategoricalCrossentropy(True, reduction=reduction)
    expected = float(theirs(labels, scores, weights))
    assert float(ours(labels, scores, weights)) == pytest.approx(expected)
    again = TokenCrossEntropy.from_config(ours.get_config())
    assert float(again(labels, scores, weights)) == pytest.approx(expected)
