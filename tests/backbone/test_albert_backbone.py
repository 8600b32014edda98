import json

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone
from keras_albert.backbone import architecture
from keras_albert.layers import base_layer
from tests.compiled import to_numpy
from tests.foreign_models import TINY, ragged_inputs
from tests.one_backend import on_one_backend
from tests.random_weights import add_noise

INPUTS = ragged_inputs()
# Outside a compiled model, JAX would compile a loop again at each call.
SMALL = TINY | {"num_layers": 2, "num_groups": 2, "unroll": True, "seed": 1}


@pytest.fixture(scope="module")
def backbone():
    return AlbertBackbone(**SMALL)


def _assert_same(first, second):
    first, second = to_numpy(first(INPUTS)), to_numpy(second(INPUTS))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


@on_one_backend
@pytest.mark.parametrize(
    ("size", "count"),
    [
        ("base", 11_683_584),
        ("large", 17_683_968),
        ("xlarge", 58_724_864),
        ("xxlarge", 222_595_584),
    ],
)
def test_the_published_sizes_have_the_published_counts(size, count, monkeypatch):
    # Drawing 222 million random numbers is slow, and only the shapes matter.
    zeros = keras.initializers.Zeros()
    monkeypatch.setattr(base_layer.TruncatedNormal, "__call__", zeros.__call__)
    assert AlbertBackbone(**architecture(size), dtype="float16").count_params() == count


def test_version_one_dropped_out_but_for_the_largest():
    rates = {size: architecture(size, 1)["dropout"] for size in ("base", "xxlarge")}
    assert rates == {"base": 0.1, "xxlarge": 0.0}
    assert architecture("base")["dropout"] == 0.0
    with pytest.raises(ValueError, match=r"one of 'base', 'large'.*size='huge'"):
        architecture("huge")
    with pytest.raises(ValueError, match="version=3"):
        architecture("base", 3)


def test_inputs_and_outputs_have_the_names_of_keras_hub(backbone):
    assert set(backbone.input) == {"token_ids", "segment_ids", "padding_mask"}
    assert backbone.output["sequence_output"].shape == (None, None, 16)
    assert backbone.output["pooled_output"].shape == (None, 16)
    assert all(tensor.dtype == "int32" for tensor in backbone.input.values())
    assert backbone.token_embedding.embeddings.shape == (60, 8)


def test_the_config_builds_the_same_model(backbone):
    config = backbone.get_config()
    assert json.loads(json.dumps(config)) == config
    copy = AlbertBackbone.from_config(config)
    assert copy.get_config() == config
    # The same seed gives the same initial weights.
    _assert_same(backbone, copy)


@pytest.mark.filterwarnings("ignore:The model was trained with")
def test_adapters_are_saved_with_their_depth(tmp_path):
    backbone = add_noise(AlbertBackbone(**SMALL, adapter_rank=2))
    backbone.save_to_preset(tmp_path)
    reloaded = AlbertBackbone.from_preset(tmp_path)
    assert reloaded.adapter_rank == 2
    _assert_same(backbone, reloaded)
    with pytest.raises(ValueError, match="an argument changes shapes"):
        AlbertBackbone.from_preset(tmp_path, num_layers=3)
    for rank in (0, "4"):
        with pytest.raises(ValueError, match="`rank` must be a whole number"):
            backbone.enable_lora(rank)
    # LoRA for another task leaves them as they are.
    backbone.enable_lora(2)
    assert all(w.name.startswith("lora_") for w in backbone.trainable_weights)
    _assert_same(backbone, reloaded)


@pytest.mark.filterwarnings("ignore:.* (`quantize`|support quantization)")
def test_what_quantize_cannot_do_changes_nothing():
    backbone = AlbertBackbone(**SMALL)
    before = [(weight.path, weight.dtype) for weight in backbone.weights]
    gptq = keras.quantizers.GPTQConfig(dataset=["a"], tokenizer=None)
    for arguments in ({"mode": "gptq"}, {"mode": "awq"}, {"config": gptq}):
        with pytest.raises(ValueError, match=r"calibrates one layer after|Config` obj"):
            backbone.quantize(**arguments)
    assert [(weight.path, weight.dtype) for weight in backbone.weights] == before
    expected = keras.Sequential([keras.layers.Dense(2)])
    expected.build((None, 2))
    # Of Keras 3.16, a report of the layers.
    assert type(backbone.quantize("int8")) is type(expected.quantize("int8"))

    quantized = [(weight.path, weight.dtype) for weight in backbone.weights]
    values = backbone.get_weights()
    for mode in ("int8", "int4"):
        with pytest.raises(ValueError, match=r"is quantized already, to int8\. Load"):
            backbone.quantize(mode)
    assert [(weight.path, weight.dtype) for weight in backbone.weights] == quantized
    np.testing.assert_equal(backbone.get_weights(), values)


def test_weights_of_another_size_change_nothing(backbone, tmp_path):
    path = tmp_path / "some.weights.h5"
    backbone.save_weights(path)
    other = AlbertBackbone(**TINY, num_groups=4, seed=3)
    before = other.get_weights()
    with pytest.raises(ValueError, match="Nothing was loaded"):
        other.load_weights(path)
    np.testing.assert_equal(before, other.get_weights())


@pytest.mark.parametrize("unroll", [True, False])
def test_a_pooler_of_the_mean(unroll):
    arguments = TINY | {"num_layers": 2, "num_groups": 1, "seed": 1}
    model = AlbertBackbone(**arguments, pooler_input="mean", unroll=unroll)
    outputs = to_numpy(model(INPUTS))
    mask = np.asarray(INPUTS["padding_mask"], "float32")[..., None]
    mean = (outputs["sequence_output"] * mask).sum(1) / mask.sum(1)
    kernel, bias = (to_numpy(w) for w in (model.pooler.kernel, model.pooler.bias))
    expected = np.tanh(mean @ kernel + bias)
    np.testing.assert_allclose(outputs["pooled_output"], expected, atol=1e-5)
    by_layer = to_numpy(model.pooled_by_layer(INPUTS))
    np.testing.assert_allclose(by_layer[:, -1], expected, atol=1e-5)
    again = AlbertBackbone.from_config(model.get_config())
    assert again.pooler_input == "mean"


def test_an_unknown_input_of_the_pooler():
    with pytest.raises(ValueError, match=r"must be one of.*pooler_input='max'"):
        AlbertBackbone(**SMALL, pooler_input="max")


def test_other_libraries_have_no_pooler_of_the_mean(tmp_path):
    model = AlbertBackbone(**SMALL, pooler_input="mean")
    with pytest.raises(ValueError, match="pooler_input='mean', only with 'cls'"):
        model.export_to_transformers(tmp_path / "exported")
    assert not (tmp_path / "exported").exists()
