"""What a batch is for decides how it is preprocessed, whatever it comes in."""

import keras
import pytest

from tests.data.test_datasets import FORMS, SIZE, batches_of
from tests.one_backend import on_one_backend_except
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm, make_pretrainer
from tests.tasks.task_checks import assert_same

# Longest first, so that lists come in the same batches.
DIFFERENT = [
    "the old [MASK] by the sea of the small town",
    "[MASK] [MASK] and the [MASK] on the hill by",
    "lamps and bread in the town by the river",
    "the storm was on the [MASK] and the hill",
    "it was a small river",
    "rain was on the sea",
    "a [MASK] town",
    "the sea",
]
TEXTS = [text for text in DIFFERENT for _ in range(2)]
PAIRS = (TEXTS, TEXTS[::-1])

# Keras says it of every generator that ends.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning"),
    on_one_backend_except(
        "test_data_sets_are_read_as_lists_are[tf_data-masked_lm]",
        "test_data_sets_are_read_as_lists_are[data_loader-pretrainer]",
        "test_single_batches_are_read_as_lists_are[pretrainer]",
        "test_slots_differ_from_batch_to_batch",
    ),
]


forms = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def tasks(toy_proto):
    """To read, not to change."""
    return {
        "masked_lm": (make_masked_lm(toy_proto, sequence_length=32), TEXTS),
        "pretrainer": (make_pretrainer(toy_proto, sequence_length=32), PAIRS),
    }


@pytest.mark.parametrize("name", ["masked_lm", "pretrainer"])
@forms
def test_data_sets_are_read_as_lists_are(tasks, name, form):
    task, x = tasks[name]
    data = FORMS[form]
    assert_same(task.predict(data(x), verbose=0), task.predict(x, verbose=0))
    expected = task.evaluate(x, batch_size=SIZE, verbose=0)
    assert_same(task.evaluate(data(x), verbose=0), expected)
    with pytest.raises(ValueError, match=r"a data set of `\(\(first, second\),\)`"):
        task.evaluate(data(TEXTS, TEXTS), verbose=0)


@pytest.mark.parametrize("name", ["masked_lm", "pretrainer"])
def test_single_batches_are_read_as_lists_are(tasks, name):
    task, x = tasks[name]
    assert_same(task.predict_on_batch(x), task.predict(x, verbose=0))
    assert_same(task.test_on_batch(x), task.evaluate(x, verbose=0))
    assert_same(task.test_on_batch(x), task.test_on_batch(x))


def test_evaluation_does_not_depend_on_the_batches(tasks):
    task, _ = tasks["masked_lm"]
    accuracies = [
        task.evaluate(x, batch_size=size, verbose=0)[1]
        for x, size in ((TEXTS, 8), (TEXTS[::-1], 4), (TEXTS, 1))
    ]
    assert accuracies[1:] == pytest.approx(accuracies[:1] * 2, abs=1e-6)


def test_slots_differ_from_batch_to_batch(tasks):
    task, _ = tasks["masked_lm"]
    single, several = DIFFERENT[:1], DIFFERENT[1:2]
    outputs = task.predict(iter([single, several]), verbose=0)
    assert outputs.shape[:2] == (2, 4)
    assert_same(outputs, task.predict(single + several, verbose=0))
    # Nothing stands in slots that have no mask.
    assert not outputs[0, 1:].any()
    assert not outputs[1, 3].any()
    assert outputs[0, 0].any()
    first = task.predict(iter([single, several]), steps=1, verbose=0)
    assert_same(first, outputs[:1, :1])


def test_preprocessed_batches_beside_a_preprocessor(tasks, trained):
    for name in ("masked_lm", "pretrainer"):
        task, x = tasks[name]
        ids = task.preprocessor(x)
        expected = task.evaluate(ids[0], ids[1], sample_weight=ids[2], verbose=0)
        assert_same(task.evaluate(iter([ids]), verbose=0), expected)
        with pytest.raises(ValueError, match="A loss needs targets"):
            task.evaluate(ids[0], verbose=0)
        with pytest.raises(ValueError, match="A loss needs targets"):
            task.evaluate(iter([ids[0]]), verbose=0)
    for method in (trained.train_on_batch, trained.test_on_batch):
        with pytest.raises(ValueError, match="A loss needs targets"):
            method(TEXTS)


def test_the_end_of_a_data_set_counts_for_nothing(toy_proto):
    task = make_pretrainer(toy_proto, sequence_length=32, seed=1)
    task.compile(keras.optimizers.SGD(0.0))
    # Of unknown length, so that a step has to fail to find the end.
    task.fit(batches_of(PAIRS), verbose=0)
    assert int(task.optimizer.iterations) == 2
    expected = task.evaluate(PAIRS, batch_size=SIZE, verbose=0)
    assert_same(task.evaluate(batches_of(PAIRS), verbose=0), expected)
