"""Variants of the backbone in ONNX Runtime."""

import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTextEmbedder

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import numpy as np

from tests.random_weights import add_noise
from tests.serving.onnx.onnx_sessions import export, run
from tests.serving.token_cases import random_ids


def with_random_weights(task_cls, *task_arguments, **kwargs):
    """Make a task with random weights, including nonzero biases."""
    arguments = {
        "vocabulary_size": 50,
        "num_layers": 2,
        "num_heads": 2,
        "embedding_dim": 8,
        "hidden_dim": 16,
        "intermediate_dim": 32,
        "max_sequence_length": 16,
        "unroll": True,
    }
    return add_noise(task_cls(AlbertBackbone(**(arguments | kwargs)), *task_arguments))


def embedder(**kwargs):
    return with_random_weights(AlbertTextEmbedder, **kwargs)


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_layers": 3, "num_groups": 2, "num_inner_repetitions": 2},
        {"num_layers": 3, "num_groups": 2, "adapter_rank": 2},
        {"activation": "gelu"},
        {"activation": "relu", "embedding_dim": 16, "num_segments": 1},
        {"embedding_dim": 16, "use_embedding_projection": True, "num_segments": 3},
        {"layer_norm_epsilon": 1e-3, "num_heads": 4, "activation": "silu"},
    ],
    ids=str,
)
def test_gives_the_numbers_of_predict(arguments, tmp_path):
    task = embedder(**arguments)
    inputs = random_ids(task, (3, 11))
    expected = task.predict(inputs, verbose=0)
    found = run(export(task, tmp_path), inputs)["embedding"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("pooler_input", ["cls", "mean"])
def test_poolers(pooler_input, tmp_path):
    task = with_random_weights(AlbertClassifier, 3, pooler_input=pooler_input)
    inputs = random_ids(task, (3, 11))
    expected = task.predict(inputs, verbose=0)
    found = run(export(task, tmp_path), inputs)["logits"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_each_weight_is_stored_once(tmp_path):
    task = embedder(
        vocabulary_size=4000, num_layers=12, hidden_dim=256, intermediate_dim=1024
    )
    size = 4 * task.count_params()
    for quantize, most in ((None, 1.05), ("int8", 0.3)):
        export(task, tmp_path, quantize=quantize)
        assert (tmp_path / "model.onnx").stat().st_size <= most * size


def test_what_lora_learned_is_exported(tmp_path):
    task = embedder()
    task.backbone.enable_lora(2)
    add_noise(task, seed=2)
    inputs = random_ids(task, (3, 11))
    expected = task.predict(inputs, verbose=0)
    found = run(export(task, tmp_path), inputs)["embedding"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_an_activation_that_onnx_has_not_is_refused(tmp_path):
    task = embedder(activation="hard_tanh")
    with pytest.raises(ValueError, match=r"activation 'hard_tanh'. It knows: .*gelu"):
        export(task, tmp_path)
    assert not list(tmp_path.iterdir())
