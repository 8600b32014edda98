"""int8 weights in every task: before the first use and after, saved and loaded."""

import keras
import numpy as np
import pytest

from tests.compiled import to_numpy
from tests.one_backend import on_one_backend_except
from tests.peers.keras_checks import TEXTS, small_classifier
from tests.tasks.every_task import CLASSES, cases
from tests.tasks.small_models import small_tagger
from tests.tasks.task_checks import assert_same

# Keras transposes a vector of scales in the head of masked tokens.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*The use of `x.T`:UserWarning"),
    on_one_backend_except("test_every_task[conditional]", "test_every_task[masked_lm]"),
]


def answer(task):
    """Run a task on ids, without compiling a program."""
    shape = tuple(n or 2 for n in task.input["token_ids"].shape[1:-1])
    ids = np.random.default_rng(1).integers(5, 30, (3, *shape, 9)).astype("int32")
    inputs = {
        "token_ids": ids,
        "segment_ids": (np.arange(9) > 4) * np.ones_like(ids),
        "padding_mask": (np.arange(9) < 8) * np.ones_like(ids),
        "mask_positions": np.array([[1, 3]] * 3, "int32"),
        "start_positions": np.full((3, 2), -1, "int32"),
    }
    return to_numpy(task({name: inputs[name] for name in task.input}))


def assert_near(outputs, exact):
    """Rounded, and not by much."""
    keras.tree.assert_same_structure(outputs, exact)
    pairs = zip(keras.tree.flatten(outputs), keras.tree.flatten(exact), strict=True)
    for rounded, precise in pairs:
        kept = precise > -1e8
        difference = np.abs(rounded - precise)[kept].max()
        assert 0 < difference < 0.2 * np.abs(precise[kept]).max()


@pytest.mark.parametrize("name", CLASSES)
def test_every_task(name, make_classifier, toy_proto, toy, tmp_path):
    task = cases(make_classifier, toy_proto, toy)[name][0]()
    fresh = type(task).from_config(task.get_config())
    fresh.set_weights(task.get_weights())
    exact = answer(task)
    task.quantize("int8")
    outputs = answer(task)
    assert_near(outputs, exact)
    # Before the first use, too.
    fresh.quantize("int8")
    assert_same(answer(fresh), outputs)

    task.save_to_preset(tmp_path / "preset")
    loaded = type(task).from_preset(tmp_path / "preset")
    assert_same(answer(loaded), outputs)
    kinds = [variable.dtype for variable in loaded.backbone.weights]
    assert kinds == [variable.dtype for variable in task.backbone.weights]
    assert kinds.count("int8") > 6
    task.save(tmp_path / "task.keras")
    assert_same(answer(keras.saving.load_model(tmp_path / "task.keras")), outputs)


def test_a_compiled_prediction_has_the_new_weights(toy_proto):
    classifier = small_classifier(toy_proto)
    exact = classifier.predict(TEXTS, verbose=0)
    classifier.quantize("int8")
    assert_near(classifier.predict(TEXTS, verbose=0), exact)


def test_lora_on_int8_weights_is_saved_on_its_own(toy_proto, tmp_path):
    """A file that would change the answers is refused before it is opened."""
    task = small_tagger(toy_proto, num_classes=3)
    for name in ("task.keras", "task.weights.h5"):
        (tmp_path / name).write_text("an earlier file")
    task.quantize("int8")
    task.backbone.enable_lora(2)
    for save in (
        lambda: task.save(tmp_path / "task.keras"),
        lambda: task.save_weights(tmp_path / "task.weights.h5"),
        lambda: task.save_to_preset(tmp_path / "preset"),
        lambda: task.backbone.save_to_preset(tmp_path / "preset"),
    ):
        with pytest.raises(ValueError, match=r"int8 would round.*save_lora_weights"):
            save()
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(kept) == {"task.keras", "task.weights.h5"}
    assert set(kept.values()) == {"an earlier file"}

    fresh = small_tagger(toy_proto, num_classes=3)
    fresh.quantize("int8")
    fresh.backbone.enable_lora(2)
    for weight in task.backbone.trainable_weights:
        weight.assign(np.random.default_rng(2).normal(size=weight.shape))
    task.backbone.save_lora_weights(tmp_path / "task.lora.h5")
    task.save_task_weights(tmp_path / "head.weights.h5")
    fresh.backbone.load_lora_weights(tmp_path / "task.lora.h5")
    fresh.load_task_weights(tmp_path / "head.weights.h5")
    assert_same(answer(fresh), answer(task))
