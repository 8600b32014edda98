"""The LAMB optimizer for large batches, as in ALBERT's reference code."""

import re
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor
from keras_albert.utils.keras_internals import variable_index


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
