"""Initial weights, and texts that share rows."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import AlbertBackbone
from keras_albert.backbone import POOLER_INPUTS
from keras_albert.data.batches import pack_sequences
from keras_albert.layers.base_layer import albert_initializer, packed_rows
from keras_albert.text.packing import PackedShape
from tests.compiled import gradients, to_numpy
from tests.random_weights import add_noise


def test_initial_weights_are_a_truncated_normal():
    initializer = albert_initializer(seed=3)
    values = to_numpy(initializer((300, 200), "float32"))
    assert np.abs(values).max() <= 0.04
    assert abs(values.mean()) < 5e-4
    # A normal of deviation 1 has 0.8796 between -2 and 2.
    assert abs(values.std() / 0.02 - 0.8796) < 0.01
    config = keras.initializers.serialize(initializer)
    again = keras.initializers.deserialize(config)((300, 200), "float32")
    np.testing.assert_array_equal(to_numpy(again), values)
    other = to_numpy(albert_initializer(seed=4)((300, 200), "float32"))
    assert abs(np.corrcoef(other.ravel(), values.ravel())[0, 1]) < 0.03
    low = albert_initializer(seed=3)((2, 2), "float16")
    assert keras.backend.standardize_dtype(low.dtype) == "float16"


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
