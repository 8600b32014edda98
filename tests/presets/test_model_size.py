"""Configs of models that their files cannot contain."""

import pytest

from keras_albert import AlbertBackbone
from keras_albert.presets.checkpoint import check_backbone_size, check_size
from tests.foreign_models import TINY

SIZES = TINY | {"num_groups": 2, "num_inner_repetitions": 2}


@pytest.fixture(scope="module")
def stored():
    return [tuple(weight.shape) for weight in AlbertBackbone(**SIZES).weights]


def test_a_model_fits_its_own_weights(stored):
    check_backbone_size(SIZES, stored, "config.json")
    check_backbone_size(SIZES, [], "config.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_dim": 2**40}, r"a model of at least [\d,]+ weights, and its files"),
        ({"intermediate_dim": 10**7}, "describes a model of at least"),
        ({"vocabulary_size": 10**12}, "describes a model of at least"),
        ({"max_sequence_length": 10**9}, "describes a model of at least"),
        ({"num_segments": 10**9}, "describes a model of at least"),
        ({"num_layers": 10**6}, "`num_layers` may be 1000 at most"),
        ({"num_inner_repetitions": 10**6}, "may be 1000 at most"),
        ({"num_layers": 500, "num_groups": 500}, "a model of 1,000 blocks, with 16"),
        ({"num_groups": 5}, "at least `num_groups`.* num_layers=4, num_groups=5"),
        ({"num_layers": "4"}, "`num_layers` must be a whole number.*='4'"),
        ({"num_heads": True}, "`num_heads` must be.*=True"),
        ({"hidden_dim": 16.0}, "`hidden_dim` must be.*=16.0"),
        ({"hidden_dim": -16}, "`hidden_dim` must be.*=-16"),
        ({"hidden_dim": 10**4000}, "`hidden_dim` may be .* at most.*=1000"),
        ({"num_heads": 3}, "`hidden_dim` is 16, not a multiple of"),
        ({"num_groups": None}, "`num_groups` must be.*=None"),
    ],
)
def test_a_larger_one_is_refused(stored, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_backbone_size(SIZES | changes, stored, "config.json")
    assert "config.json" in str(caught.value)
    assert "Copy or download" in str(caught.value)


def test_what_is_missing_is_named(stored):
    arguments = {name: SIZES[name] for name in SIZES if name != "hidden_dim"}
    with pytest.raises(ValueError, match=r"`hidden_dim` must be.*=None"):
        check_backbone_size(arguments, stored, "config.json")


def test_without_files_a_large_model_may_be_built_and_no_monster():
    xxlarge = {"vocabulary_size": 30_000, "embedding_dim": 128, "hidden_dim": 4096}
    xxlarge |= {"num_groups": 1, "num_inner_repetitions": 1}
    check_backbone_size(SIZES | xxlarge | {"intermediate_dim": 16_384}, [], "c.json")
    with pytest.raises(ValueError, match="and it has no files"):
        check_backbone_size(SIZES | {"hidden_dim": 10**4}, [], "c.json")


def test_a_head_is_bounded_too(stored):
    check_size(3 * 16, stored, "task.json")
    with pytest.raises(ValueError, match="at least 160,000,000 weights"):
        check_size(10**7 * 16, stored, "task.json")
