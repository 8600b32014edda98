"""What an upgrade of Keras or KerasHub would break: one test for each private name."""

import ast
import importlib
import inspect
import pkgutil
import textwrap

import keras
import keras_hub
import numpy as np
import pytest

import keras_albert
from keras_albert.utils import keras_internals
from keras_albert.utils.keras_internals import (
    HOOKS,
    adam_moments,
    all_layers,
    building_model,
    defer_building,
    explain_held,
    has_no_value,
    is_evaluation_of_fit,
    mark_as_seeded,
    optimized_variables,
    outputs_of_layer,
    register_parameters,
    set_special_tokens,
    train_in_one_process,
    variable_index,
)

on = keras.config.backend


def small_model():
    inner = keras.Sequential([keras.layers.Dense(2, name="dense")], name="inner")
    model = keras.Sequential([inner])
    model.compile("adamw", "mse")
    model.build((None, 3))
    return model


@pytest.fixture
def fit():
    x = np.ones((4, 3), "float32")
    return lambda model, *callbacks: model.fit(
        *(x, x[:, :2]),
        validation_data=(x, x[:, :2]),
        callbacks=list(callbacks),
        verbose=0,
    )


def test_every_function_has_a_test_here():
    functions = inspect.getmembers(keras_internals, inspect.isfunction)
    assert {f"test_{name}" for name, _ in functions} <= set(globals())


def test_all_layers():
    model = small_model()
    assert {layer.name for layer in all_layers(model)} >= {"inner", "dense"}
    assert all_layers(model)[0] is model


def test_explain_held():
    """JAX alone gives the memory of weights away while a model trains."""
    held = keras.Variable([1.0])
    explain_held(TypeError("another error"), [held])
    explain_held(RuntimeError("Array has been deleted."), [held])
    if on() == "jax":
        held.value.delete()
        with pytest.raises(RuntimeError, match="has no weights while"):
            explain_held(RuntimeError("Array has been deleted."), [held])


def test_building_model():
    """Keras still assigns the bases of a class when it builds its first model."""
    assigned = []

    class Watched(type(keras.Model)):
        def __setattr__(cls, name, value):
            assigned.append(name)
            super().__setattr__(name, value)

    class Model(keras.Model, metaclass=Watched):
        def __init__(self):
            inputs = keras.Input((2,))
            super().__init__(inputs=inputs, outputs=keras.layers.ReLU()(inputs))

    with building_model(), building_model():
        Model()
    assert "__bases__" in assigned


@pytest.mark.skipif(on() != "torch", reason="parameters of PyTorch")
def test_register_parameters():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    shapes = [tuple(weight.shape) for weight in model.weights]
    # As where KerasHub's models set attributes.
    model._modules.clear()
    object.__setattr__(model, "_torch_params", None)
    assert list(model.parameters()) == []
    register_parameters(model)
    assert sorted(tuple(p.shape) for p in model.parameters()) == sorted(shapes)


@pytest.mark.skipif(on() != "torch", reason="a process group of PyTorch")
def test_train_in_one_process(fit, tmp_path):
    from torch import distributed

    model, x = small_model(), np.ones((4, 3), "float32")
    train_in_one_process(model)
    store = f"file://{tmp_path / 'store'}"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        fit(model)
        assert model.predict(x).shape == (4, 2)
    finally:
        distributed.destroy_process_group()
    # Not a wrapper, and nothing that a checkpoint contains.
    assert not getattr(model, "ddp_model", None)
    model.save_weights(tmp_path / "model.weights.h5")
    model.load_weights(tmp_path / "model.weights.h5")


@pytest.mark.skipif(on() != "tensorflow", reason="strategies of TensorFlow")
def test_defer_building():
    import tensorflow as tf

    read = []

    def batches():
        for number in range(3):
            read.append(number)
            yield np.ones((4, 3)), np.ones((4, 2))

    signature = (tf.TensorSpec((None, 3)), tf.TensorSpec((None, 2)))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        model = keras.Sequential([keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        defer_building(model)
        model.fit(dataset, steps_per_epoch=3, shuffle=False, verbose=0)
    assert read == [0, 1, 2]


def test_variable_index():
    variables = [keras.Variable([1.0], name=name) for name in "ab"]
    optimizer = keras.optimizers.Adam()
    optimizer.build(variables)
    assert [variable_index(optimizer, each) for each in variables] == [0, 1]
    assert [variable_index(optimizer, each) for each in variables[::-1]] == [1, 0]


def test_optimized_variables():
    variables = [keras.Variable([1.0]), keras.Variable([2.0])]
    optimizer = keras.optimizers.AdamW()
    optimizer.build(variables)
    assert [id(v) for v in optimized_variables(optimizer)] == [id(v) for v in variables]


@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_moments(amsgrad):
    variable = keras.Variable([1.0, 2.0])
    optimizer = keras.optimizers.AdamW(beta_1=0.5, beta_2=0.75, amsgrad=amsgrad)
    for gradient in (4.0, 2.0):
        optimizer.apply([keras.ops.array([gradient, 0.0])], [variable])
    means, squares, largest = (
        [each.numpy().tolist() for each in moments]
        for moments in adam_moments(optimizer)
    )
    assert means == [[2.0, 0.0]]
    assert squares == [[4.0, 0.0]]
    # Of the squares with their bias corrected, or without: not below them.
    assert [[first >= 4.0, second] for first, second in largest] == (
        [[True, 0.0]] if amsgrad else []
    )


@pytest.mark.skipif(on() != "jax", reason="only JAX takes values out of variables")
def test_has_no_value(fit):
    seen = []
    model = small_model()

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append([has_no_value(each) for each in model.trainable_variables])

    fit(model, Look())
    assert seen == [[True, True]]
    assert not any(has_no_value(each) for each in model.trainable_variables)


@pytest.mark.skipif(on() != "torch", reason="only its programs read addresses")
def test_mark_as_seeded():
    """Dropout calls `next` of a generator that the constructor never saw."""

    class Counting(keras.random.SeedGenerator):
        def __init__(self):
            mark_as_seeded(self)
            self.draws = 0

        def next(self, ordered=True):
            self.draws += 1
            return keras.ops.convert_to_tensor(np.array([1, 2], "uint32"))

    generator = Counting()
    first, second = (
        keras.ops.convert_to_numpy(
            keras.random.dropout(keras.ops.ones((50,)), 0.5, seed=generator)
        )
        for _ in range(2)
    )
    assert generator.draws == 2
    np.testing.assert_array_equal(first, second)


def test_is_evaluation_of_fit(fit):
    calls = []

    class Model(keras.Sequential):
        def evaluate(self, *args, **kwargs):
            calls.append(is_evaluation_of_fit(kwargs))
            return super().evaluate(*args, **kwargs)

    model = Model([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    fit(model)
    model.evaluate(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    assert calls == [True, False]


def check_onednn(prepare):
    if keras.config.backend() != "torch":
        pytest.skip("PyTorch contains oneDNN")
    import torch

    x, weights, bias = torch.rand(2, 3, 4), torch.rand(5, 4), torch.rand(5)
    multiply, prepared = keras_internals.onednn_linear(), prepare(weights)
    found = multiply(x, prepared, bias, "none", [], "")
    torch.testing.assert_close(found, torch.nn.functional.linear(x, weights, bias))


def test_onednn_linear():
    check_onednn(lambda weights: weights)


def test_count_changes():
    if keras.config.backend() != "torch":
        pytest.skip("PyTorch counts them")
    variable = keras.Variable(np.zeros(3, "float32"))
    before = keras_internals.count_changes(variable.value)
    variable.assign([1.0, 2.0, 3.0])
    assert keras_internals.count_changes(variable.value) > before


def test_onednn_packed():
    check_onednn(keras_internals.onednn_packed)


def test_set_special_tokens(tiny_proto):
    class Tokenizer(keras_hub.tokenizers.SentencePieceTokenizer):
        def __init__(self, proto):
            set_special_tokens(self, {"start_token": "[CLS]"})
            set_special_tokens(self, {"end_token": "[SEP]"})
            super().__init__(proto)

    tokenizer = Tokenizer(tiny_proto)
    assert (tokenizer.end_token, tokenizer.end_token_id) == ("[SEP]", 3)
    assert tokenizer.special_token_ids == [3]


@pytest.mark.parametrize("name", HOOKS)
def test_keras_has_the_hook(name):
    package, *path = HOOKS[name].split(".")
    owner = {"keras": keras, "keras_hub": keras_hub}[package]
    for part in path:
        owner = getattr(owner, part)
    assert callable(inspect.getattr_static(owner, name).__get__(None, owner))


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def overridden(cls):
    return filter(is_private, vars(cls))


def assigned(cls):
    """The private attributes that the source of a class sets in `self`."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # made by `type`, from bases that are read themselves
        return iter(())
    stored = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    ]
    of_self = [node.attr for node in stored if ast.unparse(node.value) == "self"]
    return filter(is_private, of_self)


def names_of_both(cls, names):
    """The names that classes of the package and of Keras define in one object."""
    ours, theirs = (
        {
            name
            for base in cls.__mro__
            if base.__module__.startswith(packages)
            for name in names(base)
        }
        for packages in (("keras_albert.", __name__), ("keras.", "keras_hub."))
    )
    return ours & theirs


def test_the_walk_finds_names_of_both():
    class Ours(keras.layers.Layer):
        def __init__(self):
            self._ours = self._lock = self._trainable = 1

        def _get_call_context(self):
            pass

    assert names_of_both(Ours, assigned) == {"_lock", "_trainable"}
    assert names_of_both(Ours, overridden) == {"_get_call_context"}


@pytest.mark.parametrize(("names", "expected"), [(overridden, HOOKS), (assigned, ())])
def test_no_other_name_of_keras_is_overridden_or_assigned(names, expected):
    """A name that Keras has, too, by chance would replace a part of Keras."""
    pytest.importorskip("tensorflow")  # parts import it
    found = set()
    for module in pkgutil.walk_packages(keras_albert.__path__, "keras_albert."):
        if module.name.split(".")[1] in ("serving", "commands"):  # import TensorFlow
            continue
        for cls in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(cls) and cls.__module__ == module.name:
                found |= names_of_both(cls, names)
    assert found == set(expected)


def test_outputs_of_layer():
    inner_input = keras.Input((3,))
    inner = keras.Model(inner_input, {"double": inner_input * 2.0, "half": inner_input})
    outer_input = keras.Input((3,))
    outputs = inner(outer_input)
    model = keras.Model(outer_input, outputs["half"] + 1.0)
    # Another call, which is not in this graph.
    inner(keras.Input((3,)))
    found = outputs_of_layer(model, inner)
    assert sorted(found) == ["double", "half"]
    part = keras.Model(model.input, found["double"])
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(part(np.ones((1, 3), "float32"))), [[2, 2, 2]]
    )
