"""A task with another number of layers than it was built with."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from tests.one_backend import on_one_backend_except
from tests.tasks.every_task import CLASSES, cases
from tests.tasks.task_checks import assert_same

pytestmark = on_one_backend_except(
    "test_predict_and_evaluate_run_fewer_layers",
    "test_threads_at_different_depths",
    "test_a_depth_follows_the_weights",
    "test_a_users_step_runs_at_one_depth",
    "test_every_task[conditional]",
    "test_every_task[pretrainer]",
)

TEXTS = ["the old lamps", "a storm", "bread by the hill"]


def at(task, num_layers):
    return task.predict(TEXTS, num_layers=num_layers, verbose=0)


def rebuild(task, num_layers):
    """A model with these weights that was built at a depth."""
    config = task.get_config() | {"preprocessor": None}
    config["backbone"]["config"]["num_layers"] = num_layers
    copy = type(task).from_config(config)
    copy.set_weights(task.get_weights())
    copy.preprocessor = task.preprocessor
    return copy


def rebuilt(task, num_layers):
    return rebuild(task, num_layers).predict(TEXTS, verbose=0)


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
    return result, [text for text in texts if "and will run" in text]


def test_more_layers_warn(make_classifier, tmp_path):
    classifier = make_classifier()
    deeper, (warning,) = depth_warnings(lambda: at(classifier, 3))
    assert "trained with 2 layers and will run 3" in warning
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


def test_numbers_of_layers_are_bounded(make_classifier):
    classifier = make_classifier(exits=True)
    sizes = (40, 2, 2, 4, 8, 16)
    for call in (
        lambda: make_classifier().predict(TEXTS, num_layers=10**9),
        lambda: AlbertBackbone(40, 10**9, *sizes[2:]),
        lambda: AlbertBackbone(*sizes, num_inner_repetitions=10**9),
        lambda: AlbertClassifier(classifier.backbone, 2, exits=10**6),
    ):
        with pytest.raises(ValueError, match="must be at most 1000"):
            call()


def test_fewer_layers_than_groups(make_classifier):
    backbone = AlbertBackbone(40, 4, 2, 4, 8, 16, num_groups=2)
    preprocessor = make_classifier().preprocessor
    classifier = AlbertClassifier(backbone, 2, preprocessor)
    with pytest.raises(ValueError, match="num_layers=1, num_groups=2"):
        at(classifier, 1)


def test_a_depth_follows_the_weights(make_classifier):
    classifier = make_classifier()
    classifier.set_weights([2 * weight for weight in classifier.get_weights()])
    weights, before = classifier.get_weights(), at(classifier, 1)
    loss = classifier.evaluate(TEXTS, [0, 1, 0], num_layers=1, verbose=0)[0]
    classifier.train_on_batch(TEXTS, [0, 1, 0])
    after = at(classifier, 1)
    np.testing.assert_allclose(after, rebuilt(classifier, 1), atol=1e-5)
    assert np.abs(after - before).max() > 1e-6
    classifier.set_weights(weights)
    np.testing.assert_allclose(at(classifier, 1), before, atol=1e-6)
    again = classifier.evaluate(TEXTS, [0, 1, 0], num_layers=1, verbose=0)[0]
    assert again == pytest.approx(loss)


@pytest.mark.parametrize("name", CLASSES)
def test_every_task(name, make_classifier, toy_proto, toy):
    make, x, y = cases(make_classifier, toy_proto, toy)[name]
    task = make()
    copy = rebuild(task, 1)
    found = task.predict(x, num_layers=1, verbose=0)
    assert_same(found, copy.predict(x, verbose=0))
    scores = task.evaluate(x, y, num_layers=1, verbose=0)
    expected = copy.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_a_users_step_runs_at_one_depth(make_classifier):
    class Doubled(AlbertClassifier):
        def predict_step(self, *args):
            found = super().predict_step(*args)
            return (2 * found[0], *found[1:]) if isinstance(found, tuple) else 2 * found

    made = make_classifier()
    classifier = Doubled(made.backbone, 2, made.preprocessor)
    classifier.set_weights(made.get_weights())
    expected = 2 * made.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(
        classifier.predict(TEXTS, verbose=0), expected, atol=1e-5
    )
    with pytest.raises(ValueError, match="Leave out `num_layers`"):
        at(classifier, 1)
