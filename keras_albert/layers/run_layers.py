"""Running a layer inside another one, and one step many times."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_albert.layers.torch_inference import onednn_is_faster
from keras_albert.types import Tensor
from keras_albert.utils.keras_internals import onednn_linear


def run_layer(layer: keras.layers.Layer, x: Tensor, **kwargs: Any) -> Any:
    """Run an inner layer on inputs of its compute dtype, without Keras' `__call__`."""
    # Its overhead of 0.1 to 0.3 ms is half of the time of a few tokens on PyTorch. On
    # TensorFlow and JAX two matrices are multiplied, also in the gradient: in a loop
    # XLA cannot read Keras' `tensordot`, or transposes a copy for it.
    if layer.quantization_mode is not None:
        return layer(x, **kwargs)
    backend = keras.config.backend()
    if backend == "torch":
        return _run_on_torch(layer, x, **kwargs)
    is_dense = isinstance(layer, keras.layers.Dense)
    if backend == "jax" and (is_dense or "reverse" in kwargs):
        return _by_row(lambda rows: layer(rows, **kwargs), x)
    if backend == "tensorflow" and is_dense and layer.use_bias:
        return layer.activation(
            ops.add(_tensorflow_product(x, layer.kernel), layer.bias)
        )
    return layer(x, **kwargs)


def run_dense(
    layer: keras.layers.Layer, x: Tensor, factors: tuple[Tensor, ...] = ()
) -> Tensor:
    """Run a dense layer without activation; narrow `factors` add to its kernel."""
    output = run_layer(layer, x)
    if not factors:
        return output
    product = _PRODUCTS[keras.config.backend()]
    for matrix in factors[:-1]:
        x = product(x, matrix)
    if keras.config.backend() == "tensorflow":
        # A sum of three tensors, with the residual, may be kept in a variable that all
        # layers of a loop share, and fail. A difference is equal to the last bit.
        return output - product(x, -factors[-1])
    return output + product(x, factors[-1])


def _run_on_torch(layer: Any, x: Tensor, **kwargs: Any) -> Any:
    if isinstance(layer, keras.layers.Dense):
        return layer.activation(_torch_product(x, layer.kernel, layer.bias))
    if "reverse" in kwargs and layer.tie_weights and layer.logit_soft_cap is None:
        return _torch_product(x, ops.transpose(layer.embeddings))
    return layer.call(x, **kwargs)


def _torch_product(x: Tensor, kernel: Any, bias: Any = None) -> Tensor:
    from torch.nn import functional  # noqa: PLC0415  (it is the backend)

    kernel = ops.convert_to_tensor(kernel)
    bias = None if bias is None else ops.convert_to_tensor(bias)
    if onednn_is_faster(x, kernel.shape[1]):
        return onednn_multiply(x, kernel, bias)
    # Adding the bias separately would be one more pass over memory.
    return functional.linear(x, kernel.t(), bias)


def _tensorflow_product(x: Tensor, kernel: Any) -> Tensor:
    """Multiply each vector of a TensorFlow tensor with a matrix, a variable or not."""
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    def by_row(tensor: Tensor) -> Tensor:
        return tf.reshape(tensor, [-1, tensor.shape[-1]])

    @tf.custom_gradient
    def product(x: Tensor, kernel: Tensor) -> Any:
        def gradients(upstream: Tensor) -> tuple[Tensor, Tensor]:
            rows = by_row(upstream)
            of_x = tf.matmul(rows, kernel, transpose_b=True)
            of_kernel = tf.matmul(by_row(x), rows, transpose_a=True)
            # XLA knows the shape of a tensor, but not of a step before.
            return tf.reshape(of_x, tf.shape(x)), of_kernel

        shape = tf.concat([tf.shape(x)[:-1], [kernel.shape[-1]]], 0)
        return tf.reshape(tf.matmul(by_row(x), kernel), shape), gradients

    # `custom_gradient` asks for the gradients of variables separately.
    return product(x, tf.convert_to_tensor(kernel))


def _by_row(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    rows = function(ops.reshape(x, (-1, x.shape[-1])))
    return ops.reshape(rows, (*x.shape[:-1], rows.shape[-1]))


_PRODUCTS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "jax": lambda x, matrix: _by_row(lambda rows: ops.matmul(rows, matrix), x),
    "tensorflow": _tensorflow_product,
    "torch": _torch_product,
}

Step = Callable[[Any, Any], Any]


def unrolls_by_default() -> bool:
    """Return whether depth is unrolled by default."""
    # PyTorch runs eagerly. TensorFlow and JAX trace a loop in half the time (12
    # layers); on TensorFlow a training step costs up to a quarter more on a CPU.
    return bool(keras.config.backend() == "torch")


def scan_layers(
    step: Step, x: Any, first: int, count: int, *, unroll: bool, remat: bool = False
) -> Any:
    """Apply `x = step(i, x)` `count` times from `first`; `i` may be a tensor."""
    backend = keras.config.backend()
    if unroll or count == 1 or backend == "torch":
        for layer in range(first, first + count):
            x = step(layer, x)
        return x
    if backend == "jax":
        # A trip count known at trace time becomes a scan, which has a gradient.
        kept = step if remat else _keep_products(step)
        return ops.fori_loop(first, first + count, kept, x)
    # TensorFlow: XLA sizes the stack of the backward pass by the maximum.
    _, x = ops.while_loop(
        lambda layer, _: layer < first + count,
        lambda layer, x: (layer + 1, step(layer, x)),
        (ops.convert_to_tensor(first, dtype="int32"), x),
        maximum_iterations=count,
    )
    return x


def _keep_products(step: Step) -> Step:
    """Keep only products with weights for the backward pass of a scan."""
    # As in an unrolled program, cheap operations and attention are recomputed: 12
    # layers of base at 512 tokens take a third of its memory, and the same time on a
    # CPU.
    import jax  # noqa: PLC0415  (other backends do not need it)

    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return jax.checkpoint(step, policy=policy, prevent_cse=False)


def onednn_multiply(x: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `x @ kernel + bias`."""
    import torch  # noqa: PLC0415  (it is the backend)

    if torch.is_grad_enabled():
        return _product().apply(x, kernel, bias)
    return _multiply(x, kernel, bias)


def _multiply(x: Any, kernel: Any, bias: Any = None) -> Any:
    if x.shape[-1] == 0:  # the gradient of an empty batch
        return x @ kernel
    return onednn_linear()(x, kernel.t(), bias, "none", [], "")


@functools.cache
def _product() -> Any:
    import torch  # noqa: PLC0415  (it is the backend)

    class Product(torch.autograd.Function):
        """The product with its gradients, which are such products as well."""

        @staticmethod
        def forward(ctx: Any, x: Any, kernel: Any, bias: Any) -> Any:
            ctx.save_for_backward(x, kernel)
            return _multiply(x, kernel, bias)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            x, kernel = ctx.saved_tensors
            for_x, for_kernel, for_bias = ctx.needs_input_grad
            rows = upstream.reshape(-1, upstream.shape[-1])
            columns = x.reshape(-1, x.shape[-1]).t()
            return (
                onednn_multiply(upstream, kernel.t()) if for_x else None,
                onednn_multiply(columns, rows) if for_kernel else None,
                rows.sum(0) if for_bias else None,
            )

    return Product
