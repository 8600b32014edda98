"""Masked tokens and sentence order, learned together."""

import numpy as np
import pytest

from tests.compiled import to_numpy
from tests.one_backend import on_one_backend_except
from tests.tasks.masked_lm.masked_lm_models import make_pretrainer

pytestmark = on_one_backend_except("test_both_losses_count_the_same")

FIRST = ["the old lamps", "the sea was by the town", "bread on the hill", "rain"] * 8
SECOND = ["it was a storm", "and it was small", "of the river", "in the old town"] * 8


@pytest.fixture(scope="module")
def pretrainer(toy_proto):
    """To read, not to change."""
    return make_pretrainer(toy_proto)


def test_both_losses_count_the_same(pretrainer):
    x, y, weights = pretrainer.preprocessor((FIRST, SECOND))
    scores = pretrainer.evaluate(
        x, y, sample_weight=weights, batch_size=32, verbose=0, return_dict=True
    )
    assert set(scores) == {
        "loss",
        "masked_lm_loss",
        "sentence_order_loss",
        "masked_lm_accuracy",
        "sentence_order_accuracy",
    }
    total = scores["masked_lm_loss"] + scores["sentence_order_loss"]
    assert scores["loss"] == pytest.approx(total, rel=1e-5)
    # Per real token, and per pair, by hand.
    logits = to_numpy(pretrainer(x))

    def losses(logits, targets):
        chances = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        return -np.log(np.take_along_axis(chances, targets[..., None], -1))[..., 0]

    slots = weights["masked_lm"]
    tokens = losses(logits["masked_lm"], y["masked_lm"])
    expected = (tokens * slots).sum() / slots.sum()
    assert scores["masked_lm_loss"] == pytest.approx(expected, rel=1e-4)
    expected = losses(logits["sentence_order"], y["sentence_order"]).mean()
    assert scores["sentence_order_loss"] == pytest.approx(expected, rel=1e-4)


def test_it_learns_the_order(toy_proto):
    pretrainer = make_pretrainer(
        toy_proto, seed=1, mask_selection_rate=0.05, max_ngram=1
    )
    pretrainer.compile(learning_rate=3e-3)
    # Weights of 0.02 in so narrow a model are long on a plateau.
    for variable in pretrainer.trainable_variables:
        if variable.path.endswith(("kernel", "embeddings")):
            variable.assign(variable.value * 5)
    first = ["lamps lamps", "bread lamps", "lamps bread", "bread bread"]
    second = ["rain storm", "storm storm", "rain rain", "storm rain"]
    history = pretrainer.fit(
        (first * 16, second * 16), batch_size=16, epochs=30, verbose=0
    ).history
    assert history["sentence_order_accuracy"][-1] > 0.9
    in_order = pretrainer.score_order(first, second)
    turned = pretrainer.score_order(second, first)
    assert in_order.shape == (4,)
    assert (in_order > 0.5).all()
    assert (turned < 0.5).all()
    alone = pretrainer.score_order(first[0], second[0])
    assert isinstance(alone, float)
    assert alone == pytest.approx(in_order[0], abs=1e-5)
    # It fills masks as well.
    assert len(pretrainer.fill_mask(("the old [MASK]", "it was"), top_k=3)) == 3


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "a dict of 'masked_lm' and 'sentence_order'"),
        ({"masked_lm": [[5], [6]]}, r"Received: \['masked_lm'\]"),
        ({"masked_lm": [[5], [6]], "sentence_order": [0, 2]}, "The model has 2"),
        ({"masked_lm": [[5], [99]], "sentence_order": [0, 1]}, "Row 1 of the targets"),
    ],
)
def test_wrong_targets_of_ids(pretrainer, y, message):
    x, _, _ = pretrainer.preprocessor((FIRST[:2], SECOND[:2]))
    with pytest.raises(ValueError, match=message):
        pretrainer.evaluate(x, y, verbose=0)


def test_bad_input(pretrainer):
    with pytest.raises(ValueError, match="single texts"):
        pretrainer.fit(FIRST, verbose=0)
    with pytest.raises(ValueError, match=r"Pairs are `fit\(\(first, second\)\)`"):
        pretrainer.fit(FIRST, SECOND, verbose=0)
    with pytest.raises(ValueError, match="as many first texts as second"):
        pretrainer.score_order(FIRST, SECOND[:3])
