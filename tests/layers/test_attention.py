"""Attention, and texts that share rows."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import AlbertBackbone
from keras_albert.backbone import POOLER_INPUTS
from keras_albert.data.batches import pack_sequences
from keras_albert.layers.attention import attend, attend_fused, packed_rows
from keras_albert.text.sequence_packing import PackedShape
from tests.compiled import gradients, to_numpy
from tests.random_weights import add_noise

SHAPE = (3, 5, 2, 4)
# The last row is padding only.
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)[
    :, None, None
]


def heads(dtype="float32"):
    rng = np.random.default_rng(0)
    return [
        keras.ops.convert_to_tensor(rng.normal(size=SHAPE).astype("float32"), dtype)
        for _ in range(3)
    ]


def explicit(heads, mask):
    return attend(*heads, mask, lambda scores: scores)


@pytest.mark.parametrize("mask", [None, MASK, MASK & MASK.transpose(0, 1, 3, 2)])
def test_explicit_and_fused_attention_are_equal(mask):
    expected, scores = to_numpy(explicit(heads(), mask))
    mask = None if mask is None else keras.ops.convert_to_tensor(mask)
    found = to_numpy(attend_fused(*heads(), mask))
    assert found.shape == SHAPE
    some = slice(None) if mask is None else slice(2)
    np.testing.assert_allclose(found[some], expected[some], atol=1e-6)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX' kernel alone")
def test_kernel_of_gpus_takes_the_mask(monkeypatch):
    """Lower for a GPU that is not there; cuDNN would be asked for its version."""
    import jax
    from jax._src.cudnn import fused_attention_stablehlo as kernel

    monkeypatch.setattr(kernel, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(kernel, "check_compute_capability", lambda version: True)

    def attention(query, key, value, mask, **_):
        arguments = {"mask": mask, "implementation": "cudnn"}
        return jax.nn.dot_product_attention(query, key, value, **arguments)

    monkeypatch.setattr(ops, "dot_product_attention", attention)

    def total(query, mask):
        return attend_fused(query, query, query, mask).astype("float32").sum()

    query = np.zeros((4, 128, 2, 64), "bfloat16")
    step = jax.jit(jax.grad(total)).trace(query, np.ones((4, 1, 1, 128), bool))
    program = step.lower(lowering_platforms=("cuda",)).as_text()
    assert "__cudnn$fmhaScaleBiasSoftmaxBackward" in program


LENGTHS = np.array([5, 9, 3, 7, 4])


def make_backbone(**kwargs):
    sizes = (50, 3, 2, 8, 16, 32)
    backbone = AlbertBackbone(*sizes, max_sequence_length=12, seed=1, **kwargs)
    # Large enough that what a token should not see would be seen.
    return add_noise(backbone, seed=2)


@pytest.fixture(scope="module")
def ids():
    random = np.random.default_rng(0)
    mask = (np.arange(9) < LENGTHS[:, None]).astype("int32")
    return {
        "token_ids": random.integers(1, 50, mask.shape).astype("int32") * mask,
        "segment_ids": random.integers(0, 2, mask.shape).astype("int32") * mask,
        "padding_mask": mask,
    }


@pytest.fixture(scope="module")
def shared(ids):
    shape = PackedShape(hidden_dim=512)
    (batch,) = pack_sequences((ids,), shape)
    # Fewer rows than texts, so that texts stand beside each other.
    assert shape.rows[5] < len(LENGTHS)
    return batch


@pytest.mark.parametrize("pooler_input", POOLER_INPUTS)
@pytest.mark.parametrize("unroll", [True, False])
def test_outputs_and_gradients_of_separate_rows(ids, shared, pooler_input, unroll):
    # On PyTorch the gradients of a second run would be added.
    alone, sharing = (
        make_backbone(pooler_input=pooler_input, unroll=unroll) for _ in range(2)
    )
    random = np.random.default_rng(3)
    by_token = random.normal(size=(*ids["token_ids"].shape, 16)).astype("float32")
    by_token *= ids["padding_mask"][..., None]
    by_text = random.normal(size=(5, 16)).astype("float32")

    def weigh(outputs):
        tokens = outputs["sequence_output"] * ops.convert_to_tensor(by_token)
        texts = outputs["pooled_output"] * ops.convert_to_tensor(by_text)
        return ops.sum(tokens) + ops.sum(texts)

    expected = gradients(alone, weigh, ids)
    found = gradients(sharing, weigh, shared)
    is_token = ids["padding_mask"] > 0
    for outputs in (expected[0], found[0]):
        outputs["sequence_output"] = outputs["sequence_output"][is_token]
    for name, output in expected[0].items():
        np.testing.assert_allclose(found[0][name], output, atol=2e-5)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4)


def test_pooled_outputs_of_all_layers(ids, shared):
    backbone = make_backbone()
    expected = to_numpy(backbone.pooled_by_layer(ids))
    found = to_numpy(backbone.pooled_by_layer(shared))
    assert found.shape == (5, 3, 16)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_outputs_that_need_a_row_for_each_text(shared):
    backbone = make_backbone()
    with pytest.raises(ValueError, match=r"share rows.*pack_sequences=False"):
        backbone.all_outputs(shared)
    x, mask = np.zeros((2, 16, 16), "float32"), np.ones((5, 9, 9))
    with pytest.raises(ValueError, match="attention_mask"):
        backbone.encoder(x, attention_mask=mask, rows=packed_rows(shared))
