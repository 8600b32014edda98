"""The encoder."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import AlbertBackbone
from keras_albert.layers import SharedTransformerEncoder
from keras_albert.layers.base_layer import StepSeed
from keras_albert.layers.block import TransformerBlock
from keras_albert.layers.run_layers import scan_layers
from tests.compiled import gradients, program_size, to_numpy
from tests.layers.layer_checks import check_layer, check_saving, check_training
from tests.random_weights import add_noise

ARGUMENTS = {
    "num_layers": 4,
    "num_heads": 2,
    "intermediate_dim": 16,
    "num_groups": 2,
    "num_inner_repetitions": 2,
    "activation": "gelu",
    "layer_norm_epsilon": 1e-9,
    # Outside a compiled model, JAX compiles a loop again in each call.
    "unroll": True,
    "seed": 1,
}
DROPOUT = {"dropout": 0.3, "attention_dropout": 0.2}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 8)).astype("float32")
PADDING = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "int32")


def _encoder(**arguments):
    encoder = SharedTransformerEncoder(**(ARGUMENTS | arguments))
    encoder.build(X.shape)
    # With the small initial weights, attention would be nearly uniform.
    return add_noise(encoder, seed=2)


def test_layer_checks():
    arguments = ARGUMENTS | {"remat": True, "adapter_rank": 2}
    check_layer(SharedTransformerEncoder, arguments, X, (2, 5, 8))


def test_saving(tmp_path):
    arguments = ARGUMENTS | DROPOUT | {"adapter_rank": 2}
    check_saving(SharedTransformerEncoder, arguments, X, tmp_path)


def test_training():
    one_block = {"num_groups": 1, "num_inner_repetitions": 1, "unroll": False}
    check_training(SharedTransformerEncoder, ARGUMENTS | DROPOUT | one_block, X)


WEIGHTS = RNG.normal(size=X.shape).astype("float32")
MODES = {
    "unrolled": {"unroll": True},
    "loop": {"unroll": False},
    "remat": {"unroll": True, "remat": True},
    "remat_loop": {"unroll": False, "remat": True},
}


@pytest.fixture(scope="module")
def trained_unrolled():
    return _train(MODES["unrolled"])


def _train(mode):
    return gradients(
        _encoder(**DROPOUT, **mode, num_layers=2, num_groups=1, adapter_rank=3),
        lambda y: ops.sum(ops.multiply(y, WEIGHTS)),
        ops.convert_to_tensor(X),
        padding_mask=ops.convert_to_tensor(PADDING),
        training=True,
    )


@pytest.mark.parametrize("mode", [m for m in MODES if m != "unrolled"])
def test_dropout_and_gradients_of_a_loop_are_those_unrolled(trained_unrolled, mode):
    expected, expected_gradients = trained_unrolled
    output, ours = _train(MODES[mode])
    np.testing.assert_allclose(output, expected, atol=1e-5)
    assert len(ours) == len(expected_gradients)
    largest = max(np.abs(gradient).max() for gradient in expected_gradients)
    for mine, other in zip(ours, expected_gradients, strict=True):
        scale = max(np.abs(other).max(), 1e-3 * largest)
        assert np.abs(mine - other).max() <= 1e-4 * scale


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_loop_equals_unrolled_layers_in_low_precision(policy):
    def run(unroll):
        arguments = {"num_layers": 3, "num_groups": 1, "num_inner_repetitions": 1}
        arguments["adapter_rank"] = 2
        encoder = _encoder(dtype=policy, unroll=unroll, **arguments)
        output = encoder(X, padding_mask=PADDING)
        assert keras.backend.standardize_dtype(output.dtype) == encoder.compute_dtype
        return to_numpy(ops.cast(output, "float32"))

    np.testing.assert_allclose(run(False), run(True), atol=0.1)


def test_dropout_differs_by_layer():
    encoder = SharedTransformerEncoder(
        3, num_heads=2, intermediate_dim=16, dropout=0.5, seed=1
    )
    encoder.build((None, None, 64))
    # With all kernels zero and one large bias, a state is positive unless dropped.
    encoder.set_weights([np.zeros(w.shape) for w in encoder.get_weights()])
    (block,) = encoder.blocks
    block.attention_layer_norm.gamma.assign(np.ones(64))
    block.feedforward_layer_norm.gamma.assign(np.ones(64))
    block.feedforward_output.bias.assign(np.full(64, 1e4))
    x = RNG.normal(size=(2, 4, 64)).astype("float32")
    _, states = encoder(x, training=True, return_hidden_states=True)
    kept = [to_numpy(state) > 0 for state in states[1:]]
    for first, second in ((0, 1), (1, 2), (0, 2)):
        # Two draws of 512 fair coins are equal for half, within 5 standard deviations.
        assert 0.39 < (kept[first] == kept[second]).mean() < 0.61


def test_dropout_differs_by_step_and_repeats_with_the_seed():
    def run(seed):
        encoder = _encoder(**DROPOUT, seed=seed)
        return [to_numpy(encoder(X, training=True)) for _ in range(2)]

    (first, second), (again, _), (other, _) = run(1), run(1), run(2)
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - second).max() > 1e-3
    assert np.abs(first - other).max() > 1e-3


def test_no_dropout_outside_training():
    np.testing.assert_array_equal(
        to_numpy(_encoder(**DROPOUT)(X, padding_mask=PADDING)),
        to_numpy(_encoder()(X, padding_mask=PADDING)),
    )


def test_padding_does_not_change_other_positions():
    encoder = _encoder()
    other = np.where(PADDING[..., None], X, 1e3 * RNG.normal(size=X.shape))
    first, second = (
        to_numpy(encoder(x, padding_mask=PADDING)) for x in (X, other.astype("float32"))
    )
    np.testing.assert_allclose(first[PADDING > 0], second[PADDING > 0], atol=1e-6)
    # The amount of padding does not change them either.
    short = to_numpy(encoder(X[1:, :3]))
    np.testing.assert_allclose(first[1:, :3], short, atol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("training", [True, False])
def test_rows_of_padding_are_finite(policy, training):
    encoder = _encoder(dtype=policy, **DROPOUT)
    padding = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    output = ops.cast(encoder(X, padding_mask=padding, training=training), "float32")
    assert np.isfinite(to_numpy(output)).all()


def test_attention_mask_with_four_axes_differs_by_head():
    encoder = _encoder()
    mask = np.ones((2, 2, 5, 5), bool)
    mask[:, 1, :, 2:] = False
    _, scores = encoder(X, attention_mask=mask, return_attention_scores=True)
    for layer_scores in to_numpy(scores):
        assert (layer_scores[:, 1, :, 2:] == 0).all()
        assert (layer_scores[:, 0] > 0).all()
    shared = to_numpy(encoder(X, attention_mask=mask[:, 1:]))
    same = to_numpy(encoder(X, attention_mask=mask[:, 1]))
    np.testing.assert_allclose(shared, same, atol=1e-6)


def test_attention_mask_with_three_axes_and_padding():
    encoder = _encoder()
    causal = np.broadcast_to(np.tril(np.ones((5, 5), "int32")), (2, 5, 5))
    output = to_numpy(encoder(X, attention_mask=causal))
    later = X.copy()
    later[:, 3:] += 1
    moved = to_numpy(encoder(later, attention_mask=causal))
    np.testing.assert_allclose(output[:, :3], moved[:, :3], atol=1e-6)
    assert np.abs(output[:, 3:] - moved[:, 3:]).max() > 1e-2
    combined = encoder(X, padding_mask=PADDING, attention_mask=causal)
    expected = encoder(X, attention_mask=causal * PADDING[:, None])
    np.testing.assert_allclose(to_numpy(combined), to_numpy(expected), atol=1e-6)


def test_hidden_states_and_attention_scores_of_all_layers():
    encoder = _encoder()
    output, states, scores = encoder(
        X, padding_mask=PADDING, return_hidden_states=True, return_attention_scores=True
    )
    assert len(states) == 5
    assert len(scores) == 8
    np.testing.assert_array_equal(to_numpy(states[0]), X)
    np.testing.assert_array_equal(to_numpy(states[-1]), to_numpy(output))
    alone = to_numpy(encoder(X, padding_mask=PADDING))
    np.testing.assert_allclose(to_numpy(output), alone, atol=1e-5)
    for layer_scores in to_numpy(scores):
        assert layer_scores.shape == (2, 2, 5, 5)
        np.testing.assert_allclose(layer_scores.sum(-1), 1, atol=1e-5)
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, encoder(inputs, return_hidden_states=True))
    np.testing.assert_allclose(
        to_numpy(model(X)[1][-1]), to_numpy(encoder(X)), atol=1e-5
    )


@pytest.mark.parametrize(
    ("num_layers", "num_groups", "layer", "group"),
    [(22, 22, 15, 15), (12, 1, 11, 0), (12, 4, 3, 1), (5, 2, 2, 0), (5, 2, 3, 1)],
)
def test_group_of_each_layer(num_layers, num_groups, layer, group):
    encoder = SharedTransformerEncoder(num_layers, 2, 16, num_groups=num_groups)
    assert encoder.group_of(layer) == group


@pytest.mark.skipif(keras.config.backend() == "torch", reason="PyTorch runs eagerly")
def test_program_size_does_not_depend_on_depth():
    def size(num_layers, unroll):
        encoder = SharedTransformerEncoder(num_layers, 2, 16, unroll=unroll, seed=1)
        encoder.build(X.shape)
        return program_size(encoder, X)

    assert size(4, unroll=False) == size(24, unroll=False)
    assert size(8, unroll=True) > 1.8 * size(4, unroll=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_layers": 0}, "`num_layers` must be a whole number, at least 1"),
        ({"adapter_rank": 0}, "`adapter_rank` must be a whole number, at least 1"),
        ({"num_groups": 0}, "`num_groups` must be a whole number, at least 1"),
        ({"num_inner_repetitions": 0}, "`num_inner_repetitions` must be a whole"),
        ({"num_groups": 5}, "`num_layers` must be at least `num_groups`.*num_groups=5"),
    ],
)
def test_invalid_depths_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        SharedTransformerEncoder(**(ARGUMENTS | arguments))


def _merged(encoder, layers):
    """An encoder of blocks with the weights of the given layers of another one."""
    own = _encoder(num_layers=len(layers), num_groups=len(layers))
    for layer, place in enumerate(layers):
        pairs = zip(own.group_blocks(layer), encoder.layer_weights(place), strict=True)
        for block, weights in pairs:
            block.set_weights(weights)
    return own


@pytest.mark.parametrize("unroll", [True, False])
@pytest.mark.parametrize(
    ("num_groups", "num_layers", "layers"),
    [(1, None, [0, 1, 2, 3]), (1, 2, [0, 1]), (2, None, [0, 1, 2, 3]), (2, 2, [0, 2])],
)
def test_adapters_are_added_to_each_layer(unroll, num_groups, num_layers, layers):
    encoder = _encoder(adapter_rank=2, num_groups=num_groups, unroll=unroll)
    expected = to_numpy(_merged(encoder, layers)(X, padding_mask=PADDING))
    output = encoder(X, padding_mask=PADDING, num_layers=num_layers)
    np.testing.assert_allclose(to_numpy(output), expected, atol=2e-5)
    _, states = encoder(X, PADDING, return_hidden_states=True, num_layers=num_layers)
    np.testing.assert_allclose(to_numpy(states[-1]), expected, atol=2e-5)


def test_new_adapters_change_nothing():
    shared, adapted = (
        SharedTransformerEncoder(**(ARGUMENTS | {"adapter_rank": rank}))
        for rank in (None, 2)
    )
    np.testing.assert_array_equal(to_numpy(shared(X)), to_numpy(adapted(X)))
    assert "adapter_rank" not in shared.get_config()


@pytest.mark.parametrize(
    ("num_groups", "num_layers", "more"), [(1, 4, 5), (5, 8, 7), (2, 5, 6)]
)
def test_no_group_runs_more_layers_than_it_has_adapters(num_groups, num_layers, more):
    encoder = _encoder(adapter_rank=2, num_groups=num_groups, num_layers=num_layers)
    with pytest.raises(ValueError, match=f"cannot run more.*num_layers={more}"):
        encoder(X, num_layers=more)


ONES = ops.ones((8, 16))


def _masks(seed, numbers, sites=(0, 1, 2)):
    return [
        to_numpy(keras.random.dropout(ONES, 0.5, seed=seed.at(n).at(site, 3))) > 0
        for n in numbers
        for site in sites
    ]


def test_dropout_masks_of_all_sites_and_blocks_are_independent():
    masks = _masks(StepSeed.draw(keras.random.SeedGenerator(1)), range(4))
    assert len({mask.tobytes() for mask in masks}) == len(masks)
    for first in masks:
        agreements = [(first == second).mean() for second in masks]
        # Independent masks agree on half of 128 places, within 4 standard deviations.
        assert sorted(agreements)[-2] < 0.68


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

            return scan_layers(step, x, 0, 12, **depth).sum()

        compiled = jax.jit(jax.grad(loss)).lower(weights, x).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    kept_all = temporary_bytes(unroll=False, remat=True)
    assert temporary_bytes(unroll=False) < 0.5 * kept_all
    assert temporary_bytes(unroll=False) < 0.8 * temporary_bytes(unroll=True)


@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="its optimizer")
def test_tensorflow_optimizes_the_loop():
    import tensorflow as tf

    backbone = AlbertBackbone.from_preset("albert_small_en_uncased")
    ids = np.random.default_rng(0).integers(5, 20_000, (27, 512), "int32")
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    inputs["segment_ids"] = np.zeros_like(ids)
    # In large batches it keeps sums of three tensors in a variable of the loop.
    function = tf.function(backbone)
    tensors = {name: tf.constant(array) for name, array in inputs.items()}
    for _ in range(2):
        assert np.isfinite(function(tensors)["sequence_output"]).all()
