"""Tasks that were built with `compile=False`, as KerasHub's tests build them."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier


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
