"""AdamW with its default settings, LAMB, and schedules of the learning rate."""

import re
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.backbone import VECTORS
from keras_albert.layers.base_layer import config_from_attributes
from keras_albert.types import Tensor
from keras_albert.utils.keras_internals import adam_moments, variable_index


@keras.saving.register_keras_serializable(package="keras_albert")
class WarmUpAndDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate with linear warm-up and polynomial decay to zero."""

    # Step `k` of `w` warm-up steps has `(k + 1) / w` of the peak, in the reference `k /
    # w`, whose decay begins with the first step. `total_steps` are updates; Keras calls
    # a schedule with the number of batches, `accumulation_steps` per update.

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
        return config_from_attributes(self, WarmUpAndDecay)


def _zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    import jax  # noqa: PLC0415  (it is the backend)

    return jax.device_put(np.zeros(shape, dtype))


# After this many steps bias corrections, 1 - beta ** steps, are exactly 1.
_MANY_STEPS = 1e9


@keras.saving.register_keras_serializable(package="keras_albert")
class AdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, computed by PyTorch's fused kernel on PyTorch."""

    # Keras' own takes a quarter of a training step of a small model. Numbers and saved
    # state are equal. Source: [Loshchilov & Hutter,
    # 2019](https://arxiv.org/abs/1711.05101).

    def add_variable_from_reference(
        self, reference_variable: Any, name: Any = None, initializer: Any = "zeros"
    ) -> Any:
        """Add a variable; on JAX, Keras would compile a program for each shape."""
        is_sharded = keras.distribution.distribution() is not None
        is_jax = keras.config.backend() == "jax"
        if is_jax and initializer == "zeros" and not is_sharded:
            initializer = _zeros
        return super().add_variable_from_reference(
            reference_variable, name, initializer
        )

    def apply(self, grads: Sequence[Tensor], trainable_variables: Any = None) -> None:
        """Update variables, after summing TensorFlow's several rows of one token."""
        if keras.config.backend() == "tensorflow":
            import tensorflow as tf  # noqa: PLC0415  (it is the backend)

            grads = [
                tf.convert_to_tensor(gradient)
                if isinstance(gradient, tf.IndexedSlices)
                else gradient
                for gradient in grads
            ]
        super().apply(grads, trainable_variables)

    def _backend_update_step(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[Any],
        learning_rate: Any,
    ) -> None:
        # The kernel ignores strides.
        if keras.config.backend() == "torch" and all(
            variable.value.is_contiguous() for variable in trainable_variables
        ):
            self._fused_update_step(grads, trainable_variables, learning_rate)
        else:
            super()._backend_update_step(grads, trainable_variables, learning_rate)

    def _fused_update_step(
        self, grads: Sequence[Tensor], variables: Sequence[Any], learning_rate: Any
    ) -> None:
        import torch  # noqa: PLC0415  (it is the backend)
        from torch.optim.adam import adam  # noqa: PLC0415

        def values(of: Sequence[Any]) -> list[Any]:
            return [of[variable_index(self, each)].value for each in variables]

        weights = [variable.value for variable in variables]
        means, squares, largest_squares = adam_moments(self)
        with torch.no_grad():
            # A variable, or an expression where gradients are accumulated.
            steps = keras.ops.convert_to_tensor(self.iterations) + 1
            # Keras corrects the rate and not epsilon, PyTorch corrects the means. So
            # the kernel gets the corrected rate and steps without correction.
            rate = learning_rate * torch.sqrt(1 - self.beta_2**steps)
            many = torch.full((), _MANY_STEPS, device=steps.device)
            adam(
                weights,
                [
                    gradient.to(weight.dtype).contiguous()
                    for gradient, weight in zip(grads, weights, strict=True)
                ],
                values(means),
                values(squares),
                values(largest_squares) if self.amsgrad else [],
                [many] * len(weights),
                fused=True,
                amsgrad=self.amsgrad,
                lr=rate / (1 - self.beta_1**steps),
                beta1=self.beta_1,
                beta2=self.beta_2,
                eps=self.epsilon,
                weight_decay=0.0,  # Keras has applied it.
                maximize=False,
            )


@keras.saving.register_keras_serializable(package="keras_albert")
class Lamb(keras.optimizers.Optimizer):
    """LAMB: Adam with the step of each variable scaled by a trust ratio.

    It follows google-research/albert, which differs from `keras.optimizers.Lamb` in
    three points: the moments are not corrected for their bias; weight decay is part
    of the update, and so affects the trust ratio; and variables in `exclude` are
    neither decayed nor adapted (their ratio is 1). The ratio is the norm of the
    variable divided by the norm of its update, or 1 if one of them is zero. A matrix
    that all layers share has one ratio.

    It is intended for batches of thousands of examples: the paper uses a rate of
    0.00176 for 4096. For other sizes scale the rate by the square root of the batch
    size; for fewer than a few hundred examples AdamW learns faster.

    Source: [You et al., 2020](https://arxiv.org/abs/1904.00962), algorithm 2;
    [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 4.1.

    Args:
        learning_rate: float or a schedule. Defaults to `0.00176`.
        beta_1: float. Decay of the mean of gradients. Defaults to `0.9`.
        beta_2: float. Decay of the mean of their squares. Defaults to `0.999`.
        epsilon: float. Added to the root of the second mean. Defaults to `1e-6`.
        decay_rate: float. Weight decay: the fraction of a variable that is added to
            its update. Defaults to `0.01`.
        exclude: Sequence of string. Regular expressions; variables whose names contain
            a match are neither decayed nor adapted. Defaults to
            `("bias", "gamma", "beta")`: all biases and LayerNorms.
        name: string. Defaults to `"lamb"`.
        **kwargs: `global_clipnorm`, `gradient_accumulation_steps` and other arguments
            of Keras optimizers, except `weight_decay`.

    Raises:
        ValueError: If a number is out of range, or `weight_decay` is given, which
            Keras applies outside the trust ratio.

    Example:
        >>> import keras
        >>> from keras_albert.pretraining import Lamb
        >>> kernel = keras.Variable([3.0, 4.0], name="kernel")
        >>> optimizer = Lamb(0.1, decay_rate=0.0)
        >>> optimizer.apply([keras.ops.array([1.0, 1.0])], [kernel])
        >>> [round(float(x), 4) for x in kernel.numpy()]  # 0.1 * 5 / sqrt(2) less
        [2.6464, 3.6464]
    """

    def __init__(
        self,
        learning_rate: Any = 0.00176,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        decay_rate: float = 0.01,
        exclude: Sequence[str] = ("bias", "gamma", "beta"),
        name: str = "lamb",
        **kwargs: Any,
    ) -> None:
        if kwargs.get("weight_decay") is not None:
            raise ValueError(
                "Keras applies `weight_decay` outside the trust ratio. Pass "
                f"`decay_rate` instead. Received: weight_decay={kwargs['weight_decay']}"
            )
        for label, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0 <= beta < 1:
                raise ValueError(
                    f"`{label}` must be from 0 to below 1. Received: {label}={beta}"
                )
        if epsilon <= 0 or decay_rate < 0:
            raise ValueError(
                "`epsilon` must be above 0, and `decay_rate` not negative. Received: "
                f"epsilon={epsilon}, decay_rate={decay_rate}"
            )
        super().__init__(learning_rate, name=name, **kwargs)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.decay_rate = decay_rate
        self.exclude = (exclude,) if isinstance(exclude, str) else tuple(exclude)

    def build(self, variables: list[Any]) -> None:
        """Create both means for each variable."""
        if self.built:
            return
        super().build(variables)
        self._means, self._squares = self.add_optimizer_variables(
            variables, ["mean", "square"]
        )
        self._adapted = [
            not any(re.search(pattern, variable.name) for pattern in self.exclude)
            for variable in variables
        ]

    def update_step(self, gradient: Tensor, variable: Any, learning_rate: Any) -> None:
        """Update one variable."""
        index = variable_index(self, variable)
        mean, square = self._means[index], self._squares[index]
        rate = ops.cast(learning_rate, variable.dtype)
        gradient = ops.cast(gradient, variable.dtype)
        self.assign_add(mean, (1 - self.beta_1) * (gradient - mean))
        self.assign_add(square, (1 - self.beta_2) * (ops.square(gradient) - square))
        update = mean / (ops.sqrt(square) + self.epsilon)
        if self._adapted[index]:
            update = update + self.decay_rate * variable
            rate = rate * _trust_ratio(variable, update)
        self.assign_sub(variable, rate * update)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        config: dict[str, Any] = super().get_config()
        del config["weight_decay"]
        config.update(
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            decay_rate=self.decay_rate,
            exclude=self.exclude,
        )
        return config


def _trust_ratio(variable: Any, update: Tensor) -> Tensor:
    weight_norm = ops.sqrt(ops.sum(ops.square(variable)))
    update_norm = ops.sqrt(ops.sum(ops.square(update)))
    is_defined = ops.logical_and(weight_norm > 0, update_norm > 0)
    # Avoids division by zero in the branch that is not selected, too.
    return ops.where(is_defined, weight_norm, 1.0) / ops.where(
        is_defined, update_norm, 1.0
    )


# The names of variables without weight decay: biases, and LayerNorms.
NOT_DECAYED = VECTORS

# The width of ALBERT base.
_BASE = 768

# The highest rate that is chosen automatically.
_HIGHEST_RATE = 1e-3


def default_learning_rate(hidden_dim: int, pretrained: bool) -> float:
    """Choose a peak learning rate by the model's width."""
    # For pretrained weights 0.03 / width, as in [Lan et al.,
    # 2020](https://arxiv.org/abs/1909.11942), table 14, and 3.5e-4 at 256, which was
    # best on held out examples of narrow models; for random ones 0.064 / width.
    if not pretrained:
        return min(0.064 / hidden_dim, _HIGHEST_RATE)
    return scaled_learning_rate(0.03 / max(hidden_dim, _BASE), hidden_dim)


def scaled_learning_rate(learning_rate: float, hidden_dim: int) -> float:
    """Scale the rate of ALBERT base by the square of the width, up to 1e-3."""
    if hidden_dim >= _BASE:
        return learning_rate
    return min(learning_rate * (_BASE / hidden_dim) ** 2, _HIGHEST_RATE)


def default_optimizer(
    learning_rate: float, total_steps: int | None
) -> keras.optimizers.Optimizer:
    """Return an AdamW with `default_schedule`, or with a constant rate."""
    if total_steps is None:
        return adamw(learning_rate)
    return adamw(default_schedule(learning_rate, total_steps))


def default_schedule(
    learning_rate: float, total_steps: int
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return a schedule with decay, after warm-up in a tenth of the steps."""
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
    cls: type[AdamW] = AdamW,
    **kwargs: Any,
) -> keras.optimizers.Optimizer:
    """Return an `AdamW` with the reference's settings, and bias correction."""
    optimizer = cls(
        learning_rate,
        weight_decay=weight_decay,
        epsilon=1e-6,
        global_clipnorm=global_clipnorm,
        **kwargs,
    )
    optimizer.exclude_from_weight_decay(var_names=list(NOT_DECAYED))
    return optimizer


def default_jit_compile() -> bool | str:
    """Return the default of `jit_compile`: on TensorFlow only for a TPU."""
    # XLA compiles each length, and is no faster on a CPU
    # (`benchmarks/equal_shapes.py`).
    return False if keras.config.backend() == "tensorflow" else "auto"
