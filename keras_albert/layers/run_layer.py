"""Running a layer from within another one."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor


def run_layer(layer: keras.layers.Layer, x: Tensor, **kwargs: Any) -> Any:
    """Run a layer whose inputs are of its dtype, as one inside another one.

    PyTorch runs eagerly, so that what Keras does around a call (binding arguments,
    names, casts, masks: 0.1 to 0.3 ms) counts each time. For a batch of few tokens it
    is half of the time, and the outer layer has had it already.

    Args:
        layer: A layer. One that is quantized is run by Keras, which knows how.
        x: Its input, of the dtype that it computes in.
        **kwargs: What else it takes.

    Returns:
        Its output.
    """
    if keras.config.backend() != "torch" or layer.quantization_mode is not None:
        return layer(x, **kwargs)
    if not _is_product_and_bias(layer):
        return layer.call(x, **kwargs)
    import torch  # noqa: PLC0415  (it is the backend)

    kernel, bias = map(ops.convert_to_tensor, (layer.kernel, layer.bias))
    # The bias along with the product: a sum of its own is one more pass over memory.
    rows = torch.addmm(bias, x.reshape(-1, x.shape[-1]), kernel)
    return rows.view(*x.shape[:-1], kernel.shape[-1])


def _is_product_and_bias(layer: keras.layers.Layer) -> bool:
    is_dense = isinstance(layer, keras.layers.Dense)
    return is_dense and layer.use_bias and layer.activation is keras.activations.linear
