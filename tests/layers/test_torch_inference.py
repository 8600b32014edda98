import gc

import keras
import numpy as np
import pytest

if keras.config.backend() != "torch":
    pytest.skip("PyTorch chooses between two libraries", allow_module_level=True)

import torch

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.data.batches import pack_sequences
from keras_albert.layers import run_layers, torch_inference
from keras_albert.layers.run_layers import run_layer
from keras_albert.layers.torch_inference import fast_call, use_torch_inference
from keras_albert.text.packing import PackedShape
from tests.random_weights import add_noise

if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops, "mkldnn")):
    pytest.skip("this PyTorch has no oneDNN", allow_module_level=True)


@pytest.fixture(autouse=True)
def _on_amd(monkeypatch):
    monkeypatch.setattr(torch_inference, "has_slow_blas", lambda: True)
    monkeypatch.setattr(torch_inference, "_FEW_PRODUCTS", 1)


def random(*shape, grad=True, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_(grad)


@pytest.mark.parametrize("shape", [(7, 6), (2, 5, 6), (1, 1, 6), (0, 5, 6)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_product_and_gradients_are_those_of_pytorch(shape, has_bias):
    inputs = [random(*shape), random(6, 4)] + [random(4)] * has_bias
    upstream = random(*shape[:-1], 4, grad=False)
    found = run_layers.onednn_multiply(*inputs)
    expected = inputs[0] @ inputs[1] + (inputs[2] if has_bias else 0)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(
        torch.autograd.grad(found, inputs, upstream),
        torch.autograd.grad(expected, inputs, upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


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
            packed = torch_inference.pack_kernels(*kernels)
            return torch_inference.product(x, None, None, packed=packed)

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
    packed = torch_inference.pack_kernels(kernel)
    assert torch_inference.pack_kernels(kernel) is packed
    count = len(torch_inference._packed_kernels())
    del layer, kernel
    gc.collect()
    assert len(torch_inference._packed_kernels()) < count


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
    assert torch_inference.pack_kernels(kernel()) is None


@pytest.mark.parametrize("largest", [0, 2**24])
def test_training_changes_what_is_predicted(largest, monkeypatch):
    monkeypatch.setattr(torch_inference, "_LARGEST_PACKED", largest)
    packed = torch_inference._packed_kernels()
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
        penalty(run_layers.onednn_multiply(x, kernel)), penalty(x @ kernel), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_not_where_torch_compile_would_fail():
    seen = []

    def ask(x):
        seen.append(torch_inference.onednn_is_faster(x, 3))
        return x + 1

    torch.compile(ask, backend="eager")(random(2, 3))
    assert seen == [False]


@pytest.mark.parametrize("is_faster", [True, False])
def test_layers(is_faster, monkeypatch):
    monkeypatch.setattr(torch_inference, "has_slow_blas", lambda: is_faster)
    calls = []
    multiply = run_layers.onednn_multiply
    monkeypatch.setattr(
        run_layers, "onednn_multiply", lambda *x: calls.append(1) or multiply(*x)
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


SIZES = {
    "vocabulary_size": 50,
    "num_layers": 4,
    "num_heads": 2,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
    "max_sequence_length": 12,
}


def make_backbone(**kwargs):
    return add_noise(AlbertBackbone(**(SIZES | kwargs), seed=1), seed=2)


def make_ids():
    rng = np.random.default_rng(0)
    mask = (np.arange(9) < np.array([5, 9, 3, 7, 4])[:, None]).astype("int32")
    ids = {name: rng.integers(1, high, mask.shape) for name, high in IDS.items()}
    return {name: (x * mask).astype("int32") for name, x in ids.items()} | {
        "padding_mask": mask
    }


IDS = {"token_ids": 50, "segment_ids": 2}


def compare(backbone, num_layers=None, ids=None):
    """The outputs with gradients, for which Keras runs, and those without."""
    ids = {k: torch.as_tensor(x) for k, x in (ids or make_ids()).items()}
    expected = backbone.call(ids, num_layers=num_layers)
    with torch.inference_mode():
        assert use_torch_inference(ids, torch_inference.backbone_layers(backbone))
        found = backbone.call(ids, num_layers=num_layers)
    for name, output in expected.items():
        torch.testing.assert_close(found[name], output.detach(), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize(
    ("arguments", "num_layers"),
    [
        pytest.param({}, None, id="albert"),
        pytest.param({"activation": "gelu", "num_segments": 1}, 2, id="fewer layers"),
        pytest.param({"activation": "relu"}, 6, id="more layers"),
        pytest.param({"num_groups": 2, "num_inner_repetitions": 2}, 3, id="groups"),
        pytest.param({"embedding_dim": 16, "num_groups": 4}, None, id="bert"),
        pytest.param({"adapter_rank": 2, "num_groups": 2}, None, id="adapters"),
        pytest.param({"adapter_rank": 2}, 3, id="fewer adapters"),
        pytest.param(
            {"pooler_input": "mean", "pooler_activation": "gelu"}, None, id="mean"
        ),
    ],
)
@pytest.mark.parametrize("library", ["oneDNN, packed", "oneDNN", "MKL"])
def test_outputs_are_those_of_keras(arguments, num_layers, library, monkeypatch):
    monkeypatch.setattr(torch_inference, "has_slow_blas", lambda: library != "MKL")
    if library == "oneDNN":
        monkeypatch.setattr(torch_inference, "_LARGEST_PACKED", 0)
    compare(make_backbone(**arguments), num_layers)


def test_texts_that_share_rows_and_lora():
    backbone = make_backbone()
    (shared,) = pack_sequences((make_ids(),), PackedShape(hidden_dim=512))
    compare(backbone, ids=shared)
    backbone.enable_lora(2)
    compare(add_noise(backbone, seed=3))


def test_a_text_that_is_too_long():
    ids = {name: torch.ones((1, 13), dtype=torch.int32) for name in make_ids()}
    with torch.no_grad(), pytest.raises(ValueError, match="only 12 position emb"):
        make_backbone().call(ids)


def test_what_keras_runs():
    """Layers of other dtypes; training; and inputs of other libraries."""
    x, layer = torch.ones(2, 6), dense_layers(1)[0]
    assert not use_torch_inference(x, [layer])
    with torch.no_grad():
        assert use_torch_inference(x, [layer])
        assert use_torch_inference((x, None), [layer])
        assert not use_torch_inference(x, [layer], training=True)
        assert not use_torch_inference(x.numpy(), [layer])
        assert not use_torch_inference(x.bfloat16(), [layer])
        assert not use_torch_inference(x, [keras.layers.Dense(4)])
        torch.testing.assert_close(fast_call(layer, x), layer(x))
        mixed = keras.layers.Lambda(use_torch_inference, dtype="mixed_bfloat16")
        assert not mixed(torch.ones(2, 6, dtype=torch.int32))
        layer.quantize("int8")
        assert not use_torch_inference(x, [layer])
        torch.testing.assert_close(fast_call(layer, x), layer(x))


@pytest.mark.parametrize("change", ["mixed_bfloat16", "int8"])
def test_a_backbone_that_keras_runs(change):
    is_mixed = change.startswith("mixed")
    backbone = make_backbone(dtype=change if is_mixed else None)
    if not is_mixed:
        backbone.quantize(change)
    ids = {name: torch.as_tensor(x) for name, x in make_ids().items()}
    expected = backbone(ids)["pooled_output"].detach()
    with torch.inference_mode():
        assert not use_torch_inference(ids, torch_inference.backbone_layers(backbone))
        found = backbone(ids)["pooled_output"]
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


def test_the_first_call_of_a_process_may_be_in_fit(monkeypatch):
    """`fit` builds its model in a scope where variables have no values yet."""
    monkeypatch.setattr(torch_inference, "_PROBES", [])
    with torch.no_grad(), keras.StatelessScope():
        assert use_torch_inference(torch.zeros(1))


def test_torch_compile():
    backbone = make_backbone(num_layers=2)
    ids = {name: torch.as_tensor(x) for name, x in make_ids().items()}
    with torch.no_grad():
        expected = backbone.call(ids)["sequence_output"]
        found = torch.compile(backbone.call, backend="eager")(ids)["sequence_output"]
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=2e-6)
