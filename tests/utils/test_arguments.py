"""Unknown arguments are refused by every constructor."""

import keras
import numpy as np
import pytest

import keras_albert
from keras_albert import AlbertBackbone, AlbertTokenizer, layers
from keras_albert.layers import (
    FactorizedEmbedding,
    SharedTransformerEncoder,
    TransformerBlock,
)
from keras_albert.layers.encoder import MaskedPooling
from keras_albert.layers.heads import ConditionalSpanHead, MaskedLMHead
from keras_albert.utils.arguments import (
    check_choice,
    check_kwargs,
    check_positive,
    check_shape,
)

SIZES = {
    "vocabulary_size": 20,
    "num_layers": 2,
    "num_heads": 2,
    "embedding_dim": 4,
    "hidden_dim": 8,
    "intermediate_dim": 16,
}
PREPROCESSORS = {
    value for name, value in vars(keras_albert).items() if name.endswith("Preprocessor")
}


class Base:
    def __init__(self, wide=1, **kwargs):
        check_kwargs(type(self), kwargs)


class Special(Base):
    def __init__(self, narrow=2, **kwargs):
        super().__init__(**kwargs)


def test_bases_know_arguments_too():
    Special(narrow=1, wide=2)
    with pytest.raises(TypeError, match=r"Special has no argument `wid`.*mean `wide`"):
        Special(wid=2)
    with pytest.raises(TypeError, match=r"no argument `x`. Its arguments are: narrow"):
        Special(x=2)
    with pytest.raises(TypeError, match=r"`wide`. Look there"):
        check_kwargs(Special, {"wide": 2}, inherited=("y",), hint="Look there.")


@pytest.mark.parametrize("value", [None, 2.0, "3", True, 0, -1])
def test_counts(value):
    with pytest.raises(ValueError, match=r"`n` must be a whole number"):
        check_positive(n=value)


def test_backbone_counts():
    for name in SIZES:
        with pytest.raises(ValueError, match=f"`{name}` must be a whole number"):
            AlbertBackbone(**SIZES | {name: 2.5})
    with pytest.raises(ValueError, match=r"preprocessor.max_sequence_length"):
        AlbertBackbone(**SIZES, max_sequence_length=None)


@pytest.mark.parametrize(
    ("cls", "arguments", "unknown", "nearest"),
    [
        (layers.FactorizedEmbedding, (20, 4, 8), "num_segment", "num_segments"),
        (layers.SharedTransformerEncoder, (2, 2, 16), "num_group", "num_groups"),
        (layers.TransformerBlock, (2, 16), "drop_out", "dropout"),
        (layers.ConditionalSpanHead, (), "drop_out", "dropout"),
        (layers.MaskedLMHead, (None,), "activatoin", "activation"),
        (MaskedPooling, ("mean",), "modes", "mode"),
    ],
)
def test_layers(cls, arguments, unknown, nearest):
    with pytest.raises(TypeError, match=f"{cls.__name__}.*Did you mean `{nearest}`"):
        cls(*arguments, **{unknown: 1})


@pytest.mark.parametrize("cls", sorted(PREPROCESSORS, key=str))
def test_preprocessors(tiny_proto, cls):
    message = f"{cls.__name__}.*Did you mean `sequence_length`"
    with pytest.raises(TypeError, match=message):
        cls(AlbertTokenizer(tiny_proto), sequence_lenght=16)


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


def test_a_choice_names_the_nearest_value():
    check_choice(("mean", "cls"), pooling="mean")
    with pytest.raises(ValueError, match=r"pooling='maen'\. Did you mean 'mean'\?"):
        check_choice(("mean", "cls"), pooling="maen")


def test_a_shape_names_the_axes_and_the_kind():
    check_shape(np.zeros((2, 3), int), "examples, tokens", "iu", "token_ids")
    for wrong in (np.zeros(3, int), np.zeros((2, 3))):
        with pytest.raises(ValueError, match=r"integers, of shape \(exam"):
            check_shape(wrong, "examples, tokens", "iu", "token_ids")
