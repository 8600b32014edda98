"""One of several processes that train each task together.

    python -m tests.devices.together OUT WAY [NAME]...

It writes what `shared_out` writes for one device, and what it is told if one of the
processes was given something else.
"""

import contextlib
import json
import os
import sys

import keras
import numpy as np

from tests.several_processes import BACKEND


def connect(way):
    """Connect the processes, and return their number and a scope."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        return strategy.cluster_resolver.task_id, strategy.scope
    if BACKEND == "torch":
        return int(os.environ["RANK"]), contextlib.nullcontext
    from keras_albert.training.devices import KerasDevices

    # As in the documentation.
    keras.distribution.initialize()
    distribution = keras.distribution.DataParallel()
    if way == "model_parallel":
        distribution = KerasDevices(parts=2).distribution
        distribution.auto_shard_dataset = True
    keras.distribution.set_distribution(distribution)
    import jax

    return jax.process_index(), contextlib.nullcontext


def own_part(scope=contextlib.nullcontext, index=None):
    """Train on a part of each batch of `shared_out`, or on all; return the scores."""
    from tests.devices import shared_out

    rows = np.arange(shared_out.COUNT).reshape(-1, shared_out.SIZE)
    if index is not None:
        half = shared_out.SIZE // 2
        rows = rows[:, index * half : (index + 1) * half]
    with scope():
        task = shared_out.classifier()
    task.compile(learning_rate=0.01)
    x = [shared_out.TEXTS[row] for row in rows.ravel()]
    x = task.preprocessor(x)
    y = np.array(shared_out.CLASSES)[rows.ravel()]
    options = {"batch_size": shared_out.SIZE, "verbose": 0}
    if index is not None:
        options["auto_shard"] = False
    history = task.fit(x, y, epochs=2, shuffle=False, **options).history
    scores = task.evaluate(x, y, return_dict=True, **options)
    return [history["loss"], history["accuracy"], sorted(scores.values())]


def refusals(scope, index):
    """What `fit` says if one process has other data, labels, settings or batches."""
    from tests.devices import shared_out

    with scope():
        task = shared_out.classifier()
    texts, classes = shared_out.TEXTS, shared_out.CLASSES
    other = [*texts[:-1], "the old rain"] if index else texts
    for arguments in (
        {"x": other, "y": classes},
        {"x": texts, "y": classes[::-1] if index else classes},
        {"x": texts, "y": classes, "batch_size": 2 + index},
        {"x": [(other, np.array(classes))].__iter__, "y": None},
    ):
        x = arguments["x"]
        batches = (batch for batch in x()) if callable(x) else x
        try:
            task.fit(**{**arguments, "x": batches}, verbose=0)
        except Exception as error:
            # TensorFlow wraps what a data set raises.
            yield str(error)
    task.compile(keras.optimizers.AdamW(0.01, weight_decay=0.01 * (1 + index)))
    try:
        task.evaluate(texts, classes, verbose=0)
    except ValueError as error:
        yield str(error)
    task.compile("sgd")
    try:
        # On PyTorch all take the weights of the first one.
        task.set_weights([value + index for value in task.get_weights()])
        task.evaluate(texts, classes, verbose=0)
    except (AssertionError, ValueError) as error:
        yield str(error)


def refused_saving(preset):
    """What is said if no process has all weights."""
    from keras_albert.training.devices import KerasDevices
    from tests.devices import shared_out

    with KerasDevices(parts=4).scope():
        try:
            shared_out.classifier().save_to_preset(preset)
        except ValueError as error:
            return str(error)


def main():
    path, way, *names = sys.argv[1:]
    index, scope = connect(way)
    from tests.devices import shared_out

    # JAX would compile each operation of an eager step on its own.
    jit = "auto" if BACKEND == "jax" else False
    preset = f"{path}.preset" if way == "model_parallel" and not index else None
    found = {}
    for name in names:
        found[name] = shared_out.attempt(shared_out.CASES[name], scope, jit, preset)
        preset = None
    if way == "model_parallel":
        found["refused"] = refused_saving(f"{path}.refused")
    else:
        found["refusals"] = list(refusals(scope, index))
        found["own part"] = own_part(scope, index)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
