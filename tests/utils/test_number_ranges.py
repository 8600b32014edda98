"""Invalid numbers are refused by every layer."""

import keras
import pytest

from keras_albert.layers import (
    FactorizedEmbedding,
    SharedTransformerEncoder,
    TransformerBlock,
)
from keras_albert.layers.conditional_span_head import ConditionalSpanHead
from keras_albert.layers.masked_lm_head import MaskedLMHead

MAKERS = {
    "embedding": lambda **given: FactorizedEmbedding(9, 4, 8, **given),
    "block": lambda **given: TransformerBlock(2, 16, **given),
    "encoder": lambda **given: SharedTransformerEncoder(1, 2, 16, **given),
    "span head": ConditionalSpanHead,
    "masked LM head": lambda **given: MaskedLMHead(
        keras.layers.ReversibleEmbedding(9, 4), **given
    ),
}
NUMBERS = [float("nan"), float("inf"), -1e-12, "0.1", None, True]


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_epsilon_is_finite_and_not_negative(make, value):
    with pytest.raises(ValueError, match="`layer_norm_epsilon` must be"):
        make(layer_norm_epsilon=value)


@pytest.mark.parametrize("value", [*NUMBERS, 1.5])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, "dropout") for kind in list(MAKERS)[:4]),
        *((kind, "attention_dropout") for kind in ("block", "encoder")),
    ],
)
def test_a_rate_is_a_fraction(kind, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        MAKERS[kind](**{name: value})


def test_the_ends_of_the_ranges_are_allowed():
    MAKERS["block"](dropout=0, attention_dropout=1, layer_norm_epsilon=0)
