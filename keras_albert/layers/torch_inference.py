"""PyTorch without gradients: the backbone as plain functions of its weights.

For one text, Keras' `__call__` and operations take as long as the products.
"""

import functools
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras

from keras_albert.layers.base_layer import (
    DENSE_LAYERS,
    NORM_LAYERS,
    ROW_TOKENS,
    PackedRows,
    gelu_approximate,
    packed_rows,
)
from keras_albert.types import Tensor
from keras_albert.utils.keras_internals import (
    count_changes,
    onednn_linear,
    onednn_packed,
)

# Packed kernels take as much memory again: 50 MB for ALBERT large.
_LARGEST_PACKED = 2**24

# Fewer multiplications take less time than oneDNN's preparation.
_FEW_PRODUCTS = 2**18

Weights = dict[tuple[str, str], Any]


def use_torch_inference(
    x: Any = None,
    layers: Iterable[keras.layers.Layer] = (),
    training: bool | None = None,
) -> bool:
    """Return whether PyTorch computes without Keras: in float32, without gradients.

    `x` is a tensor, a tuple or a dict of inputs; by default, one of float32.
    """
    if training or keras.config.backend() != "torch":
        return False
    import torch  # noqa: PLC0415  (it is the backend)

    if torch.is_grad_enabled():
        return False
    first = next(iter(x.values())) if isinstance(x, Mapping) else x
    first = first[0] if isinstance(first, tuple) else first
    is_tensor = isinstance(first, torch.Tensor)
    # Keras casts the inputs of a float32 layer in a model of mixed precision.
    is_cast = is_tensor and first.is_floating_point() and first.dtype != torch.float32
    if is_cast or not (is_tensor or x is None):
        return False
    # Within a layer of mixed precision, variables are read as 16 bits.
    return _probe().value.dtype == torch.float32 and all(
        layer.dtype_policy.name == "float32" and layer.built for layer in layers
    )


# A float32 variable, once one is needed. `torch.compile` ignores `functools.cache`.
_PROBES: list[keras.Variable] = []


def _probe() -> keras.Variable:
    if not _PROBES:
        _PROBES.append(keras.Variable("zeros", (), "float32", name="probe"))
    return _PROBES[0]


def fast_call(layer: keras.layers.Layer, x: Any, *others: Any, **kwargs: Any) -> Any:
    """Call a layer, on PyTorch without gradients not by Keras' `__call__`."""
    # It takes 0.1 to 0.3 ms for one text.
    if not use_torch_inference(x, (layer,)):
        return layer(x, *others, **kwargs)
    if type(layer) is keras.layers.Dense:
        return _run_dense(layer, x)
    return layer.call(x, *others, **kwargs)


def backbone_layers(backbone: Any) -> Iterator[keras.layers.Layer]:
    """Return the layers whose weights `run_backbone` reads."""
    x = backbone.embedding
    yield from (x.token_embedding, x.position_embedding, x.segment_embedding)
    yield from (x.layer_norm, backbone.pooler)
    if x.projection is not None:
        yield x.projection
    yield from encoder_layers(backbone.encoder)


def encoder_layers(encoder: Any) -> Iterator[keras.layers.Layer]:
    """Return the layers whose weights `torch_step` reads."""
    for block in encoder.blocks:
        for name in (*DENSE_LAYERS, *NORM_LAYERS):
            yield getattr(block, name)


def run_backbone(
    backbone: Any, inputs: Mapping[str, Tensor], num_layers: int
) -> dict[str, Tensor]:
    """Return the outputs of an `AlbertBackbone`."""
    x, first = encode(backbone, inputs, num_layers)
    pooled = backbone.pooler_reads.call(x, first, inputs["padding_mask"])
    return {"sequence_output": x, "pooled_output": _run_dense(backbone.pooler, pooled)}


def encode(
    backbone: Any, inputs: Mapping[str, Tensor], num_layers: int
) -> tuple[Tensor, Tensor]:
    """Return the last hidden states: of all tokens, and of each text's first."""
    rows = packed_rows(inputs) if ROW_TOKENS in inputs else None
    x = _embed(backbone.embedding, inputs["token_ids"], inputs["segment_ids"], rows)
    encoder = backbone.encoder
    if num_layers != encoder.num_layers:
        encoder.check_depth(num_layers)
    if rows is None:
        mask = inputs["padding_mask"].bool()[:, None, None]
    else:
        mask = rows.attention_mask()[:, None]
    step = torch_step(encoder, mask, num_layers)
    for layer in range(num_layers):
        x = step(layer, x)
    return (x, x[:, 0]) if rows is None else (rows.split(x), rows.first(x))


def _embed(layer: Any, ids: Any, segment_ids: Any, rows: PackedRows | None) -> Any:
    """Compute as a `FactorizedEmbedding`."""
    from torch.nn import functional  # noqa: PLC0415  (it is the backend)

    length = ids.shape[1]
    if length > layer.max_sequence_length:
        layer.check_length(length)
    positions = layer.position_embedding.position_embeddings.value
    if rows is None:
        positions = positions[:length]
    else:
        positions = functional.embedding(rows.positions(), positions)
        ids, segment_ids = rows.join(ids), rows.join(segment_ids)
    segments = _tensor(layer.segment_embedding.embeddings)
    if layer.num_segments > 1:
        segments = functional.embedding(segment_ids, segments)
    x = functional.embedding(ids, _tensor(layer.token_embedding.embeddings))
    x = x + positions + segments
    vectors = layer.layer_norm.gamma.value, layer.layer_norm.beta.value
    x = functional.layer_norm(x, x.shape[-1:], *vectors, layer.layer_norm_epsilon)
    return x if layer.projection is None else _run_dense(layer.projection, x)


def torch_step(encoder: Any, mask: Any, num_layers: int) -> Any:
    """Return a virtual layer of an encoder as a function of its number and its input.

    `mask` is True where a query may look, or `None`.
    """
    import torch  # noqa: PLC0415  (it is the backend)

    added = None if mask is None else added_mask(mask, torch.float32)
    adapters = encoder.adapters
    # The adapters of all layers, at once.
    factors, vectors = {}, {}
    if adapters is not None:
        values = [variable.value for variable in adapters.variables]
        factors, vectors = adapters.of_run(values, slice(None))
    # The weights of each block, and its vectors in each layer.
    known: dict[int, tuple[Weights, Weights]] = {}

    def step(layer: Any, x: Any) -> Any:
        groups, count = encoder.num_groups, encoder.num_inner_repetitions
        # The number may be a tensor where there is one group.
        group = 0 if groups == 1 else layer * groups // num_layers
        for inner in range(count):
            number = group * count + inner
            block = encoder.blocks[number]
            if number not in known:
                shared = _block_weights(block, _may_pack(encoder, x.shape[-1]))
                known[number] = (
                    shared,
                    {
                        key: (shared[key] + vector).unbind()
                        for key, vector in vectors.items()
                    },
                )
            weights, own = known[number]
            matrices = {}
            if adapters is not None:
                run = encoder.run_number(layer, inner, group, num_layers)
                weights = weights | {key: vector[run] for key, vector in own.items()}
                matrices = {key: (a[run], b[run]) for key, (a, b) in factors.items()}
            x = torch_block(block, x, weights, added, matrices)
        return x

    return step


def _may_pack(encoder: Any, width: int) -> bool:
    inner = encoder.blocks[0].intermediate_dim
    return len(encoder.blocks) * width * (4 * width + 2 * inner) <= _LARGEST_PACKED


def _block_weights(block: Any, may_pack: bool) -> Weights:
    """Return PyTorch's tensors for `torch_block`."""
    pairs = [(name, kind) for name in DENSE_LAYERS for kind in ("kernel", "bias")]
    pairs += [(name, kind) for name in NORM_LAYERS for kind in ("gamma", "beta")]
    weights = {
        (name, kind): _tensor(getattr(getattr(block, name), kind))
        for name, kind in pairs
    }
    if not may_pack:
        return weights
    for name, parts in _PRODUCTS.items():
        kernels = [weights[part, "kernel"] for part in parts]
        weights[name, "packed"] = pack_kernels(*kernels)
    if weights["attention", "packed"] is not None:
        import torch  # noqa: PLC0415  (it is the backend)

        biases = [weights[name, "bias"] for name in _PRODUCTS["attention"]]
        weights["attention", "bias"] = torch.cat(biases)
    return weights


# The dense layers of each product, if their kernels are packed.
_PRODUCTS = {"attention": DENSE_LAYERS[:3]} | {x: (x,) for x in DENSE_LAYERS[3:]}


def _tensor(weight: Any) -> Any:
    # With LoRA it is a tensor already.
    return getattr(weight, "value", weight)


def torch_block(
    block: Any,
    inputs: Any,
    weights: Weights,
    added: Any,
    adapters: Mapping[str, tuple[Any, ...]],
) -> Any:
    """Compute as a `TransformerBlock`; `added` is added to the logits of attention."""
    from torch.nn import functional  # noqa: PLC0415  (it is the backend)

    head_dim = inputs.shape[-1] // block.num_heads
    shape = (*inputs.shape[:2], block.num_heads, head_dim)

    def dense(name: str, x: Any, activation: Any = None) -> Any:
        own = weights[name, "kernel"], weights[name, "bias"]
        packed = weights.get((name, "packed"))
        factors = adapters.get(name)
        if not factors:
            return product(x, *own, activation, packed)
        output = product(x, *own, packed=packed)
        for matrix in factors:
            x = product(x, matrix)
        return output + x if activation is None else activation(output + x)

    def norm(name: str, x: Any) -> Any:
        vectors = weights[name, "gamma"], weights[name, "beta"]
        return functional.layer_norm(
            x, x.shape[-1:], *vectors, block.layer_norm_epsilon
        )

    joined = weights.get(("attention", "packed"))
    if joined is None or adapters:
        parts = [dense(name, inputs).view(shape) for name in DENSE_LAYERS[:3]]
    else:
        x = product(inputs, None, weights["attention", "bias"], packed=joined)
        parts = x.view(*shape[:2], 3, *shape[2:]).unbind(2)
    query, key, value = (part.transpose(1, 2) for part in parts)
    x = functional.scaled_dot_product_attention(query, key, value, attn_mask=added)
    x = dense("attention_output", x.transpose(1, 2).reshape(inputs.shape))
    attended = norm("attention_layer_norm", inputs + x)
    x = dense("feedforward_intermediate", attended, block.activate)
    x = attended + dense("feedforward_output", x)
    return norm("feedforward_layer_norm", x)


def added_mask(mask: Any, dtype: Any) -> Tensor:
    """Return what PyTorch adds to the logits of a dtype, 0 where `mask` is True."""
    import torch  # noqa: PLC0415  (it is the backend)

    # Finite, so that a row of padding only yields no NaN, also in float32, in which
    # `where` reads the number.
    lowest = max(torch.finfo(dtype).min / 2, -1e30)
    return torch.where(mask, 0.0, lowest).to(dtype)


def _run_dense(layer: Any, x: Any) -> Any:
    return product(x, _tensor(layer.kernel), _tensor(layer.bias), layer.activation)


def product(
    x: Any, kernel: Any, bias: Any = None, activation: Any = None, packed: Any = None
) -> Any:
    """Return `activation(x @ kernel + bias)` of tensors without gradients.

    `packed` is what `pack_kernels` returned for the kernel.
    """
    from torch.nn import functional  # noqa: PLC0415  (it is the backend)

    if packed is None and not onednn_is_faster(x, kernel.shape[1]):
        output = functional.linear(x, kernel.t(), bias)
    else:
        # Applied in the product, GELU takes a third of its time.
        form = next((form for f, form in _GELU_FORMS if f is activation), None)
        name = "none" if form is None else "gelu"
        weights = kernel.t() if packed is None else packed
        output = onednn_linear()(x, weights, bias, name, [], form or "")
        activation = None if form else activation
    if activation is gelu_approximate:
        return functional.gelu(output, approximate="tanh")
    return output if activation is None else activation(output)


# oneDNN's names of the algorithms.
_GELU_FORMS = ((gelu_approximate, "tanh"), (keras.activations.gelu, "none"))


def pack_kernels(*kernels: Any) -> Any:
    """Join kernels with the same input for `product`, in oneDNN's memory order.

    `None` where that isn't faster. The copy is kept until a kernel changes.
    """
    import torch  # noqa: PLC0415  (it is the backend)

    if torch.compiler.is_dynamo_compiling() or not has_slow_blas():
        return None
    are_variables = all(
        # Others are new tensors in each call, or count no changes.
        isinstance(kernel, torch.nn.Parameter)
        and not kernel.is_inference()
        and kernel.dtype == torch.float32
        and kernel.device.type == "cpu"
        for kernel in kernels
    )
    if not are_variables:
        return None
    state = [(count_changes(kernel), kernel.data_ptr()) for kernel in kernels]
    known = _packed_kernels().get(kernels[0])
    if known is None or known[0] != state:
        joined = torch.cat([kernel.detach().t() for kernel in kernels])
        known = _packed_kernels()[kernels[0]] = state, onednn_packed(joined)
    return known[1]


@functools.cache
def _packed_kernels() -> Any:
    from torch.utils.weak import WeakIdKeyDictionary  # noqa: PLC0415  (as above)

    return WeakIdKeyDictionary()


def onednn_is_faster(x: Tensor, units: int) -> bool:
    """Return whether oneDNN multiplies faster; `torch.compile` cannot lower it."""
    import torch  # noqa: PLC0415  (it is the backend)

    if torch.compiler.is_dynamo_compiling() or x.numel() * units < _FEW_PRODUCTS:
        return False
    is_float32 = x.dtype == torch.float32 and x.device.type == "cpu"
    return is_float32 and has_slow_blas()


@functools.cache
def has_slow_blas() -> bool:
    """Return whether MKL is slower than oneDNN in float32, as on AMD's processors."""
    import torch  # noqa: PLC0415  (it is the backend)

    backends = torch.backends.mkl, torch.backends.mkldnn
    has_both = all(each.is_available() for each in backends)
    is_amd = "AuthenticAMD" in platform.processor()
    if (information := Path("/proc/cpuinfo")).exists():
        is_amd = "AuthenticAMD" in information.read_text()
    return has_both and onednn_linear() is not None and is_amd
