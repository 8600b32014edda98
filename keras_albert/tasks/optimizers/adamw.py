"""AdamW, on PyTorch with the fused kernel."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_albert.types import Tensor
from keras_albert.utils.keras_internals import adam_moments, variable_index

# After this many steps bias corrections, 1 - beta ** steps, are exactly 1.
_MANY_STEPS = 1e9


@keras.saving.register_keras_serializable(package="keras_albert")
class AdamW(keras.optimizers.AdamW):
    """`keras.optimizers.AdamW`, computed by PyTorch's fused kernel on PyTorch.

    There Keras allocates memory for each product and root of every variable, a quarter
    of a training step of a small model. The numbers, the arguments and the saved state
    are equal to Keras', so a run can continue with either and on any backend.

    Source: [Loshchilov & Hutter, 2019](https://arxiv.org/abs/1711.05101).
    """

    def apply(self, grads: Sequence[Tensor], trainable_variables: Any = None) -> None:
        """Update variables; see `keras.optimizers.Optimizer.apply`.

        TensorFlow's gradients of embeddings have one row per occurrence of a token;
        they are summed here, so that their norm is right.
        """
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
