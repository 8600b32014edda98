"""The default optimizer of `compile`."""

from typing import Any

import keras

from keras_albert.tasks.optimizers.adamw import AdamW

# The names of variables without weight decay: biases, and LayerNorms.
NOT_DECAYED = ("bias", "gamma", "beta")

# The width of ALBERT base.
_BASE = 768

# The highest rate that is chosen automatically.
_HIGHEST_RATE = 1e-3


def default_learning_rate(hidden_dim: int, pretrained: bool) -> float:
    """Choose a peak learning rate by the model's width.

    For pretrained weights 0.03 / width: 4e-5 for base, 7e-6 for xxlarge, in the range
    of the recipes of [Lan et al., 2020](https://arxiv.org/abs/1909.11942), table 14.
    Models narrower than base need more, 3.5e-4 at a width of 256. There, on training
    examples that were held out, 4e-4 was better than 2e-4 on messages of six classes
    and equal with 1,000 labels of SST-2; 6e-4 was worse. For random weights
    0.064 / width.
    """
    if not pretrained:
        return min(0.064 / hidden_dim, _HIGHEST_RATE)
    return scaled_learning_rate(0.03 / max(hidden_dim, _BASE), hidden_dim)


def scaled_learning_rate(learning_rate: float, hidden_dim: int) -> float:
    """Scale the fine-tuning rate of ALBERT base to a narrower model.

    It grows with the square of base's width divided by the model's, up to 1e-3.
    """
    if hidden_dim >= _BASE:
        return learning_rate
    return min(learning_rate * (_BASE / hidden_dim) ** 2, _HIGHEST_RATE)


def default_optimizer(
    learning_rate: float, total_steps: int | None
) -> keras.optimizers.Optimizer:
    """Return an AdamW with `default_schedule`, or with a constant rate.

    The rate is constant if `total_steps` is `None`.
    """
    if total_steps is None:
        return adamw(learning_rate)
    return adamw(default_schedule(learning_rate, total_steps))


def default_schedule(
    learning_rate: float, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return a schedule with warm-up and decay.

    A tenth of the steps are the warm-up.
    """
    warmup_steps = max(1, total_steps // 10)
    # Keras reaches the target after `warmup_steps`, this package in the last one.
    return keras.optimizers.schedules.CosineDecay(
        learning_rate / warmup_steps,
        decay_steps=max(1, total_steps - warmup_steps + 1),
        warmup_target=learning_rate,
        warmup_steps=warmup_steps - 1,
    )


def adamw(
    learning_rate: Any,
    weight_decay: float = 0.01,
    global_clipnorm: float | None = 1.0,
    **kwargs: Any,
) -> keras.optimizers.Optimizer:
    """Return an `AdamW` with the reference's epsilon, weight decay and clipping.

    Moments have bias correction, as in Keras and unlike the reference.
    """
    optimizer = AdamW(
        learning_rate,
        weight_decay=weight_decay,
        epsilon=1e-6,
        global_clipnorm=global_clipnorm,
        **kwargs,
    )
    optimizer.exclude_from_weight_decay(var_names=list(NOT_DECAYED))
    return optimizer


def default_jit_compile() -> bool | str:
    """Return the default of `jit_compile` in `compile`.

    TensorFlow's graph takes batches of any length. XLA compiles each length, and is no
    faster on a CPU (`benchmarks/equal_shapes.py`); it may be useful with one length. On
    the other backends Keras decides; a TPU always compiles.
    """
    return False if keras.config.backend() == "tensorflow" else "auto"
