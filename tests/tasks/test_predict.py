"""One batch: no data set, no retracing, several threads, the weights of the moment."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTextEmbedder
from keras_albert.data.batches import preprocess_batch
from keras_albert.tasks.predict import mask_outputs
from tests.one_backend import on_one_backend_except
from tests.tasks.every_task import CLASSES, cases
from tests.tasks.small_models import small_backbone
from tests.tasks.task_checks import assert_same

pytestmark = on_one_backend_except(
    "test_outputs_are_those_of_keras[classifier]",
    "test_outputs_are_those_of_keras[pairs]",
    "test_outputs_are_those_of_keras[pretrainer]",
    "test_a_text_compiles_at_most_a_program_of_its_length",
    "test_eight_threads",
    "test_predictions_follow_the_weights",
    "test_callbacks[classifier]",
)

BACKEND = keras.config.backend()
# Of one to ten words, which fall into all buckets.
TEXTS = [" ".join(["rain"] * count) for count in range(1, 11)]


@pytest.mark.parametrize("name", CLASSES)
def test_outputs_are_those_of_keras(name, make_classifier, toy_proto, toy):
    make, x, _ = cases(make_classifier, toy_proto, toy)[name]
    task = make()
    (flat,) = (ids,) = preprocess_batch(task, "prediction", x)
    if name == "pairs":
        flat = {key: rows.reshape(-1, rows.shape[-1]) for key, rows in ids.items()}
    expected = keras.Model.predict_on_batch(task, flat)
    expected = mask_outputs(task, flat, expected)
    for _ in range(2):
        found = task.predict(flat, verbose=0)
        assert_same(found, expected, atol=1e-6)


@pytest.mark.skipif(BACKEND != "torch", reason="the others compile Keras' steps")
def test_pytorchs_functions_equal_kerass(make_classifier):
    preprocessor = make_classifier().preprocessor
    backbone = small_backbone(adapter_rank=2)
    task = AlbertClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    found = []
    for change in (None, "adapters", "lora", "int8"):
        if change == "adapters":
            for number, variable in enumerate(backbone.encoder.adapters.variables):
                values = np.random.default_rng(number).normal(0, 0.5, variable.shape)
                variable.assign(values)
        if change == "lora":
            backbone.encoder.blocks[0].value.enable_lora(2)
            for variable in backbone.encoder.blocks[0].value.trainable_variables:
                variable.assign(keras.ops.ones_like(variable))
        if change == "int8":
            task.quantize("int8")
        found.append(task.predict(["rain", "rain rain rain"], verbose=0))
        ids = preprocessor(["rain", "rain rain rain"])
        # With gradients, Keras' layers run.
        expected = task(ids, training=False)
        np.testing.assert_allclose(
            found[-1], keras.ops.convert_to_numpy(expected), atol=1e-6
        )
    assert len({array.tobytes() for array in found}) == 4


def test_a_backbone_of_a_users_own_class_is_called():
    class Doubled(AlbertBackbone):
        def call(self, *args, **kwargs):
            outputs = super().call(*args, **kwargs)
            return outputs | {"sequence_output": 2 * outputs["sequence_output"]}

    backbone = small_backbone()
    own = Doubled.from_config(backbone.get_config())
    ids = {name: np.ones((1, 3), "int32") for name in backbone.input}
    outputs = [
        AlbertTextEmbedder(each, normalize=False).predict(ids, verbose=0)
        for each in (backbone, own)
    ]
    np.testing.assert_allclose(outputs[1], 2 * outputs[0], atol=1e-6)


def count_runs(task):
    """Return the calls of the model's layers: traces on TensorFlow and JAX."""
    calls, run = [], task._run_layers

    def counted(*arguments, **kwargs):
        calls.append(arguments)
        return run(*arguments, **kwargs)

    task._run_layers = counted
    return calls


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch traces nothing")
def test_a_text_compiles_at_most_a_program_of_its_length(make_classifier):
    classifier = make_classifier()
    # It runs the layers instead of the functional model.
    run = partial(classifier.predict, num_layers=1, verbose=0)
    calls = count_runs(classifier)
    found = [[run([text])[0] for text in TEXTS] for _ in range(3)]
    lengths = {classifier.preprocessor.padded_length(3 + n) for n in range(10)}
    assert len(calls) <= (len(lengths) if BACKEND == "jax" else 1)
    np.testing.assert_allclose(found, [found[0]] * 3, atol=1e-6)


def test_eight_threads(make_classifier, toy):
    texts = toy[0][:48]
    expected = make_classifier().predict(texts, batch_size=5, verbose=0)
    # Nothing is compiled yet.
    classifier = make_classifier()

    def predict(text):
        return classifier.predict([text], verbose=0)[0]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(predict, texts))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_predictions_follow_the_weights(make_classifier):
    classifier = make_classifier()
    before = [classifier.predict(TEXTS, verbose=0) for _ in range(3)][-1]

    def outputs():
        (ids,) = preprocess_batch(classifier, "prediction", TEXTS)
        expected = keras.ops.convert_to_numpy(classifier(ids, training=False))
        found = classifier.predict(TEXTS, verbose=0)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        return found

    classifier.set_weights([weight * 2 for weight in classifier.get_weights()])
    doubled = outputs()
    assert np.abs(doubled - before).max() > 1e-3
    dense = classifier.backbone.encoder.blocks[0].value
    dense.enable_lora(2)
    generator = np.random.default_rng(0)
    for variable in (dense.lora_kernel_a, dense.lora_kernel_b):
        variable.assign(generator.normal(size=variable.shape))
    assert np.abs(outputs() - doubled).max() > 1e-3


@pytest.mark.skipif(BACKEND != "torch", reason="of PyTorch alone")
def test_predictions_follow_weights_in_other_memory(make_classifier):
    classifier = make_classifier(exits=True)
    for _ in range(3):
        before = classifier.predict(TEXTS, verbose=0)
        classifier.predict(TEXTS, threshold=0.999, verbose=0)
    # As PyTorch's `vector_to_parameters` does, and many programs that average weights.
    for variable in classifier.trainable_variables:
        variable.value.data = variable.value.data * 2
    (ids,) = preprocess_batch(classifier, "prediction", TEXTS)
    expected = keras.ops.convert_to_numpy(classifier(ids, training=False))
    assert np.abs(expected - before).max() > 1e-3
    for rule in ({}, {"threshold": 0.999}):
        found = classifier.predict(TEXTS, verbose=0, **rule)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    classifier.set_weights([weight / 2 for weight in classifier.get_weights()])
    np.testing.assert_allclose(classifier.predict(TEXTS, verbose=0), before, atol=1e-5)


@pytest.mark.parametrize("name", ["classifier", "token_classifier"])
def test_callbacks(name, make_classifier, toy_proto, toy):
    make, x, _ = cases(make_classifier, toy_proto, toy)[name]
    task, x = make(), x[:5]
    seen = []

    class Count(keras.callbacks.Callback):
        def on_predict_batch_end(self, batch, logs=None):
            seen.append((batch, len(logs["outputs"])))

    found = task.predict(x, batch_size=2, verbose=0, callbacks=[Count()])
    assert seen == [(0, 2), (1, 2), (2, 1)]
    expected = task.predict(x, batch_size=2, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)
