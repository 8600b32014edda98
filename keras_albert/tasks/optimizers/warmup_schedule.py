"""The schedule of the learning rate."""

import keras
from keras import ops

from keras_albert.types import Tensor


@keras.saving.register_keras_serializable(package="keras_albert")
class WarmUpAndDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate with linear warm-up and polynomial decay to zero.

    Step `k` of `w` warm-up steps has `(k + 1) / w` of the peak, so that the first one
    has an effect; in the reference it has a rate of 0. Then the rate falls over the
    remaining steps. The reference's decay begins with the first step, is overridden
    during the warm-up, and so jumps to 0.975 of its peak after it; otherwise the two
    differ by less. `total_steps` are updates; Keras' optimizers call a schedule with
    the number of batches, `accumulation_steps` per update.
    """

    def __init__(
        self,
        peak: float,
        total_steps: int,
        warmup_steps: int,
        power: float = 1.0,
        accumulation_steps: int = 1,
    ) -> None:
        super().__init__()
        self.peak = peak
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.power = power
        self.accumulation_steps = accumulation_steps

    def __call__(self, step: Tensor) -> Tensor:
        """Return the rate of a step."""
        step = ops.floor_divide(step, self.accumulation_steps)
        step = ops.cast(step, "float32")
        warmup_steps = max(1, self.warmup_steps)
        rising = (step + 1) / warmup_steps
        decay_steps = max(1, self.total_steps - warmup_steps + 1)
        falling = (self.total_steps - step) / decay_steps
        if self.power != 1:
            falling = ops.maximum(falling, 0.0) ** self.power
        return self.peak * ops.maximum(0.0, ops.minimum(rising, falling))

    def get_config(self) -> dict[str, float]:
        """Return the constructor's arguments."""
        return {
            "peak": self.peak,
            "total_steps": self.total_steps,
            "warmup_steps": self.warmup_steps,
            "power": self.power,
            "accumulation_steps": self.accumulation_steps,
        }
