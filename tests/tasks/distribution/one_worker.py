"""A worker of `MultiWorkerMirroredStrategy`, which trains on its part of each batch.

python -m tests.tasks.distribution.one_worker OUT
"""

import json
import os
import sys

import keras
import numpy as np

SIZE = 4
# With labels of which the two workers have different numbers.
CLASSES = [0, 0, 0, 1, 0, 1, 1, 1]


def learn(scope, part):
    """Train and evaluate a classifier with default metrics on a part of the rows."""
    from tests.tasks.distribution.shared_out import LENGTH, TEXTS, classifier

    with scope:
        task = classifier(dropout=0.0, sequence_length=LENGTH)
    task.compile(learning_rate=0.01)
    size = SIZE // 2 if part is not None else SIZE
    half = slice(None) if part is None else slice(part * size, (part + 1) * size)
    rows = np.arange(len(TEXTS)).reshape(-1, SIZE)[:, half].ravel()
    x = {name: ids[rows] for name, ids in task.preprocessor(TEXTS).items()}
    y = np.array(CLASSES)[rows]
    keras.utils.set_random_seed(1)
    options = {"batch_size": size, "verbose": 0}
    history = task.fit(x, y, epochs=2, shuffle=False, **options).history
    return history, task.evaluate(x, y, return_dict=True, **options)


def main():
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    number = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(learn(strategy.scope(), number), file)


if __name__ == "__main__":
    main()
