from functools import partial

import keras
import pytest

from keras_albert.tasks.distribution.model_state import build_metrics
from keras_albert.tasks.inputs.model_input import read_model_input
from keras_albert.text import train_vocabulary
from tests.tasks.small_models import (
    small_embedder,
    small_tagger,
    toy_pairs,
    toy_tags,
)

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
    _, batches = read_model_input(task, x, y, batch_size=4, purpose="training")
    build_metrics(task, batches[0])
    built = [(v.path, tuple(v.shape)) for v in task.metrics_variables]
    assert built
    assert not any(keras.ops.any(variable != 0) for variable in task.metrics_variables)
    keras.Model.train_on_batch(task, *batches[0])
    trained = [(v.path, tuple(v.shape)) for v in task.metrics_variables]
    assert trained == built
