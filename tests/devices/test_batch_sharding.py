from concurrent.futures import ThreadPoolExecutor
from functools import partial

import keras
import numpy as np
import pytest

from keras_albert.data.batches import make_batches
from keras_albert.data.tables import RawData
from keras_albert.devices.batch_sharding import (
    MASKED_TOKENS,
    build_metrics,
    weigh_processes,
)
from keras_albert.text import train_vocabulary
from tests.tasks.small_models import small_embedder, small_tagger, toy_pairs, toy_tags

TASKS = {
    "embedder": (small_embedder, toy_pairs),
    "tagger": (partial(small_tagger, labels=["B-place", "O"]), toy_tags),
}


@pytest.mark.parametrize("name", TASKS)
def test_there_are_the_variables_that_fit_would_make(name):
    make, data = TASKS[name]
    x, y = data(12)
    texts = [str(each) for column in x for each in column]
    task = make(train_vocabulary(texts, vocabulary_size=40, hard_vocab_limit=False))
    task.compile("sgd")
    batches = make_batches(task, RawData(x, y), 4, "training")
    build_metrics(task, batches[0])
    built = [(v.path, tuple(v.shape)) for v in task.metrics_variables]
    assert built
    assert not any(keras.ops.any(variable != 0) for variable in task.metrics_variables)
    keras.Model.train_on_batch(task, *batches[0])
    trained = [(v.path, tuple(v.shape)) for v in task.metrics_variables]
    assert trained == built


def test_jax_predicts_only_between_runs(make_classifier):
    """Other backends predict with the weights of the moment."""
    classifier, found = make_classifier(exits=True), []
    ids = classifier.preprocessor(["rain"])
    calls = [
        lambda: classifier(ids),
        lambda: classifier.backbone(ids),
        lambda: classifier.classify("rain"),
        lambda: classifier.classify("rain", num_layers=1),
        lambda: classifier.classify("rain", threshold=0.9),
        lambda: classifier.evaluate(["rain"], [0], verbose=0),
    ]

    def outcome(call):
        try:
            return call()
        except RuntimeError as error:
            return str(error)

    class Ask(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            with ThreadPoolExecutor(1) as pool:
                found.extend(pool.map(outcome, calls[:-1]))
            if keras.config.backend() == "jax":
                found.append(outcome(calls[-1]))
                self.model.jax_state_sync()
                found.extend(map(outcome, calls[:-1]))

    classifier.fit(["rain", "a lamp"], [0, 1], callbacks=[Ask()], verbose=0)
    errors = [
        isinstance(each, str) and "a model has no weights" in each for each in found
    ]
    assert errors == ([True] * 6 + [False] * 5 if len(found) > 5 else [False] * 5)
    assert all(not isinstance(outcome(call), str) for call in calls)


def test_one_thread_trains_at_a_time(make_classifier, tmp_path):
    """Two would count in the same metrics; a callback may evaluate."""
    classifier, data, found = make_classifier(), (["rain", "a lamp"], [0, 1]), []
    calls = [
        lambda: classifier.fit(*data, verbose=0),
        lambda: classifier.evaluate(*data, verbose=0),
        lambda: classifier.train_on_batch(*data),
    ]

    def outcome(call):
        with pytest.raises(RuntimeError, match="Another thread trains or evaluates"):
            call()
        return True

    class Ask(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if keras.config.backend() == "jax":
                with pytest.raises(RuntimeError, match="a model has no weights"):
                    classifier.save_to_preset(tmp_path / "preset")
            with ThreadPoolExecutor(1) as pool:
                found.extend(pool.map(outcome, calls))

    classifier.fit(*data, callbacks=[Ask()], verbose=0)
    assert found == [True] * 3
    assert not list(tmp_path.iterdir())
    with ThreadPoolExecutor(1) as pool:
        pool.submit(calls[1]).result()


@pytest.mark.parametrize("named", [True, False])
def test_weights_of_parts_are_normalized_over_all(named):
    # Two parts of two rows, as JAX has those of all processes in one array.
    weights, order = np.ones((4, 3), "float32"), np.ones(4, "float32")
    x = {"token_ids": np.zeros((4, 5), "int32")}
    counts = np.array([3, 3, 1, 1], "float32")
    given = {"masked_lm": weights, "sentence_order": order} if named else weights
    batch = [x | {MASKED_TOKENS: counts}, weights, given]
    found, _, scaled = weigh_processes(batch)
    assert set(found) == set(x)
    masked = scaled["masked_lm"] if named else scaled
    masked = keras.ops.convert_to_numpy(masked)
    np.testing.assert_allclose(masked, weights * counts[:, None] / 2)
    assert not named or scaled["sentence_order"] is order
    # What is whole stays as it is.
    whole = (x, weights, given)
    assert weigh_processes(whole) is whole
    assert weigh_processes(x) is x
