"""`Lamb` against NumPy code that follows the description of the reference."""

import keras
import numpy as np
import pytest

from keras_albert.pretraining import Lamb
from keras_albert.tasks.optimizers import WarmUpAndDecay

RATES = (0.01, 0.02, 0.016, 0.012, 0.008, 0.004)


def reference(values, gradients, rates, decay, excluded, clip=None):
    """All steps of algorithm 2 of You et al. without bias correction, in float64."""
    weights = [np.float64(value) for value in values]
    moments = [np.zeros((2, *value.shape)) for value in values]
    for rate, given in zip(rates, gradients, strict=True):
        step = [np.float64(g) for g in given]
        if clip is not None:
            norm = np.sqrt(sum(float((g**2).sum()) for g in step))
            step = [g * min(1.0, clip / norm) for g in step]
        for i, g in enumerate(step):
            moments[i][0] = 0.9 * moments[i][0] + 0.1 * g
            moments[i][1] = 0.999 * moments[i][1] + 0.001 * g**2
            update = moments[i][0] / (np.sqrt(moments[i][1]) + 1e-6)
            ratio = 1.0
            if not excluded[i]:
                update = update + decay * weights[i]
                of_weight, of_update = map(np.linalg.norm, (weights[i], update))
                if of_weight > 0 and of_update > 0:
                    ratio = of_weight / of_update
            weights[i] = weights[i] - rate * ratio * update
    return weights


def variables():
    rng = np.random.default_rng(0)
    made = {"kernel": (4, 3), "output_bias": (3,), "gamma": (3,), "embeddings": (5, 2)}
    return [
        keras.Variable(rng.normal(size=shape).astype("float32"), name=name)
        for name, shape in made.items()
    ]


EXCLUDED = [False, True, True, False]


def draw(steps, seed=1):
    rng = np.random.default_rng(seed)
    shapes = [v.shape for v in variables()]
    return [[rng.normal(size=s).astype("float32") for s in shapes] for _ in steps]


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_each_step_is_the_references(decay, clip):
    weights, gradients = variables(), draw(RATES)
    start = [v.numpy() for v in weights]
    schedule = WarmUpAndDecay(0.02, total_steps=6, warmup_steps=2)
    optimizer = Lamb(schedule, decay_rate=decay, global_clipnorm=clip)
    for step, values in enumerate(gradients, start=1):
        optimizer.apply([keras.ops.array(g) for g in values], weights)
        expected = reference(
            start, gradients[:step], RATES[:step], decay, EXCLUDED, clip
        )
        for found, wanted in zip(weights, expected, strict=True):
            np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-6, atol=2e-6)
    # With all variables excluded the result differs, so exclusion has an effect.
    other = reference(start, gradients, RATES, decay, [True] * 4, clip)
    assert np.abs(weights[0].numpy() - other[0]).max() > 1e-2


@pytest.mark.parametrize("zero", ["weight", "gradient"])
def test_ratio_is_one_where_a_norm_is_zero(zero):
    start = np.zeros(2, "float32") if zero == "weight" else np.ones(2, "float32")
    gradient = np.ones(2, "float32") if zero == "weight" else np.zeros(2, "float32")
    kernel = keras.Variable(start, name="kernel")
    Lamb(0.1, decay_rate=0.0).apply([keras.ops.array(gradient)], [kernel])
    expected = reference([start], [[gradient]], [0.1], 0.0, [False])
    np.testing.assert_allclose(kernel.numpy(), expected[0], rtol=1e-5)
    assert np.isfinite(kernel.numpy()).all()


def test_accumulates_gradients_and_the_schedule_counts_updates():
    whole, parts, gradients = variables(), variables(), draw(range(6))
    one = Lamb(WarmUpAndDecay(0.02, 3, 1), global_clipnorm=1.0)
    schedule = WarmUpAndDecay(0.02, 3, 1, accumulation_steps=2)
    two = Lamb(schedule, global_clipnorm=1.0, gradient_accumulation_steps=2)
    for step in range(3):
        pair = gradients[2 * step : 2 * step + 2]
        mean = [(a + b) / 2 for a, b in zip(*pair, strict=True)]
        one.apply([keras.ops.array(g) for g in mean], whole)
        for values in pair:
            two.apply([keras.ops.array(g) for g in values], parts)
        for a, b in zip(whole, parts, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(whole[0].numpy() - variables()[0].numpy()).max() > 1e-3


def model(optimizer, dtype=None):
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.layers.Dense(2, dtype=dtype)])
    made.compile(optimizer, "mse", jit_compile="auto", auto_scale_loss=False)
    made.build((None, 3))
    return made


def test_scaled_losses_move_as_far():
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    y = x[:, :2]
    plain = model(Lamb(0.01))
    scaled = model(keras.optimizers.LossScaleOptimizer(Lamb(0.01), initial_scale=8.0))
    for each in (plain, scaled):
        each.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    for a, b in zip(plain.weights, scaled.weights, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    # A step with gradients that are not finite is skipped.
    before = [w.numpy() for w in scaled.weights]
    scaled.fit(x * np.inf, y, batch_size=8, epochs=1, verbose=0)
    for a, b in zip(before, scaled.weights, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_moves_float32_variables(dtype):
    made = model(Lamb(0.05), dtype)
    x = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
    losses = made.fit(x, x[:, :2], epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert {w.dtype for w in made.weights} == {"float32"}
    state = made.optimizer.variables
    assert {v.dtype for v in state if "mean" in v.name} == {"float32"}


def test_is_saved_with_its_state(tmp_path):
    schedule = WarmUpAndDecay(0.02, 6, 2, power=0.5, accumulation_steps=2)
    made = model(Lamb(schedule, decay_rate=0.1, gradient_accumulation_steps=2))
    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    made.fit(x, x[:, :2], batch_size=2, shuffle=False, verbose=0)
    made.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.optimizer.get_config() == made.optimizer.get_config()
    assert loaded.optimizer.decay_rate == 0.1
    for each in (made, loaded):
        each.fit(x, x[:, :2], batch_size=2, shuffle=False, verbose=0)
    for a, b in zip(made.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weight_decay": 0.01}, "Pass `decay_rate`"),
        ({"beta_1": 1.0}, "beta_1=1.0"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"decay_rate": -1.0}, "decay_rate=-1.0"),
    ],
)
def test_refuses_what_makes_no_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        Lamb(**arguments)
