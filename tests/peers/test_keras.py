"""What Keras' and KerasHub's own tests assert of any model, of every task.

Keras' files are those of models, cloning, saving, callbacks, stateless calls and
layers (`keras/src/**/*_test.py`, version 3.15), and KerasHub's harness is `TestCase`
(`keras_hub/src/tests/test_case.py`, version 0.32). The assertions stand here in our
words; `test_keras_hub.py` has those of KerasHub's ALBERT, of preprocessors and the
backbone, and `tests/layers/layer_checks.py` those of a layer.
"""

import copy
import pickle
import threading

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from tests.compiled import to_numpy
from tests.peers.keras_checks import (
    CASES,
    TEXTS,
    assert_equal_outputs,
    described,
    make_case,
    small_classifier,
    symbolic,
    values,
)
from tests.peers.keras_hub_checks import check_serialization
from tests.tasks.small_models import small_backbone

on_torch = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="of PyTorch, or the same on each"
)


@pytest.fixture(scope="module", params=CASES)
def case(request, toy_proto):
    return make_case(request.param, toy_proto)


@pytest.fixture
def classifier(toy_proto):
    return small_classifier(toy_proto)


class TestEveryTask:
    def test_serialization(self, case):
        check_serialization(case.task)

    def test_input_structure(self, case):
        """`run_task_test`: the preprocessor makes what the model takes, and no more."""
        keras.tree.assert_same_structure(case.ids, case.task.input)
        assert set(case.ids) == set(case.task.input)
        assert described(case.ids).keys() == case.task.input.keys()

    def test_more_keys(self, case):
        """Keras would take them for others: it sorts the names of a dict."""
        more = {"a_key": np.ones((4, 2), "int32"), "zzz": np.zeros(4)}
        assert_equal_outputs(case.task(case.ids | more), case.outputs)
        backbone = case.task.backbone
        ids = {name: np.ones((4, 16), "int32") for name in backbone.input}
        assert_equal_outputs(backbone(ids | more), to_numpy(backbone(ids)))

    def test_symbolic_outputs(self, case):
        """`run_layer_test`: symbolic shapes and dtypes are the real ones."""
        inputs = symbolic(case.ids)
        for training in (False, True):
            real = case.task(case.ids, training=training)
            spec = case.task.compute_output_spec(inputs, training=training)
            assert described(spec) == described(real)
        assert described(case.task(inputs)) == described(case.outputs)
        shapes = {name: tuple(array.shape) for name, array in case.ids.items()}
        assert keras.tree.map_structure(
            lambda x: x.shape, case.outputs
        ) == keras.tree.map_structure_up_to(
            case.outputs, tuple, case.task.compute_output_shape(shapes)
        )

    def test_stateless_call(self, case):
        task = case.task
        outputs, state = task.stateless_call(
            values(task.trainable_variables),
            values(task.non_trainable_variables),
            case.ids,
        )
        assert_equal_outputs(outputs, case.outputs)
        assert len(state) == len(task.non_trainable_variables)

    def test_a_model_around_it(self, case):
        """A functional model of the task and one more layer."""
        inputs = {
            name: keras.Input(tensor.shape[1:], dtype="int32", name=name)
            for name, tensor in case.task.input.items()
        }
        outer = keras.Model(inputs, case.task(inputs))
        if "embedder" not in case.task.name:  # its pairs have one more axis
            assert_equal_outputs(outer(case.ids), case.outputs)
        assert len(outer.weights) == len(case.task.weights)

    def test_copies(self, case):
        assert_equal_outputs(copy.deepcopy(case.task)(case.ids), case.outputs)
        restored = pickle.loads(pickle.dumps(case.task))  # noqa: S301
        assert type(restored) is type(case.task)
        assert_equal_outputs(restored(case.ids), case.outputs)

    def test_clone_model(self, case):
        """A functional model of ids with weights of its own, as of KerasHub's tasks."""
        clone = keras.models.clone_model(case.task)
        assert clone.compiled
        assert not set(map(id, clone.variables)) & set(map(id, case.task.variables))
        if hasattr(case.task, "masked_lm_head"):
            # Keras unties what layers share, here the embeddings.
            assert len(clone.weights) == len(case.task.weights) + 1
            return
        clone.set_weights(case.task.get_weights())
        if "embedder" not in case.task.name:
            assert_equal_outputs(clone(case.ids), case.outputs)

    @on_torch
    @pytest.mark.parametrize("case", ["exits", "embedder"], indirect=True)
    def test_training_of_a_copy(self, case):
        """Unlike a clone, a copy computes the loss of the task."""
        batch = (case.ids, case.targets, case.weights)
        losses = [
            task.train_on_batch(*batch)
            for task in (copy.deepcopy(case.task), case.make())
        ]
        np.testing.assert_allclose(*losses, rtol=1e-5)

    def test_saving_of_weights_alone(self, case, tmp_path):
        """`tests/tasks/task_checks.py` saves each task as a whole."""
        case.task.save_weights(tmp_path / "task.weights.h5")
        other = case.make()
        other.set_weights([np.zeros_like(w) for w in other.get_weights()])
        other.load_weights(tmp_path / "task.weights.h5")
        assert_equal_outputs(other(case.ids), case.outputs)

    def test_trainable(self, case):
        task, count = case.task, len(case.task.trainable_weights)
        task.trainable = False
        assert task.trainable_weights == []
        assert len(task.non_trainable_weights) == len(task.weights)
        task.trainable = True
        assert len(task.trainable_weights) == count
        task.backbone.trainable = False
        for each in (task, type(task).from_config(task.get_config())):
            in_backbone = set(map(id, each.backbone.weights))
            assert not in_backbone & set(map(id, each.trainable_weights))
        task.backbone.trainable = True
        assert len(task.trainable_weights) == count

    def test_compile_config(self, case):
        task, other = case.task, case.make()
        config = task.get_compile_config()
        other.compile_from_config(config)
        for name in ("optimizer", "loss", "loss_weights", "jit_compile"):
            assert other.get_compile_config()[name] == config[name]
        loss = "mse" if case.targets is not None else None
        other.compile_from_config({"optimizer": "sgd", "loss": loss, "metrics": None})
        assert isinstance(other.optimizer, keras.optimizers.SGD)

    @pytest.mark.parametrize(
        "case",
        ["classifier", "embedder", "tagger", "conditional reader", "pretrainer"],
        indirect=True,
    )
    def test_mixed_precision(self, case):
        """`run_precision_test`: float32 variables, and the real dtypes of outputs."""
        config = copy.deepcopy(case.task.get_config()) | {"preprocessor": None}
        config["backbone"]["config"]["dtype"] = "mixed_bfloat16"
        task = type(case.task).from_config(config)
        assert task.backbone.compute_dtype == "bfloat16"
        kinds = {str(v.dtype) for v in task.trainable_variables}
        assert kinds == {"float32"}
        outputs = task(case.ids)
        assert described(task.compute_output_spec(symbolic(case.ids))) == described(
            outputs
        )

    @on_torch
    def test_parameters(self, case):
        """Before `fit` PyTorch sees each variable, as for any Keras model."""
        import torch

        task = case.make()
        for model in (task, task.backbone):
            shapes = sorted(tuple(p.shape) for p in model.parameters())
            assert shapes == sorted(tuple(v.shape) for v in model.variables)
            assert len(model.state_dict()) == len(model.variables)
        names = list(task.state_dict())
        state = {name: torch.zeros_like(x) for name, x in task.state_dict().items()}
        task.load_state_dict(state)
        assert not any(weight.any() for weight in task.get_weights())
        task.load_state_dict(case.task.state_dict())
        assert_equal_outputs(task(case.ids), case.outputs)
        task.quantize("int8")
        task.backbone.enable_lora(2)
        task.compile()
        assert len(list(task.parameters())) == len(task.variables) > len(names)


def test_names_of_layers(classifier):
    """`get_layer`, `summary` and `count_params` of a functional model."""
    assert classifier.get_layer(classifier.backbone.name) is classifier.backbone
    lines = []
    classifier.summary(print_fn=lambda line, **_: lines.append(line))
    assert classifier.backbone.name in "\n".join(lines)
    sizes = [np.prod(weight.shape) for weight in classifier.weights]
    assert classifier.count_params() == sum(map(int, sizes))


class TestCallbacks:
    @pytest.fixture
    def fit(self, classifier):
        def fit(*callbacks, task=classifier, **kwargs):
            kwargs = {"batch_size": 4, "epochs": 3, "verbose": 0} | kwargs
            return task.fit(TEXTS, list("abab"), callbacks=list(callbacks), **kwargs)

        return fit

    def test_checkpoints_and_logs(self, classifier, fit, tmp_path):
        whole, weights = tmp_path / "{epoch}.keras", tmp_path / "{epoch}.weights.h5"
        history = fit(
            keras.callbacks.ModelCheckpoint(whole),
            keras.callbacks.ModelCheckpoint(weights, save_weights_only=True),
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.ReduceLROnPlateau("loss", patience=0, min_delta=9),
            validation_data=(TEXTS, list("abab")),
        )
        assert len((tmp_path / "log.csv").read_text().splitlines()) == 4
        assert {"loss", "val_loss", "learning_rate"} <= set(history.history)
        expected = classifier.predict(TEXTS, verbose=0)
        restored = keras.models.load_model(tmp_path / "3.keras")
        assert_equal_outputs(restored.predict(TEXTS, verbose=0), expected)
        assert int(restored.optimizer.iterations) == 3
        restored.load_weights(tmp_path / "1.weights.h5")
        first = restored.predict(TEXTS, verbose=0)
        assert np.abs(first - expected).max() > 1e-4
        assert len(list(tmp_path.iterdir())) == 7

    def test_early_stopping(self, classifier, fit):
        worse = {"monitor": "val_loss", "mode": "max", "patience": 1}
        seen = []
        history = fit(
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda epoch, logs: seen.append(classifier.get_weights())
            ),
            keras.callbacks.EarlyStopping(
                **worse, min_delta=9, start_from_epoch=0, restore_best_weights=True
            ),
            epochs=9,
            validation_data=(TEXTS, list("abab")),
        )
        assert len(history.history["loss"]) == 2
        np.testing.assert_equal(classifier.get_weights(), seen[0])

    def test_backup_and_restore(self, classifier, fit, toy_proto, tmp_path):
        def stop(epoch, logs):
            if epoch == 1:
                raise KeyboardInterrupt

        def backup():
            return keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False)

        interrupt = keras.callbacks.LambdaCallback(on_epoch_end=stop)
        with pytest.raises(KeyboardInterrupt):
            fit(backup(), interrupt)
        resumed = small_classifier(toy_proto)
        history = fit(backup(), task=resumed)
        assert history.epoch[0] > 0
        assert int(resumed.optimizer.iterations) == 3


@keras.saving.register_keras_serializable(package="tests_peers")
class OwnBackbone(AlbertBackbone):
    """A registered subclass."""


@keras.saving.register_keras_serializable(package="tests_peers")
class OwnClassifier(AlbertClassifier):
    """A registered subclass."""


class TestSubclasses:
    def test_of_the_backbone(self, classifier, tmp_path):
        backbone = OwnBackbone.from_config(small_backbone().get_config())
        backbone.save_to_preset(tmp_path / "backbone")
        assert type(AlbertBackbone.from_preset(tmp_path / "backbone")) is OwnBackbone
        task = AlbertClassifier(backbone, 2, classifier.preprocessor)
        task.save_to_preset(tmp_path / "task")
        loaded = AlbertClassifier.from_preset(tmp_path / "task")
        assert type(loaded.backbone) is OwnBackbone
        outputs = loaded.predict(TEXTS, verbose=0)
        assert_equal_outputs(task.predict(TEXTS, verbose=0), outputs)

    def test_of_a_task(self, classifier, tmp_path):
        task = OwnClassifier(classifier.backbone, 2, classifier.preprocessor)
        task.save_to_preset(tmp_path / "task")
        assert type(AlbertClassifier.from_preset(tmp_path / "task")) is OwnClassifier
        task.save(tmp_path / "task.keras")
        restored = keras.saving.load_model(tmp_path / "task.keras")
        assert type(restored) is OwnClassifier

    def test_that_are_not_registered(self, classifier, tmp_path):
        class Unknown(AlbertClassifier):
            pass

        task = Unknown(classifier.backbone, 2, classifier.preprocessor)
        with pytest.raises(ValueError, match=r"class Unknown.*register_keras_serial"):
            task.save_to_preset(tmp_path / "task")
        assert list(tmp_path.iterdir()) == []

    def test_in_threads(self, toy_proto):
        """The first model of a class changes the bases of the class."""

        class Fresh(AlbertClassifier):
            pass

        built, backbone = [], small_backbone()
        threads = [
            threading.Thread(target=lambda: built.append(Fresh(backbone, 2)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(built) == 4


@on_torch
def test_data_parallel_sees_the_parameters(classifier, tmp_path):
    import torch
    import torch.distributed as dist

    store = f"file://{tmp_path / 'store'}"
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        parallel = torch.nn.parallel.DistributedDataParallel(classifier)
        parallel(classifier.preprocessor(TEXTS)).sum().backward()
        reached = [p.grad is not None for p in classifier.parameters()]
        # Not the states of random seeds.
        assert sum(reached) == len(classifier.trainable_variables)
    finally:
        dist.destroy_process_group()
