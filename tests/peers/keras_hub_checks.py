"""What KerasHub's own `TestCase` asserts of any layer or model, in our words.

Each function says which of KerasHub's it stands for; all of them are in
`keras_hub/src/tests/test_case.py` of keras-hub 0.32.
"""

import json

import keras
import numpy as np
import pytest

from tests.compiled import to_numpy

QUANTIZED = (keras.layers.Dense, keras.layers.EinsumDense)
EMBEDDINGS = (keras.layers.Embedding, keras.layers.ReversibleEmbedding)


def assert_close(found, expected, atol=1e-6):
    """`assertAllClose`, over trees of arrays, tensors and lists."""
    found, expected = map(_leaves, (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=atol)


def _leaves(tree):
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in _leaves(tree[name])]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _leaves(part)]
    if hasattr(tree, "to_list"):  # ragged
        return [np.asarray(row) for row in tree.to_list()]
    if isinstance(tree, list):
        return [np.asarray(row) for row in tree]
    rows = np.asarray(keras.ops.convert_to_numpy(tree))
    return list(rows) if rows.ndim else [rows]


def check_serialization(instance):
    """`run_serialization_test`: a config makes an equal object, twice over."""
    config = instance.get_config()
    names = _names(instance)
    as_json = json.dumps(config, sort_keys=True)
    serialized = json.loads(json.dumps(keras.saving.serialize_keras_object(instance)))
    for revived in (
        type(instance).from_config(config),
        keras.saving.deserialize_keras_object(serialized),
    ):
        assert type(revived) is type(instance)
        assert json.dumps(revived.get_config(), sort_keys=True) == as_json
        # Of a tokenizer on TensorFlow, KerasHub leaves this out.
        if keras.config.backend() != "tensorflow" or isinstance(instance, keras.Model):
            assert _names(revived) == names


def _names(instance):
    return set(dir(instance)) - {"__annotations__"}


def check_preprocessing(layer, inputs, expected, in_graph=True):
    """`run_preprocessing_layer_test`: a call, `tf.data` and Grain say the same."""
    check_serialization(layer)
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    assert_close(layer(*parts), expected)
    rows = list(zip(*parts, strict=True)) if len(parts) > 1 else parts[0]

    if in_graph:
        tf = pytest.importorskip("tensorflow")
        pytest.importorskip("tensorflow_text")
        elements = tf.data.Dataset.from_tensor_slices(inputs)
        one_by_one = elements.map(layer).ragged_batch(100)
        assert_close(one_by_one.get_single_element(), expected)
        batched = elements.batch(100).map(layer)
        assert_close(batched.get_single_element(), expected)

    grain = pytest.importorskip("grain")
    call = (lambda row: layer(*row)) if len(parts) > 1 else layer
    # A source of one element, the whole batch; and one of each row.
    (batch,) = grain.MapDataset.source([inputs]).map(call)
    assert_close(batch, expected)
    _assert_plain(batch)
    found = [_row_leaves(row) for row in grain.MapDataset.source(rows).map(call)]
    wanted = zip(*[list(leaf) for leaf in _columns(expected)], strict=True)
    for row, leaves in zip(found, wanted, strict=True):
        for a, b in zip(row, leaves, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def _columns(tree):
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in _columns(tree[name])]
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _columns(part)]
    return [tree]


def _row_leaves(row):
    _assert_plain(row)
    return _columns(row)


def _assert_plain(tree):
    """Grain sends elements between processes: arrays and plain Python alone."""
    for leaf in keras.tree.flatten(tree):
        assert isinstance(leaf, np.ndarray | np.generic | str | int | float), leaf


def check_preprocessor(layer, inputs, expected, in_graph=True):
    """`run_preprocessor_test`: and `sequence_length` is settable afterwards."""
    check_preprocessing(layer, inputs, expected, in_graph)
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    for length in (layer.sequence_length, 17):
        layer.sequence_length = length
        x, _, _ = keras.utils.unpack_x_y_sample_weight(layer(*parts))
        assert x["token_ids"].shape[-1] == length


def check_precision(cls, arguments, inputs):
    """`run_precision_test`: each weight and output has the dtype of the policy."""
    for name in ("mixed_float16", "mixed_bfloat16", "bfloat16"):
        policy = keras.dtype_policies.get(name)
        model = cls(**arguments, dtype=policy)
        for output in (model(inputs), model.compute_output_spec(inputs)):
            for tensor in keras.tree.flatten(output):
                dtype = keras.backend.standardize_dtype(tensor.dtype)
                assert dtype == policy.compute_dtype
        for weight in model.weights:
            if "float" in str(weight.dtype):  # not the seeds' states
                dtype = keras.backend.standardize_dtype(weight.dtype)
                assert dtype == policy.variable_dtype
        for layer in model._flatten_layers():
            if not isinstance(layer, keras.layers.Softmax | keras.layers.InputLayer):
                assert layer.compute_dtype == policy.compute_dtype
                assert layer.variable_dtype == policy.variable_dtype


def check_quantization(cls, arguments, inputs):
    """`run_quantization_test`: int8 and float8 by a map of policies."""
    for mode in ("int8", "float8"):
        kinds = QUANTIZED + (EMBEDDINGS if mode == "int8" else ())
        policies = keras.dtype_policies.DTypePolicyMap("float32")
        for layer in cls(**arguments)._flatten_layers():
            if type(layer) in kinds:
                policies[layer.path] = keras.dtype_policies.get(f"{mode}_from_float32")
        assert len(policies) > 0
        model = cls(**arguments, dtype=policies)
        model(inputs)
        modes = {
            layer.quantization_mode
            for layer in model._flatten_layers()
            if type(layer) in kinds
        }
        assert modes == {mode}
        config = model.get_config()
        revived = cls.from_config(config)
        assert revived.get_config() == config
        revived.set_weights(model.get_weights())


def check_saving(model, inputs, directory):
    """`run_model_saving_test`: a `.keras` file brings back the class and outputs."""
    model.save(directory / "model.keras")
    restored = keras.models.load_model(directory / "model.keras")
    assert type(restored) is type(model)
    assert_close(to_numpy(restored(inputs)), to_numpy(model(inputs)))
