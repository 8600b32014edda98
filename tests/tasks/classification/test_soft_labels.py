"""Probabilities as targets: a teacher's predictions, or smoothed labels."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_classes_are_probabilities_of_one")

TEXTS = ["lamps bread lamps", "rain storm rain", "books and letters"] * 6
NAMES = ["light", "wet", "both"] * 6


def compiled(make_classifier, loss, **arguments):
    classifier = make_classifier(
        num_classes=3, labels=("both", "light", "wet"), **arguments
    )
    classifier.compile(loss=loss, learning_rate=4e-3)
    return classifier


def test_a_student_learns_what_its_teacher_predicts(make_classifier):
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    student = compiled(make_classifier, loss)
    # A teacher that is sure of nothing.
    teacher = np.tile([[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.5, 0.3, 0.2]], (6, 1))
    history = student.fit(TEXTS, teacher, epochs=120, batch_size=6, verbose=0)
    assert set(history.history) == {"loss", "accuracy"}
    learned = student.probabilities(student.predict(TEXTS, verbose=0))
    np.testing.assert_allclose(learned, teacher, atol=0.1)
    assert student.evaluate(TEXTS, teacher, verbose=0, return_dict=True)[
        "accuracy"
    ] == pytest.approx(1)
    assert student.classify(TEXTS[1])["label"] == "wet"


def test_classes_are_probabilities_of_one(make_classifier):
    """The loss and its gradient are those of the class numbers."""
    found = {}
    for loss in (
        keras.losses.CategoricalCrossentropy(from_logits=True),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ):
        keras.utils.set_random_seed(0)
        model = compiled(make_classifier, loss, dropout=0.0)
        arguments = {"shuffle": False, "verbose": 0}
        one = model.fit(TEXTS, NAMES, class_weight={"wet": 3.0}, **arguments)
        two = model.fit(TEXTS, NAMES, sample_weight=np.arange(18) / 9, **arguments)
        found[type(loss).__name__] = [*one.history["loss"], *two.history["loss"]]
    one, other = found.values()
    np.testing.assert_allclose(one, other, atol=2e-5)


def test_batches_of_tensorflow(make_classifier):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model = compiled(make_classifier, loss)
    teacher = np.tile(np.float32([[0.2, 0.7, 0.1]]), (18, 1))
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, teacher)).batch(8)
    scores = model.evaluate(dataset, verbose=0, return_dict=True)
    expected = model.evaluate(TEXTS, teacher, verbose=0, return_dict=True)
    assert scores["loss"] == pytest.approx(expected["loss"], abs=1e-4)


def test_it_is_saved(make_classifier, tmp_path):
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    model = compiled(make_classifier, loss)
    model.fit(TEXTS, NAMES, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.target_dtype == "float32"
    teacher = np.tile(np.float32([[0.2, 0.7, 0.1]]), (18, 1))
    assert loaded.evaluate(TEXTS, teacher, verbose=0)[0] == pytest.approx(
        model.evaluate(TEXTS, teacher, verbose=0)[0], abs=1e-4
    )
    model.save_to_preset(tmp_path / "preset")
    # As with other losses, a preset does not contain how it was trained.
    preset = AlbertClassifier.from_preset(tmp_path / "preset")
    assert preset.target_dtype == "int32"


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([[0.5, 0.5, 0.0], [0.5, 0.6, 0.1]], r"Row 1 .*sum to 1.*1 such row"),
        ([[1.5, -0.5, 0.0]], "Row 0 .*at least 0"),
        ([[np.nan, 0.5, 0.5]], "Row 0"),
        ([[0.5, 0.5]], r"Received: \[\[0.5, 0.5\]\]. For one-hot"),
        (["dry"], "Row 0 has the label 'dry'"),
    ],
)
def test_invalid_targets(make_classifier, targets, message):
    model = compiled(make_classifier, "categorical_crossentropy")
    with pytest.raises(ValueError, match=message):
        model.fit(TEXTS[: len(targets)], targets, verbose=0)


def test_probabilities_need_a_loss_of_them(make_classifier):
    model = make_classifier(num_classes=3, labels=("both", "light", "wet"))
    with pytest.raises(ValueError, match="CategoricalCrossentropy"):
        model.fit(TEXTS[:1], [[0.5, 0.5, 0.0]], verbose=0)
