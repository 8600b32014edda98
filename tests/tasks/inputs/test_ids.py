"""Arrays of ids come to `keras.Model.fit` in the same form as texts."""

import keras
import numpy as np
import pytest

from keras_albert.tasks.inputs.batches import LengthBatches
from keras_albert.tasks.inputs.datasets import is_tf_dataset

SIZE = 8


@pytest.fixture
def given(monkeypatch):
    """What `keras.Model.fit` is called with."""
    calls = []

    def fit(model, **kwargs):
        calls.append(kwargs)

    monkeypatch.setattr(keras.Model, "fit", fit)
    return calls


def to_arrays(data):
    """Return the batches of a data set of the backend, after checks of its form."""
    if keras.config.backend() == "tensorflow":
        assert is_tf_dataset(data)
        assert data.options().autotune.enabled is False
        assert all(None in spec.shape for spec in data.element_spec[0].values())
        return list(data.as_numpy_iterator())
    assert isinstance(data, LengthBatches)
    return [data[index] for index in range(len(data))]


def rows_of(batches):
    """Return all rows in one order: their ids, targets and weights."""
    return sorted(
        (*row.tolist(), int(target), float(weight))
        for x, y, weights in batches
        for row, target, weight in zip(x["token_ids"], y, weights, strict=True)
    )


@pytest.mark.parametrize("shuffle", [True, False])
def test_fit_takes_ids_as_texts(make_classifier, toy, given, shuffle):
    texts, names = (values[:44] for values in toy)
    model = make_classifier(labels=("bad", "good"), sequence_length=16)
    weights = np.arange(len(texts), dtype="float32")
    for x in (texts, model.preprocessor(texts)):
        model.fit(
            *(x, names, SIZE),
            sample_weight=weights,
            validation_split=0.25,
            shuffle=shuffle,
        )
    of_texts, of_ids = given
    for name in ("x", "validation_data"):
        expected, found = (to_arrays(call[name]) for call in (of_texts, of_ids))
        assert sorted(len(y) for _, y, _ in found)[1:] == [SIZE] * (len(found) - 1)
        assert len(found) == len(expected)
        assert rows_of(found) == rows_of(expected)
    order = [weight for *_, part in to_arrays(of_ids["x"]) for weight in part]
    # Ids have one width, so that no order of lengths changes theirs.
    assert (order == sorted(order)) is not shuffle


def test_steps_of_ids(make_classifier, toy):
    model = make_classifier(labels=("bad", "good"), sequence_length=16)
    ids = model.preprocessor(toy[0][:20])
    with pytest.raises(ValueError, match="`steps=1` ends a data set early"):
        model.predict(ids, batch_size=SIZE, steps=1)
    with pytest.raises(ValueError, match="There are no examples"):
        model.fit({name: rows[:0] for name, rows in ids.items()}, [])
