"""What every task must do, checked in one place."""

import keras
import numpy as np

from keras_albert.data.batches import preprocess_batch
from tests.compiled import to_numpy


def as_numpy(variable):
    return keras.ops.convert_to_numpy(variable.value)


def assert_same(first, second, atol=1e-5):
    """Two predictions, arrays or trees of them, agree."""
    keras.tree.assert_same_structure(first, second)
    for a, b in zip(keras.tree.flatten(first), keras.tree.flatten(second), strict=True):
        np.testing.assert_allclose(a, b, atol=atol, rtol=1e-5)


def assert_differs(first, second):
    """Some number of two predictions differs."""
    pairs = zip(keras.tree.flatten(first), keras.tree.flatten(second), strict=True)
    assert any(not np.allclose(a, b, atol=1e-5) for a, b in pairs)


def answers(task, x):
    """What a task computes for raw input, without compiling a program."""
    (ids,) = preprocess_batch(task, "prediction", x)
    return to_numpy(task(ids, training=False))


def check_task(task, x, y, directory):
    """Check what a user does with any task; it is trained once on the way."""
    cls = type(task)
    # Or Keras runs it once more, eagerly, for each batch on JAX.
    assert all(layer.built for layer in task._flatten_layers())
    # Another task on the same backbone may train what this one leaves alone.
    assert len(task.backbone.trainable_weights) == len(task.backbone.weights)
    pooler = task.backbone.pooler.get_weights()
    # Strings in; the answers do not depend on who is in the batch.
    outputs = task.predict(x, verbose=0)
    assert_same(task.predict(x, batch_size=2, verbose=0), outputs)
    history = task.fit(x, y, batch_size=4, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    trained = task.predict(x, verbose=0)
    assert_differs(trained, outputs)
    kept = map(np.array_equal, pooler, task.backbone.pooler.get_weights())
    assert all(kept) != cls.uses_pooler
    scores = task.evaluate(x, y, verbose=0, return_dict=True)
    assert all(np.isfinite(list(scores.values())))

    # Saved and loaded.
    expected = answers(task, x)
    task.save_to_preset(directory / "preset")
    assert_same(answers(cls.from_preset(directory / "preset"), x), expected)
    task.save(directory / "task.keras")
    loaded = keras.saving.load_model(directory / "task.keras")
    assert_same(answers(loaded, x), expected)

    # Another depth, at loading and at prediction.
    shallow = cls.from_preset(directory / "preset", num_layers=1)
    outputs = answers(shallow, x)
    found = task.predict(x, num_layers=1, verbose=0)
    assert_same(found, shallow.predict(x, verbose=0))
    assert_differs(outputs, expected)
    assert_same(task.predict(x, verbose=0), trained)

    # Ids in, as the preprocessor made them.
    targets = None if y is None else task.encode_targets(y)
    packed = task.preprocessor(x, targets)
    ids, targets, weights = keras.utils.unpack_x_y_sample_weight(packed)
    bare = cls.from_config({**task.get_config(), "preprocessor": None})
    bare.set_weights(task.get_weights())
    by_ids = bare.evaluate(
        ids, targets, sample_weight=weights, verbose=0, return_dict=True
    )
    assert np.isfinite(by_ids["loss"])
    if not task.is_self_supervised:
        np.testing.assert_allclose(by_ids["loss"], scores["loss"], rtol=1e-3)

    # LoRA trains few weights, and survives; a batch at a time.
    loaded.backbone.enable_lora(2)
    loaded.compile()
    frozen = [as_numpy(v) for v in loaded.backbone.non_trainable_variables]
    assert np.isfinite(loaded.train_on_batch(x, y)).all()
    for before, variable in zip(
        frozen, loaded.backbone.non_trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(before, as_numpy(variable))
    adapted = answers(loaded, x)
    assert_differs(adapted, expected)
    loaded.save_to_preset(directory / "lora")
    assert_same(answers(cls.from_preset(directory / "lora"), x), adapted)

    # Mixed precision.
    half = cls.from_preset(directory / "preset", dtype="mixed_bfloat16")
    assert half.backbone.compute_dtype == "bfloat16"
    assert np.isfinite(half.train_on_batch(x, y)).all()
