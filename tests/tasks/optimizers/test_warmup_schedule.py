import keras
import numpy as np
import pytest

from keras_albert.tasks.optimizers import WarmUpAndDecay


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in steps])


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_rises_to_the_peak_and_falls_as_a_polynomial(power):
    found = rates(WarmUpAndDecay(0.5, 20, 4, power), range(20))
    rising = 0.5 * np.arange(1, 5) / 4
    falling = 0.5 * ((20 - np.arange(4, 20)) / 17) ** power
    np.testing.assert_allclose(found, [*rising, *falling], rtol=1e-6)


def test_stays_within_the_references_up_to_the_jump():
    peak, total, warmup = 0.00176, 125_000, 3125
    steps = np.array([0, 1000, 3124, 3125, 10_000, 60_000, 124_999])
    reference = np.where(
        steps < warmup, peak * steps / warmup, peak * (1 - steps / total)
    )
    found = rates(WarmUpAndDecay(peak, total, warmup), steps)
    assert np.abs(found - reference).max() <= 0.0251 * peak
    assert found[2] == pytest.approx(peak)


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
