"""A task with another number of layers than it was built with."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.data.batches import preprocess_batch
from keras_albert.utils.keras_internals import all_layers
from tests.one_backend import on_one_backend_except
from tests.tasks.every_task import CLASSES, cases
from tests.tasks.task_checks import assert_same

pytestmark = on_one_backend_except(
    "test_predict_and_evaluate_run_fewer_layers",
    "test_threads_at_different_depths",
    "test_a_depth_is_of_one_model",
    "test_a_view_is_kept_until_the_model_changes",
    "test_a_view_follows_the_weights_and_keeps_its_function",
    "test_a_view_of_every_task[conditional]",
    "test_a_view_of_every_task[pretrainer]",
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


def test_a_view_is_kept_until_the_model_changes(make_classifier):
    classifier = make_classifier()
    view, deeper = classifier.with_num_layers(1), classifier.with_num_layers(2)
    assert deeper is classifier is classifier.with_num_layers(None)
    assert view.with_num_layers(2) is classifier
    at(classifier, 1)
    function = view.predict_function
    at(classifier, 1)
    assert view.predict_function is function
    # Its attributes are those of the moment.
    classifier.labels = ("a", "b")
    assert classifier.with_num_layers(1) is view is view.with_num_layers(1)
    assert view.labels == classifier.labels
    for change in (lambda: classifier.quantize("int8"), classifier.compile):
        change()
        assert classifier.with_num_layers(1) is not view
        view = classifier.with_num_layers(1)
        assert view.optimizer is classifier.optimizer


def test_a_view_follows_the_weights_and_keeps_its_function(make_classifier):
    classifier = make_classifier()
    classifier.set_weights([2 * weight for weight in classifier.get_weights()])
    at(classifier, 1)
    classifier.evaluate(TEXTS, [0, 1, 0], num_layers=1, verbose=0)
    view = classifier.with_num_layers(1)
    kept = view.predict_function, view.test_function
    weights, before = classifier.get_weights(), at(classifier, 1)
    classifier.train_on_batch(TEXTS, [0, 1, 0])
    after = at(classifier, 1)
    np.testing.assert_allclose(after, rebuilt(classifier, 1), atol=1e-5)
    assert np.abs(after - before).max() > 1e-6
    classifier.set_weights(weights)
    np.testing.assert_allclose(at(classifier, 1), before, atol=1e-6)
    classifier.evaluate(TEXTS, [0, 1, 0], num_layers=1, verbose=0)
    assert (view.predict_function, view.test_function) == kept


@pytest.mark.parametrize("name", CLASSES)
def test_a_view_of_every_task(name, make_classifier, toy_proto, toy):
    make, x, y = cases(make_classifier, toy_proto, toy)[name]
    task = make()
    names = [layer.name for layer in all_layers(task)]
    view, copy = task.with_num_layers(1), rebuild(task, 1)
    expected = copy.predict(x, verbose=0)
    for found in (view.predict(x, verbose=0), task.predict(x, num_layers=1, verbose=0)):
        assert_same(found, expected)
    scores = task.evaluate(x, y, num_layers=1, verbose=0)
    expected = copy.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    # It belongs to none of them.
    assert [layer.name for layer in all_layers(task)] == names
    assert all(a is b for a, b in zip(task.variables, view.variables, strict=True))


def test_a_depth_is_of_one_model(make_classifier):
    """Not of what an outer model calls after it."""
    classifier, other = make_classifier(), make_classifier().backbone
    (ids,) = preprocess_batch(classifier, "prediction", TEXTS)
    expected = at(classifier, 1), other.predict(ids, verbose=0)["pooled_output"]
    inputs = {name: keras.Input((None,), name=name, dtype="int32") for name in ids}
    view = classifier.with_num_layers(1)
    outer = keras.Model(inputs, [view(inputs), other(inputs)["pooled_output"]])
    for one, two in zip(outer.predict(ids, verbose=0), expected, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_a_view_is_saved_and_exported_at_its_depth(make_classifier, tmp_path):
    classifier = make_classifier(exits=True)
    expected, files = at(classifier, 1), []
    view = classifier.with_num_layers(1)
    view.save_to_preset(tmp_path / "view")
    view.save(tmp_path / "view.keras")
    for loaded in (
        AlbertClassifier.from_preset(tmp_path / "view"),
        keras.saving.load_model(tmp_path / "view.keras"),
    ):
        assert loaded.backbone.num_layers == 1
        np.testing.assert_allclose(
            loaded.predict(TEXTS, verbose=0), expected, atol=1e-6
        )
    # A view leaves no trace in the files of its task.
    for task in (classifier, make_classifier(exits=True)):
        task.save_to_preset(tmp_path / "task")
        folder = tmp_path / "task"
        files.append({path.name: path.stat().st_size for path in folder.iterdir()})
    assert files[0].keys() == files[1].keys()
    for name in ("task.weights.h5", "model.weights.h5"):
        assert files[0][name] == files[1][name]


def test_a_step_of_one_instance_is_refused(make_classifier):
    classifier = make_classifier()
    step = classifier.predict_step
    classifier.predict_step = lambda *data: step(*data)  # noqa: PLW0108
    with pytest.raises(ValueError, match="`predict_step` of this AlbertClassifier"):
        at(classifier, 1)


class Paused(AlbertClassifier):
    """A classifier whose step waits at one depth."""

    def __init__(self, *args, **kwargs):
        self.depth, self.is_waiting, self.goes_on = (
            0,
            threading.Event(),
            threading.Event(),
        )
        super().__init__(*args, **kwargs)

    def predict_step(self, *args):
        if self.backbone.num_layers == self.depth:
            self.is_waiting.set()
            assert self.goes_on.wait(300)
        return super().predict_step(*args)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_prediction_at_one_depth_changes_nothing_at_another(depth, make_classifier):
    made = make_classifier()
    made.set_weights([4 * weight for weight in made.get_weights()])
    other = 3 - depth

    def all_of(task, num_layers):
        (ids,) = preprocess_batch(task, "prediction", TEXTS)
        view = task.with_num_layers(num_layers)
        found = [at(task, num_layers), keras.ops.convert_to_numpy(view(ids))]
        # On JAX they take the weights from a prediction that has begun.
        if keras.config.backend() != "jax":
            found += [task.evaluate(TEXTS, [0, 1, 0], num_layers=num_layers, verbose=0)]
            found += [view.train_on_batch(TEXTS, [0, 1, 0]), *task.get_weights()]
        return found

    paused = Paused(made.backbone, 2, made.preprocessor, dropout=0.0)
    paused.set_weights(made.get_weights())
    paused.depth = depth
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(at, paused, depth)
        assert paused.is_waiting.wait(300)
        try:
            # It waited for ever.
            found = pool.submit(all_of, paused, other).result(timeout=300)
        finally:
            paused.goes_on.set()
        waiting.result()
    same = make_classifier()
    same.set_weights([4 * weight for weight in same.get_weights()])
    for one, two in zip(found, all_of(same, other), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)
