"""Whether texts share rows changes no loss, gradient or prediction of any task."""

import keras
import numpy as np
import pytest

from keras_albert.data.batches import (
    PackedBatches,
    make_batches,
    pack_sequences,
    packed_shape,
    preprocess_batch,
)
from keras_albert.data.datasets import backend_dataset
from keras_albert.data.tables import RawData
from keras_albert.devices.batch_sharding import build_metrics
from keras_albert.text.packing import PackedShape
from tests.one_backend import on_one_backend_except
from tests.random_weights import add_noise
from tests.tasks.every_task import cases
from tests.tasks.task_checks import as_numpy, assert_same

pytestmark = on_one_backend_except(
    "test_losses_gradients_and_predictions[pairs]",
    "test_losses_gradients_and_predictions[pretrainer]",
    "test_data_sets_of_texts",
)

# The conditional head chooses among nearly equal starts.
NAMES = [name for name in cases() if name != "conditional"]


class OneBatch(keras.utils.PyDataset):
    """A data set of one batch of arrays."""

    def __init__(self, batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return self.batch


def weights_of(task):
    return [as_numpy(variable) for variable in task.trainable_variables]


def train(task, batch):
    """Return the loss of a batch, and what a step of SGD subtracts."""
    before = weights_of(task)
    task.compile(optimizer=keras.optimizers.SGD(1.0))
    build_metrics(task, batch)
    history = keras.Model.fit(
        task, backend_dataset(OneBatch(batch)), verbose=0, shuffle=False
    )
    pairs = zip(before, weights_of(task), strict=True)
    return history.history["loss"][0], [old - new for old, new in pairs]


@pytest.mark.parametrize("name", [*NAMES, "several labels"])
def test_losses_gradients_and_predictions(name, make_classifier, toy_proto, toy):
    labels = {"activation": "sigmoid", "labels": ["bad", "good"]}
    several = lambda: make_classifier(**labels), toy[0][:12], [[x] for x in toy[1][:12]]
    by_name = cases(make_classifier, toy_proto, toy) | {"several labels": several}
    make, x, y = by_name[name]
    task = make()
    weights = [np.array(weight) for weight in add_noise(task, 0.1).get_weights()]
    expected = task.predict(x, batch_size=4, verbose=0)
    count = len(x[0] if isinstance(x, tuple) else x)
    sample_weight = np.linspace(0.5, 2, count).astype("float32")
    losses = [task.evaluate(x, y, batch_size=64, verbose=0)]
    batch = preprocess_batch(task, "training", x, y, sample_weight)
    alone = train(task, batch)

    task.set_weights(weights)
    task.preprocessor.pack_sequences = True
    batches = make_batches(task, RawData(x), 4, "prediction")
    assert isinstance(batches, PackedBatches)
    assert_same(task.predict(x, batch_size=4, verbose=0), expected, atol=2e-5)
    losses.append(task.evaluate(x, y, batch_size=64, verbose=0))
    np.testing.assert_allclose(*losses, atol=2e-5, rtol=1e-5)
    shape = PackedShape(hidden_dim=512)
    # Texts stand beside each other.
    shape.width = 64
    shared = train(task, pack_sequences(batch, shape))
    ((texts, rows),) = shape.rows.items()
    assert rows < texts
    np.testing.assert_allclose(shared[0], alone[0], atol=2e-5, rtol=1e-5)
    for one, other in zip(shared[1], alone[1], strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=1e-4)


def test_data_sets_of_texts(make_classifier, toy):
    import tensorflow as tf

    texts, labels = toy[0][:24], [int(label == "bad") for label in toy[1][:24]]
    weights = np.linspace(0, 2, 24).astype("float32")
    dataset = tf.data.Dataset.from_tensor_slices((texts, labels, weights)).batch(10)
    histories, scores, outputs = [], [], []
    for share in (False, True):
        task = make_classifier(sequence_length=16)
        task.compile(optimizer=keras.optimizers.SGD(0.1))
        task.preprocessor.pack_sequences = share
        history = task.fit(dataset, epochs=2, validation_data=dataset, verbose=0)
        histories.append([history.history[name] for name in ("loss", "val_loss")])
        scores.append(task.evaluate(dataset, verbose=0))
        only_texts = dataset.map(lambda x, *_: x)
        outputs.append(task.predict(only_texts, verbose=0))
    np.testing.assert_allclose(*histories, atol=2e-5)
    np.testing.assert_allclose(*scores, atol=2e-5)
    np.testing.assert_allclose(*outputs, atol=2e-5)


def test_all_epochs_have_one_shape(make_classifier, toy):
    task = make_classifier(sequence_length=32)
    task.preprocessor.pack_sequences = True
    batches = make_batches(task, RawData(*toy), 16, "training", shuffle=True)
    tokens = batches.examples.lengths.sum()
    shapes = set()
    for _ in range(5):
        seen = []
        for index in range(len(batches)):
            x, y = batches[index]
            shapes.add(tuple((name, array.shape) for name, array in sorted(x.items())))
            seen += batches.plan[index].tolist()
            wanted = task.encode_targets(toy[1])[batches.plan[index]]
            np.testing.assert_array_equal(y, wanted)
        assert sorted(seen) == list(range(len(toy[0])))
        batches.on_epoch_end()
    assert len(shapes) == 1
    rows, width = dict(shapes.pop())["row_tokens"]
    share = len(batches) * rows * width / tokens
    assert share == pytest.approx(batches.positions_per_token())
    assert share <= 1.1
    # The same batches for a run that is resumed.
    again = batches.of_epoch(batches.epoch)
    assert_same(again[3], batches[3])


def test_early_exits_and_shared_rows(make_classifier, toy):
    task = make_classifier(exits=True)
    texts, rule = toy[0][:40], {"threshold": 0.6, "batch_size": 16}
    expected = task.predict(texts, **rule, verbose=0)
    task.preprocessor.pack_sequences = True
    assert_same(task.predict(texts, **rule, verbose=0), expected)


def test_devices_that_share_batches(make_classifier, toy):
    task = make_classifier()
    assert packed_shape(task) is None
    task.preprocessor.pack_sequences = True
    assert packed_shape(task) is not None
    task.strategy = object()
    with pytest.raises(ValueError, match=r"several.*pack_sequences = False"):
        task.evaluate(*toy)
