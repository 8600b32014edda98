"""Test the settings of the published fine-tuning runs."""

import keras
import pytest

from keras_albert.tasks.optimizers import default_learning_rate
from keras_albert.tasks.recipes import RECIPE_NAMES, recipe
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


@pytest.mark.parametrize("name", RECIPE_NAMES)
@pytest.mark.parametrize("hidden_dim", [768, 1024, 4096])
def test_published_rates_are_for_base_and_wider_models(name, hidden_dim):
    assert recipe(name).for_width(hidden_dim) == recipe(name)


def test_narrower_models_have_a_higher_rate_by_the_factor_of_the_default():
    race = recipe("race", "v1")
    narrow = race.for_width(256)
    factor = default_learning_rate(256, True) / default_learning_rate(768, True)
    assert narrow.learning_rate == pytest.approx(race.learning_rate * factor)
    assert factor == pytest.approx(3**2)
    first = keras.ops.convert_to_numpy(narrow.optimizer(12).learning_rate)
    assert float(first) == pytest.approx(narrow.learning_rate)


def test_rates_have_a_limit():
    assert recipe("squad-1.1").for_width(32).learning_rate == 1e-3
    assert default_learning_rate(16, True) == default_learning_rate(16, False) == 1e-3


def test_unknown_recipes_are_refused():
    with pytest.raises(ValueError, match="Choose one of: cola"):
        recipe("imagenet")
    with pytest.raises(ValueError, match="'v1' or 'v2'"):
        recipe("race", "v3")
