"""Variants of the backbone, and models quantized to int8, in ONNX Runtime."""

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTextEmbedder
from keras_albert.backbone import POOLER_INPUTS
from keras_albert.exports.shared import float_weight, split_int8
from tests.exports.served_models import make_task
from tests.exports.token_cases import SLOTS, random_ids
from tests.random_weights import add_noise

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from tests.exports.onnx.onnx_sessions import export, run


def with_random_weights(task_cls, *task_arguments, **kwargs):
    """Make a task with random weights, including nonzero biases."""
    arguments = {"vocabulary_size": 50, "num_layers": 2, "num_heads": 2}
    arguments |= {"embedding_dim": 8, "hidden_dim": 16, "intermediate_dim": 32}
    arguments |= {"max_sequence_length": 16, "unroll": True}
    return add_noise(task_cls(AlbertBackbone(**(arguments | kwargs)), *task_arguments))


def embedder(**kwargs):
    return with_random_weights(AlbertTextEmbedder, **kwargs)


def assert_exported(task, folder, output="embedding"):
    inputs = random_ids(task, (3, 11))
    found = run(export(task, folder), inputs)[output]
    np.testing.assert_allclose(found, task.predict(inputs, verbose=0), atol=1e-5)


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
    assert_exported(embedder(**arguments), tmp_path)


@pytest.mark.parametrize("pooler_input", POOLER_INPUTS)
def test_poolers(pooler_input, tmp_path):
    task = with_random_weights(AlbertClassifier, 3, pooler_input=pooler_input)
    assert_exported(task, tmp_path, "logits")


def test_a_head_on_the_mean(tmp_path):
    task = with_random_weights(AlbertClassifier, 3)
    task.pooling.mode = "normalized_mean"
    assert_exported(task, tmp_path, "logits")


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
    assert_exported(add_noise(task, seed=2), tmp_path)


def test_an_activation_that_onnx_has_not_is_refused(tmp_path):
    task = embedder(activation="hard_tanh")
    with pytest.raises(ValueError, match=r"activation 'hard_tanh'. It knows: .*gelu"):
        export(task, tmp_path)
    assert not list(tmp_path.iterdir())


def test_numbers_times_scales_are_the_matrix():
    matrix = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    matrix[:, 2] = 0
    for axis in (0, 1):
        numbers, scales = split_int8(matrix, axis)
        assert numbers.dtype == np.int8
        # Two products with numbers up to 255 fit 16 bits, as AVX2 requires.
        assert 2 * 255 * np.abs(numbers.astype(int)).max() < 2**15
        assert scales.shape == (matrix.shape[1 - axis],)
        restored = numbers * np.expand_dims(scales, axis)
        error = np.abs(restored - matrix).max(axis=axis)
        assert (error <= scales / 2 + 1e-6).all()


@pytest.mark.parametrize("name", ["TextEmbedder", "MaskedLM", "QuestionAnswerer"])
def test_answers_nearly_the_same(name, tiny_proto, tmp_path):
    arguments = {"sizes": {"adapter_rank": 2}}
    if name == "QuestionAnswerer":
        arguments = {"head": "conditional"}
    task = make_task(name, tiny_proto, **arguments)
    inputs = random_ids(task, (3, 9), SLOTS if name == "MaskedLM" else {})
    exact = run(export(task, tmp_path), inputs)
    found = run(export(task, tmp_path, quantize="int8"), inputs)
    assert list(found) == list(exact)
    for output, array in exact.items():
        kept = array > -1e29
        difference = np.abs(found[output] - array)[kept]
        assert 0 < difference.max() < 0.5 * array[kept].std()


def test_what_keras_quantized_is_exported(tiny_proto, tmp_path):
    """Keras' int8 numbers are exported in float32, or quantized again to int8."""
    task = make_task("Classifier", tiny_proto, num_classes=3)
    inputs = random_ids(task, (3, 9))
    exact = run(export(task, tmp_path), inputs)["logits"]
    small = run(export(task, tmp_path, quantize="int8"), inputs)["logits"]
    before = float_weight(task.backbone.pooler, "kernel")
    task.quantize("int8")
    after = float_weight(task.backbone.pooler, "kernel")
    assert 0 < np.abs(after - before).max() < np.abs(before).max() / 100
    kept = run(export(task, tmp_path), inputs)["logits"]
    assert 0 < np.abs(kept - exact).max() < 0.3 * exact.std()
    again = run(export(task, tmp_path, quantize="int8"), inputs)["logits"]
    assert np.abs(again - small).max() < 0.3 * exact.std()
    # Keras also rounds activations, so that results are close, but not equal.
    predicted = task.predict(inputs, verbose=0)
    assert np.abs(predicted - kept).max() < 0.3 * exact.std()


def test_lora_on_int8_weights_is_exported(tiny_proto):
    task = make_task("Classifier", tiny_proto, num_classes=3)
    task.quantize("int8")
    pooler = task.backbone.pooler
    before = float_weight(pooler, "kernel")
    pooler.enable_lora(2)
    for variable in (pooler.lora_kernel_a, pooler.lora_kernel_b):
        variable.assign(np.full(variable.shape, 0.5))
    added = float_weight(pooler, "kernel") - before
    np.testing.assert_allclose(added, 2 * 0.5 * 0.5, atol=1e-6)
