import keras
import numpy as np
import pytest

from keras_albert.tasks.optimizers import AdamW, WarmUpAndDecay

SHAPES = {"kernel": (5, 3), "bias": (3,), "table": (40, 4)}
STEPS = 7
on_torch = pytest.mark.skipif(
    keras.config.backend() != "torch",
    reason="strides are PyTorch's, and Keras' own needs float32 weights",
)


def variables():
    rng = np.random.default_rng(0)
    return [
        keras.Variable(rng.normal(size=shape).astype("float32"), name=name)
        for name, shape in SHAPES.items()
    ]


def gradients():
    rng = np.random.default_rng(1)
    return [
        [3 * rng.normal(size=shape).astype("float32") for shape in SHAPES.values()]
        for _ in range(STEPS)
    ]


def trained(optimizer, steps=range(STEPS), weights=None):
    weights = variables() if weights is None else weights
    of_all_steps = gradients()
    for step in steps:
        batch = [keras.ops.convert_to_tensor(each) for each in of_all_steps[step]]
        optimizer.apply(batch, weights)
    return [weight.numpy() for weight in weights]


def assert_equal(some, others):
    for one, other in zip(some, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"weight_decay": 0.1, "epsilon": 0.01},
        {"amsgrad": True, "beta_1": 0.5, "beta_2": 0.9},
        {"global_clipnorm": 1.0},
        {"clipnorm": 0.5},
        {"gradient_accumulation_steps": 3},
        {"use_ema": True, "ema_overwrite_frequency": 2},
        {"learning_rate": keras.optimizers.schedules.PolynomialDecay(0.1, 5)},
    ],
    ids=lambda arguments: "-".join(arguments) or "defaults",
)
def test_its_numbers_are_those_of_keras(arguments):
    def made(kind):
        optimizer = kind(**{"learning_rate": 0.1, **arguments})
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        return optimizer

    own, peer = (trained(made(kind)) for kind in (AdamW, keras.optimizers.AdamW))
    assert_equal(own, peer)
    # It moved, every weight of it.
    for moved, before in zip(own, variables(), strict=True):
        assert (moved != before.numpy()).all()


@pytest.mark.parametrize("first", [AdamW, keras.optimizers.AdamW])
def test_a_run_goes_on_with_the_other_optimizer(first):
    other = AdamW if first is keras.optimizers.AdamW else keras.optimizers.AdamW
    whole = trained(first(0.1))

    weights = variables()
    begun = first(0.1)
    trained(begun, range(3), weights)
    going_on = other(0.1)
    going_on.build(weights)
    state = {}
    begun.save_own_variables(state)
    going_on.load_own_variables(state)
    assert_equal(trained(going_on, range(3, STEPS), weights), whole)


@on_torch
@pytest.mark.parametrize("which", ["gradient", "variable"])
def test_memory_that_does_not_lie_in_order_is_read_rightly(which):
    import torch

    results = []
    for in_order in (True, False):
        weight = keras.Variable(np.arange(15.0).reshape(5, 3))
        gradient = torch.arange(15.0).reshape(5, 3).cos()
        if not in_order:
            if which == "gradient":
                gradient = gradient.t().contiguous().t()
            else:
                weight.value.data = weight.value.data.t().contiguous().t()
                assert not weight.value.is_contiguous()
        AdamW(0.1).apply([gradient], [weight])
        results.append(weight.numpy())
    assert_equal(results[:1], results[1:])


@on_torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_weights_of_half_the_precision_move_too(dtype):
    weight = keras.Variable(np.ones((4, 4)), dtype=dtype)
    AdamW(0.1).apply([keras.ops.ones((4, 4), dtype=dtype)], [weight])
    moved = keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32"))
    np.testing.assert_allclose(moved, 0.9, atol=0.02)


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in steps])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_rises_to_the_peak_and_falls_as_a_polynomial(power):
    found = rates(WarmUpAndDecay(0.5, 20, 4, power), range(20))
    rising = 0.5 * np.arange(1, 5) / 4
    falling = 0.5 * ((20 - np.arange(4, 20)) / 17) ** power
    np.testing.assert_allclose(found, [*rising, *falling], rtol=1e-6)


@pytest.mark.parametrize("warmup", [0, 1])
def test_one_step_has_the_whole_rate(warmup):
    assert rates(WarmUpAndDecay(0.5, 1, warmup), [0]) == pytest.approx([0.5])


def test_counts_updates_where_batches_accumulate():
    schedule = WarmUpAndDecay(1.0, 8, 2, accumulation_steps=3)
    np.testing.assert_array_equal(
        rates(schedule, range(24)),
        np.repeat(rates(WarmUpAndDecay(1.0, 8, 2), range(8)), 3),
    )


def test_is_serialized():
    schedule = WarmUpAndDecay(1.0, 8, 2, 0.5, 3)
    config = keras.saving.serialize_keras_object(schedule)
    again = keras.saving.deserialize_keras_object(config)
    assert again.get_config() == schedule.get_config()
