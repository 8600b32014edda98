import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier
from keras_albert.tasks.optimizers import default_learning_rate, default_optimizer
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


@pytest.fixture(scope="module")
def classifier(make_classifier):
    return make_classifier()


def rates(optimizer, steps):
    schedule = optimizer._learning_rate
    return [float(keras.ops.convert_to_numpy(schedule(step))) for step in steps]


def test_the_rate_warms_up_and_decays_to_zero():
    optimizer = default_optimizer(1e-3, 100)
    assert rates(optimizer, (0, 4, 9)) == pytest.approx([1e-4, 5e-4, 1e-3])
    falling = rates(optimizer, [*range(9, 100, 10), 100])
    assert falling == sorted(falling, reverse=True)
    assert falling[-1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_few_steps_have_a_schedule_as_well(steps):
    found = rates(default_optimizer(1e-3, steps), range(steps + 1))
    assert found[0] == pytest.approx(1e-3)
    assert found == sorted(found, reverse=True)
    assert found[-2] > 0
    assert found[-1] == pytest.approx(0, abs=1e-9)


def test_without_steps_the_rate_is_constant():
    optimizer = default_optimizer(1e-3, None)
    assert float(optimizer.learning_rate) == pytest.approx(1e-3)
    assert (optimizer.global_clipnorm, optimizer.weight_decay) == (1.0, 0.01)


def test_the_rate_falls_with_the_width_and_for_pretrained_weights():
    assert default_learning_rate(768, True) == pytest.approx(3.9e-5, rel=0.01)
    assert default_learning_rate(4096, True) < default_learning_rate(768, True)
    assert default_learning_rate(768, False) > default_learning_rate(768, True)
    assert default_learning_rate(256, True) == pytest.approx(3.5e-4, rel=0.01)
    assert default_learning_rate(2, True) == default_learning_rate(4, True) <= 1e-3


def test_biases_and_layer_norms_do_not_decay(classifier):
    optimizer = default_optimizer(1e-3, None)
    optimizer.build(classifier.trainable_variables)
    decays = {
        v.path: optimizer._use_weight_decay(v) for v in classifier.trainable_variables
    }
    assert len(decays) > 20
    for path, decay in decays.items():
        assert decay == (path.split("/")[-1] not in ("bias", "gamma", "beta")), path
    assert set(decays.values()) == {True, False}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"optimizer": "sgd", "learning_rate": 0.1}, ValueError, "optimizer 'auto'"),
        ({"learning_rate": 0.0}, ValueError, "above 0. Received: learning_rate=0.0"),
        ({"learning_rate": -1.0}, ValueError, "above 0. Received: learning_rate=-1.0"),
        ({"optimizer": "no such thing"}, ValueError, "no such thing"),
        ({"no_such_argument": 1}, TypeError, "no_such_argument"),
    ],
)
def test_compile_refuses(make_classifier, arguments, error, message):
    with pytest.raises(error, match=message):
        make_classifier().compile(**arguments)


def test_compile_takes_what_keras_takes(make_classifier, toy):
    classifier = make_classifier()
    classifier.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    assert isinstance(classifier.optimizer, keras.optimizers.SGD)
    optimizer = classifier.optimizer
    classifier.fit(toy[0][:32], toy[1][:32], verbose=0)
    assert classifier.optimizer is optimizer


def test_each_fit_starts_the_schedule_anew(make_classifier, toy):
    classifier = make_classifier()
    classifier.compile(learning_rate=1e-3)
    x, y = toy[0][:32], toy[1][:32]
    first = classifier.fit(x, y, batch_size=8, epochs=2, verbose=0)
    ended = classifier.optimizer
    assert int(ended.iterations) == 8
    assert rates(ended, [8]) == pytest.approx([0], abs=1e-9)
    second = classifier.fit(x, y, batch_size=8, epochs=1, verbose=0)
    assert int(classifier.optimizer.iterations) == 4
    # Metrics are counted once, however often `fit` compiled.
    assert sorted(first.history) == sorted(second.history) == ["accuracy", "loss"]
    assert len(classifier.evaluate(x, y, verbose=0)) == 2


def test_an_equal_fit_uses_the_same_step(make_classifier, toy):
    classifier = make_classifier()
    x, y = toy[0][:16], toy[1][:16]
    weights = classifier.get_weights()
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    first = classifier.fit(x, y, **options).history
    step = classifier.train_function
    classifier.set_weights(weights)
    # The moments of the first one would change it.
    again = classifier.fit(x, y, **options).history
    assert classifier.train_function is step
    assert again["loss"] == pytest.approx(first["loss"], rel=1e-5)
    classifier.fit(x, y, epochs=2, **options)
    assert classifier.train_function is not step


def test_weights_frozen_between_two_fits_stay(make_classifier, toy):
    classifier = make_classifier()
    data = toy[0][:16], toy[1][:16]
    classifier.fit(*data, batch_size=8, verbose=0)
    classifier.backbone.trainable = False
    before = classifier.backbone.get_weights()
    classifier.fit(*data, batch_size=8, verbose=0)
    np.testing.assert_equal(classifier.backbone.get_weights(), before)


def weights_moved(classifier, *fit, **kwargs):
    before = classifier.get_weights()
    classifier.fit(*fit, batch_size=8, verbose=0, **kwargs)
    pairs = zip(before, classifier.get_weights(), strict=True)
    return max(np.abs(new - old).max() for old, new in pairs)


@pytest.mark.parametrize("saved", [False, True])
def test_a_schedule_that_has_ended_is_extended(make_classifier, toy, tmp_path, saved):
    data = toy[0][:16], toy[1][:16]
    classifier = make_classifier()
    classifier.compile(learning_rate=1e-3)
    classifier.fit(*data, batch_size=8, epochs=2, verbose=0)
    if saved:
        classifier.save(tmp_path / "classifier.keras")
        classifier = keras.saving.load_model(tmp_path / "classifier.keras")
    going_on = classifier.optimizer
    assert weights_moved(classifier, *data, initial_epoch=2, epochs=4) > 1e-4
    # As if four epochs had been planned from the start.
    assert classifier.optimizer is going_on
    assert int(going_on.iterations) == 8
    planned = default_optimizer(1e-3, 8)
    assert rates(going_on, range(9)) == pytest.approx(rates(planned, range(9)))


def test_a_planned_epoch_keeps_the_schedule(make_classifier, toy):
    data = toy[0][:16], toy[1][:16]
    stop = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: setattr(stop.model, "stop_training", True)
    )
    whole, halved = make_classifier(), make_classifier()
    whole.fit(*data, batch_size=8, epochs=2, shuffle=False, verbose=0)
    halved.fit(
        *data, batch_size=8, epochs=2, shuffle=False, callbacks=[stop], verbose=0
    )
    schedule = halved.optimizer._learning_rate
    halved.fit(*data, batch_size=8, epochs=2, initial_epoch=1, shuffle=False, verbose=0)
    assert halved.optimizer._learning_rate is schedule
    for one, two in zip(whole.get_weights(), halved.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


def test_a_rest_without_a_plan_gets_one(make_classifier, toy):
    """A new optimizer has a constant rate; a callback sets none of a schedule."""
    data = toy[0][:16], toy[1][:16]
    classifier = make_classifier()
    assert weights_moved(classifier, *data, initial_epoch=2, epochs=4) > 1e-4
    assert rates(classifier.optimizer, [4]) == pytest.approx([0], abs=1e-9)
    plateau = keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=9)
    rest = {"initial_epoch": 4, "epochs": 6, "callbacks": [plateau]}
    assert weights_moved(classifier, *data, **rest) > 1e-4
    constant = classifier.optimizer
    assert weights_moved(classifier, *data, initial_epoch=6, epochs=7) > 1e-6
    assert classifier.optimizer is constant


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.LearningRateScheduler(lambda epoch: 1e-3 / (epoch + 1)),
        keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=9),
    ],
    ids=["scheduler", "plateau"],
)
def test_a_callback_may_set_the_rate(make_classifier, toy, callback):
    classifier = make_classifier()
    classifier.compile(learning_rate=1e-3)
    history = classifier.fit(
        toy[0][:16], toy[1][:16], epochs=3, callbacks=[callback], verbose=0
    )
    seen = history.history["learning_rate"]
    assert seen[0] == pytest.approx(1e-3)
    assert float(classifier.optimizer.learning_rate) < 9e-4


def test_fit_and_evaluate_ask_for_compile(make_classifier, toy):
    classifier = make_classifier(compile=False)
    x, y = toy[0][:4], toy[1][:4]
    assert not classifier.compiled
    for method in (classifier.fit, classifier.evaluate, classifier.train_on_batch):
        with pytest.raises(ValueError, match="You must call `compile"):
            method(x, y)
    assert classifier.predict(x, verbose=0).shape == (4, 2)
    classifier.compile(learning_rate=1e-3)
    assert np.isfinite(classifier.fit(x, y, verbose=0).history["loss"]).all()


def test_is_saved_and_loaded(make_classifier, toy, tmp_path):
    classifier = make_classifier(compile=False, labels=["bad", "good"])
    x = toy[0][:4]
    expected = classifier.predict(x, verbose=0)
    classifier.save_to_preset(tmp_path / "preset")
    loaded = AlbertClassifier.from_preset(tmp_path / "preset", compile=False)
    assert not loaded.compiled
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, atol=1e-6)
    with pytest.raises(ValueError, match="You must call `compile"):
        loaded.fit(x, toy[1][:4])
    loaded.save_to_preset(tmp_path / "again")
    assert AlbertClassifier.from_preset(tmp_path / "again").compiled
    loaded.save(tmp_path / "model.keras")
    for compiles in (True, False):
        again = keras.saving.load_model(tmp_path / "model.keras", compile=compiles)
        assert not again.compiled
        np.testing.assert_allclose(again.predict(x, verbose=0), expected, atol=1e-6)
    # A new head.
    new = AlbertClassifier.from_preset(
        tmp_path / "preset", num_classes=3, compile=False
    )
    assert new.predict(x, verbose=0).shape == (4, 3)
