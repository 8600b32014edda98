"""Models in int8: what ONNX stores, what Keras stored, and how far off they are."""

import numpy as np
import pytest

from keras_albert.serving.onnx_weights import float_weight, split_int8
from tests.serving.served_models import make_task
from tests.serving.token_cases import SLOTS, random_ids

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from tests.serving.onnx_sessions import export, run


def test_numbers_times_scales_are_the_matrix():
    matrix = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    matrix[:, 2] = 0
    for axis in (0, 1):
        numbers, scales = split_int8(matrix, axis)
        assert numbers.dtype == np.int8
        assert scales.shape == (matrix.shape[1 - axis],)
        restored = numbers * np.expand_dims(scales, axis)
        error = np.abs(restored - matrix).max(axis=axis)
        assert (error <= scales / 2 + 1e-6).all()


@pytest.mark.parametrize("name", ["TextEmbedder", "MaskedLM", "QuestionAnswerer"])
def test_answers_nearly_the_same(name, tiny_proto, tmp_path):
    arguments = {"head": "conditional"} if name == "QuestionAnswerer" else {}
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
    """Its int8 numbers in float32, and in int8 the very numbers."""
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
    np.testing.assert_allclose(again, small, atol=1e-3)
    # Keras rounds activations, too, so that it is near and not the same.
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


def test_another_quantization_is_refused(tiny_proto, tmp_path):
    task = make_task("Classifier", tiny_proto, num_classes=3)
    task.quantize("int4")
    with pytest.raises(ValueError, match="is quantized to 'int4', and weights in"):
        export(task, tmp_path)
    assert not list(tmp_path.iterdir())
