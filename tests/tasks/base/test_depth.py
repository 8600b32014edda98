"""A task with another number of layers than it was built with."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.utils.keras_internals import all_layers
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm

TEXTS = ["the old lamps", "a storm", "bread by the hill"]


def at(task, num_layers):
    return task.predict(TEXTS, num_layers=num_layers, verbose=0)


def rebuilt(task, num_layers):
    """The outputs of a model with these weights that was built at a depth."""
    config = task.get_config() | {"preprocessor": None}
    config["backbone"]["config"]["num_layers"] = num_layers
    copy = type(task).from_config(config)
    copy.set_weights(task.get_weights())
    copy.preprocessor = task.preprocessor
    return copy.predict(TEXTS, verbose=0)


def test_predict_and_evaluate_run_fewer_layers(make_classifier):
    classifier = make_classifier()
    classifier.set_weights([4 * weight for weight in classifier.get_weights()])
    whole = classifier.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(at(classifier, 1), rebuilt(classifier, 1), atol=1e-5)
    assert np.abs(at(classifier, 1) - whole).max() > 1e-3
    np.testing.assert_allclose(at(classifier, 2), whole, atol=1e-6)
    losses = [
        classifier.evaluate(TEXTS, [0, 1, 0], num_layers=n, verbose=0)[0]
        for n in (1, 2, None)
    ]
    assert losses[0] != pytest.approx(losses[1])
    assert losses[1] == losses[2]
    np.testing.assert_allclose(classifier.predict(TEXTS, verbose=0), whole, atol=1e-6)


def depth_warnings(call):
    """The result of a call, and its warnings of depth."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    texts = [str(warning.message) for warning in caught]
    return result, [text for text in texts if "is to run" in text]


def test_more_layers_warn(make_classifier, tmp_path):
    classifier = make_classifier()
    deeper, (warning,) = depth_warnings(lambda: at(classifier, 3))
    assert "trained with 2 layers, and is to run 3" in warning
    np.testing.assert_allclose(deeper, rebuilt(classifier, 3), atol=1e-5)
    classifier.save_to_preset(tmp_path / "own")
    classifier.export_to_transformers(tmp_path / "transformers")
    for name in ("own", "transformers"):
        for cls in (AlbertBackbone, AlbertClassifier):
            for num_layers in (1, 2, 3):
                loaded, warned = depth_warnings(
                    lambda: cls.from_preset(tmp_path / name, num_layers=num_layers)  # noqa: B023
                )
                assert getattr(loaded, "backbone", loaded).num_layers == num_layers
                assert len(warned) == (num_layers > 2)


def test_a_change_of_the_model_that_another_depth_sees_first(make_classifier):
    classifier = make_classifier()
    before = classifier.predict(TEXTS, verbose=0)
    classifier.backbone.enable_lora(rank=2)
    for layer in all_layers(classifier.backbone):
        if getattr(layer, "lora_enabled", False):
            kernel = layer.lora_kernel_b
            kernel.assign(np.full(kernel.shape, 0.3))
    at(classifier, 1)
    after = classifier.predict(TEXTS, verbose=0)
    assert np.abs(after - before).max() > 1e-4


def test_threads_at_different_depths(make_classifier):
    classifier = make_classifier()
    classifier.set_weights([4 * weight for weight in classifier.get_weights()])
    expected = {n: at(classifier, n) for n in (1, 2)}
    depths = [1, 2, 2] * 16
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: at(classifier, n), depths))
    for depth, outputs in zip(depths, found, strict=True):
        np.testing.assert_allclose(outputs, expected[depth], atol=1e-5)


@pytest.mark.parametrize("num_layers", [0, -1, 1.5, "2", True])
def test_no_such_depth(make_classifier, num_layers, tmp_path):
    classifier = make_classifier()
    classifier.save_to_preset(tmp_path / "own")
    for call in (
        lambda: at(classifier, num_layers),
        lambda: classifier.evaluate(TEXTS, [0, 1, 0], num_layers=num_layers),
        lambda: AlbertClassifier.from_preset(tmp_path / "own", num_layers=num_layers),
    ):
        with pytest.raises(ValueError, match="`num_layers` must be a whole number"):
            call()


def test_fewer_layers_than_groups(make_classifier):
    backbone = AlbertBackbone(40, 4, 2, 4, 8, 16, num_groups=2)
    preprocessor = make_classifier().preprocessor
    classifier = AlbertClassifier(backbone, 2, preprocessor)
    with pytest.raises(ValueError, match="2 groups"):
        at(classifier, 1)


def test_an_error_leaves_the_depth(make_classifier):
    classifier = make_classifier()
    whole = classifier.predict(TEXTS, verbose=0)
    with pytest.raises(ValueError, match="row"):
        classifier.predict([None], num_layers=1, verbose=0)
    np.testing.assert_allclose(classifier.predict(TEXTS, verbose=0), whole, atol=1e-6)


def test_the_function_of_a_depth_is_kept_until_the_model_changes(make_classifier):
    classifier = make_classifier()
    at(classifier, 1)
    default, kept = classifier.functions_at_depth["predict_function", 1]
    assert default is classifier.predict_function
    at(classifier, 1)
    assert classifier.functions_at_depth["predict_function", 1][1] is kept
    classifier.quantize("int8")
    at(classifier, 1)
    assert classifier.functions_at_depth["predict_function", 1][1] is not kept


def test_outputs_of_rows(toy_proto):
    masked_lm = make_masked_lm(toy_proto)
    texts = [f"{text} [MASK]" for text in TEXTS]
    one = masked_lm.predict(texts, num_layers=1, verbose=0)
    whole = masked_lm.predict(texts, verbose=0)
    assert one.shape == whole.shape
    assert np.abs(one - whole).max() > 1e-4
