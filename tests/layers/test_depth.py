"""The loop over layers, and dropout inside it."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert.layers.randomness import StepSeed
from keras_albert.layers.run_layers import repeat
from keras_albert.layers.transformer_block import TransformerBlock
from tests.compiled import to_numpy

ONES = ops.ones((8, 16))


def _masks(seed, numbers, sites=(0, 1, 2)):
    return [
        to_numpy(keras.random.dropout(ONES, 0.5, seed=seed.block(n).site(site, 3))) > 0
        for n in numbers
        for site in sites
    ]


def test_dropout_masks_of_all_sites_and_blocks_are_independent():
    masks = _masks(StepSeed(keras.random.SeedGenerator(1)), range(4))
    assert len({mask.tobytes() for mask in masks}) == len(masks)
    for first in masks:
        agreements = [(first == second).mean() for second in masks]
        # Independent masks agree on half of 128 places, within 4 standard deviations.
        assert sorted(agreements)[-2] < 0.68


def test_masks_of_a_step_are_reproducible():
    seed = StepSeed(keras.random.SeedGenerator(1))
    for first, second in zip(_masks(seed, [3]), _masks(seed, [3]), strict=True):
        np.testing.assert_array_equal(first, second)


def test_masks_differ_by_step_and_repeat_with_the_seed():
    generator = keras.random.SeedGenerator(1)
    first, second = (_masks(StepSeed(generator), [0], [0])[0] for _ in range(2))
    again = _masks(StepSeed(keras.random.SeedGenerator(1)), [0], [0])[0]
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("unroll", [True, False])
@pytest.mark.parametrize(("first", "count"), [(0, 1), (2, 5)])
def test_repeat_passes_the_layer_index(unroll, first, count):
    def step(layer, x):
        return x * 2 + ops.cast(layer, "float32")

    expected = np.zeros(3)
    for layer in range(first, first + count):
        expected = expected * 2 + layer
    x = ops.zeros(3)
    np.testing.assert_allclose(
        to_numpy(repeat(step, x, first, count, unroll=unroll)), expected
    )


def test_loop_and_unrolled_dropout_are_equal():
    def run(unroll):
        seed = StepSeed(keras.random.SeedGenerator(1))

        def step(layer, x):
            return x + keras.random.dropout(
                ops.ones_like(x), 0.5, seed=seed.block(layer).site(0, 1)
            )

        return to_numpy(repeat(step, ops.zeros((4, 8)), 0, 6, unroll=unroll))

    np.testing.assert_array_equal(run(True), run(False))


@pytest.mark.skipif(keras.config.backend() != "jax", reason="JAX's compiler tells")
def test_loop_stores_less_for_the_backward_pass_than_unrolled_steps():
    import jax

    block = TransformerBlock(num_heads=2, intermediate_dim=64)
    x = jax.numpy.ones((2, 128, 16))
    block.build(x.shape)
    weights = [variable.value for variable in block.trainable_variables]

    def temporary_bytes(**depth):
        def loss(weights, x):
            def step(layer, x):
                return block.stateless_call(weights, [], x, training=True)[0]

            return repeat(step, x, 0, 12, **depth).sum()

        compiled = jax.jit(jax.grad(loss)).lower(weights, x).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    kept_all = temporary_bytes(unroll=False, remat=True)
    assert temporary_bytes(unroll=False) < 0.5 * kept_all
    assert temporary_bytes(unroll=False) < 0.8 * temporary_bytes(unroll=True)
