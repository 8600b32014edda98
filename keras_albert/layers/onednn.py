"""Products with matrices by oneDNN, which PyTorch has beside MKL."""

import functools
from typing import Any

from keras_albert.types import Tensor
from keras_albert.utils.hardware import cpu_vendor
from keras_albert.utils.keras_internals import onednn_linear


def is_faster(x: Tensor) -> bool:
    """Return whether `multiply` is faster than PyTorch's own product.

    In half precision PyTorch chooses oneDNN by itself, and `torch.compile` has no
    lowering for its product in float32.
    """
    import torch  # noqa: PLC0415  (it is the backend)

    if torch.compiler.is_dynamo_compiling():
        return False
    is_float32 = x.dtype == torch.float32 and x.device.type == "cpu"
    return is_float32 and has_slow_blas()


@functools.cache
def has_slow_blas() -> bool:
    """Return whether oneDNN multiplies float32 faster than PyTorch's BLAS, MKL.

    On AMD's processors MKL leaves out instructions that oneDNN uses, and takes twice as
    long. On Intel's it does not, and other processors have no MKL.
    """
    import torch  # noqa: PLC0415  (it is the backend)

    has_both = (
        torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    )
    has_product = onednn_linear() is not None
    return has_both and has_product and "AuthenticAMD" in cpu_vendor()


def multiply(x: Tensor, kernel: Tensor, bias: Tensor | None = None) -> Tensor:
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
                multiply(upstream, kernel.t()) if for_x else None,
                multiply(columns, rows) if for_kernel else None,
                rows.sum(0) if for_bias else None,
            )

    return Product
