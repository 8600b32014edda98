"""Running a layer inside another one."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor


def run_layer(layer: keras.layers.Layer, x: Tensor, **kwargs: Any) -> Any:
    """Run an inner layer on inputs of its compute dtype.

    PyTorch runs eagerly, so the overhead of Keras' `__call__` (binding arguments,
    names, casts, masks: 0.1 to 0.3 ms) counts each time. For a batch of few tokens it
    is half of the time, and the outer layer has already done the same work.

    On TensorFlow a product is an `einsum`: what Keras makes of it, a `tensordot`,
    computes an order of axes where shapes are unknown, which XLA cannot read in the
    backward pass of a loop.

    Args:
        layer: A layer. A quantized one is always run by Keras.
        x: Its input, in its compute dtype.
        **kwargs: Its other arguments.

    Returns:
        Its output.
    """
    backend = keras.config.backend()
    if backend == "jax" or layer.quantization_mode is not None:
        return layer(x, **kwargs)
    is_product = _is_product_and_bias(layer)
    if backend == "tensorflow":
        if not is_product:
            return layer(x, **kwargs)
        return ops.add(ops.einsum("bti,ij->btj", x, layer.kernel), layer.bias)
    if not is_product:
        return layer.call(x, **kwargs)
    import torch  # noqa: PLC0415  (it is the backend)

    kernel, bias = map(ops.convert_to_tensor, (layer.kernel, layer.bias))
    # Adding the bias separately would be one more pass over memory.
    rows = torch.addmm(bias, x.reshape(-1, x.shape[-1]), kernel)
    return rows.view(*x.shape[:-1], kernel.shape[-1])


def _is_product_and_bias(layer: keras.layers.Layer) -> bool:
    is_dense = isinstance(layer, keras.layers.Dense)
    return is_dense and layer.use_bias and layer.activation is keras.activations.linear
