import gc

import keras
import numpy as np
import pytest

if keras.config.backend() != "torch":
    pytest.skip("PyTorch chooses between two libraries", allow_module_level=True)

import torch

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.layers import run_layers as onednn
from keras_albert.layers import shared_transformer_encoder
from keras_albert.layers.base_layer import get_activation
from keras_albert.layers.run_layers import run_layer

if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops, "mkldnn")):
    pytest.skip("this PyTorch has no oneDNN", allow_module_level=True)


@pytest.fixture(autouse=True)
def _on_amd(monkeypatch):
    monkeypatch.setattr(onednn, "has_slow_blas", lambda: True)
    monkeypatch.setattr(onednn, "_FEW_PRODUCTS", 1)


def random(*shape, grad=True, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_(grad)


@pytest.mark.parametrize("shape", [(7, 6), (2, 5, 6), (1, 1, 6), (0, 5, 6)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_product_and_gradients_are_those_of_pytorch(shape, has_bias):
    inputs = [random(*shape), random(6, 4)] + [random(4)] * has_bias
    upstream = random(*shape[:-1], 4, grad=False)
    found = onednn.onednn_multiply(*inputs)
    expected = inputs[0] @ inputs[1] + (inputs[2] if has_bias else 0)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("few", [1, 2**30])
@pytest.mark.parametrize("name", [None, "gelu_approximate", "gelu", "tanh"])
def test_an_activation_in_the_product(name, few, monkeypatch):
    monkeypatch.setattr(onednn, "_FEW_PRODUCTS", few)
    x, kernel, bias = (
        random(*shape, grad=False) for shape in ((2, 5, 6), (6, 4), (4,))
    )
    activation = None if name is None else get_activation(name)
    expected = x @ kernel + bias
    expected = expected if name is None else activation(expected)
    found = onednn.bare_product(x, kernel, bias, activation)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def dense_layers(count):
    layers = [keras.layers.Dense(4) for _ in range(count)]
    for layer in layers:
        layer.build((None, 6))
    return layers


@pytest.mark.parametrize("rows", [1, 7, 200])
@pytest.mark.parametrize("count", [1, 3])
def test_packed_kernels(rows, count):
    layers = dense_layers(count)
    kernels = [layer.kernel.value for layer in layers]
    x = random(2, rows, 6, grad=False)

    def multiply():
        with torch.inference_mode():
            packed = onednn.pack_kernels(*kernels)
            return onednn.bare_product(x, None, None, packed=packed)

    for change in (
        lambda: None,
        lambda: layers[-1].kernel.assign(np.ones((6, 4))),
        lambda: layers[-1].kernel.assign_sub(0.5 * layers[-1].kernel),
        lambda: setattr(kernels[0], "data", torch.zeros(6, 4)),
    ):
        change()
        expected = x @ torch.cat(kernels, 1)
        torch.testing.assert_close(multiply(), expected, atol=1e-5, rtol=1e-5)


def test_a_kernel_is_packed_once():
    (layer,) = dense_layers(1)
    kernel = layer.kernel.value
    packed = onednn.pack_kernels(kernel)
    assert onednn.pack_kernels(kernel) is packed
    count = len(onednn._packed_kernels())
    del layer, kernel
    gc.collect()
    assert len(onednn._packed_kernels()) < count


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(lambda: torch.zeros(6, 4), id="no variable"),
        pytest.param(
            lambda: torch.nn.Parameter(torch.zeros(6, 4, dtype=torch.bfloat16)),
            id="no float32",
        ),
        pytest.param(
            torch.inference_mode()(lambda: torch.nn.Parameter(torch.zeros(6, 4))),
            id="made in inference mode",
        ),
    ],
)
def test_a_kernel_that_is_not_packed(kernel):
    assert onednn.pack_kernels(kernel()) is None


@pytest.mark.parametrize("largest", [0, 2**24])
def test_training_changes_what_is_predicted(largest, monkeypatch):
    monkeypatch.setattr(shared_transformer_encoder, "_LARGEST_PACKED", largest)
    packed = onednn._packed_kernels()
    packed.clear()
    model = AlbertClassifier(
        AlbertBackbone(9, 2, 2, 8, 8, 16, max_sequence_length=8, seed=0), 2
    )
    ids = {name: np.ones((2, 4), "int32") for name in model.backbone.input}
    model.compile(learning_rate=0.1)
    for _ in range(2):
        found = model.predict(ids, verbose=0)
        # The layers of the functional model, which are not packed.
        expected = model(ids, training=False).detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-5)
        model.fit(ids, np.array([0, 1]), verbose=0)
    assert bool(packed) == (largest > 0)


def test_a_gradient_of_a_gradient():
    x, kernel = random(3, 6), random(6, 4)

    def penalty(product):
        (gradient,) = torch.autograd.grad(
            torch.sin(product).sum(), x, create_graph=True
        )
        return torch.autograd.grad((gradient**2).sum(), (x, kernel))

    for ours, theirs in zip(
        penalty(onednn.onednn_multiply(x, kernel)), penalty(x @ kernel), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_not_where_torch_compile_would_fail():
    seen = []

    def ask(x):
        seen.append(onednn.onednn_is_faster(x, 3))
        return x + 1

    torch.compile(ask, backend="eager")(random(2, 3))
    assert seen == [False]


@pytest.mark.parametrize("is_faster", [True, False])
def test_layers(is_faster, monkeypatch):
    monkeypatch.setattr(onednn, "has_slow_blas", lambda: is_faster)
    calls = []
    multiply = onednn.onednn_multiply
    monkeypatch.setattr(
        onednn, "onednn_multiply", lambda *x: calls.append(1) or multiply(*x)
    )
    x = keras.ops.convert_to_tensor(random(2, 5, 6).detach())
    dense = keras.layers.Dense(4, activation="tanh", bias_initializer="normal")
    dense.build((2, 5, 6))
    embedding = keras.layers.ReversibleEmbedding(9, 6)
    embedding.build()
    for layer, arguments in ((dense, {}), (embedding, {"reverse": True})):
        found, expected = run_layer(layer, x, **arguments), layer(x, **arguments)
        np.testing.assert_allclose(
            found.detach().numpy(), expected.detach().numpy(), atol=1e-6
        )
    assert len(calls) == 2 * is_faster
