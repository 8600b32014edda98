import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.conversion.weight_map import (
    IDENTITY,
    TRANSPOSED,
    WeightMapping,
    dump_weights,
    load_weights,
    split_first,
    split_last,
    variables_by_path,
)

MAPPINGS = [
    WeightMapping("first/kernel", "a.weight", TRANSPOSED),
    WeightMapping("first/bias", "a.bias"),
    WeightMapping("second/kernel", "b.weight", split_last(2)),
    WeightMapping("second/bias", "b.bias", split_last(2)),
]
SHAPES = {"a.weight": (3, 2), "a.bias": (3,), "b.weight": (3, 2, 2), "b.bias": (2, 2)}


@pytest.fixture
def model():
    layers = [keras.layers.Dense(3, name="first"), keras.layers.Dense(4, name="second")]
    return keras.Sequential([keras.Input((2,)), *layers])


@pytest.fixture
def tensors():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=SHAPES[name]).astype("float32") for name in SHAPES}


def test_what_is_loaded_is_dumped_again(model, tensors):
    load_weights(model, tensors, MAPPINGS)
    dumped = dump_weights(model, MAPPINGS)
    assert list(dumped) == [each.name for each in MAPPINGS]
    for name in SHAPES:
        np.testing.assert_array_equal(dumped[name], tensors[name])
        assert dumped[name].flags.c_contiguous
    np.testing.assert_array_equal(model.get_weights()[0], tensors["a.weight"].T)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    parts=st.integers(1, 4),
    kind=st.sampled_from(["identity", "transposed", "last", "first"]),
)
def test_each_transform_undoes_itself(shape, parts, kind):
    if kind == "last":
        shape[-1] *= parts
    elif kind == "first":
        shape[0] *= parts
    transform = {
        "identity": IDENTITY,
        "transposed": TRANSPOSED,
        "last": split_last(parts),
        "first": split_first(parts),
    }[kind]
    array = np.arange(np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(transform.to_ours(transform.to_foreign(array)), array)


def test_paths_do_not_depend_on_where_the_model_is_made():
    class Outer(keras.layers.Layer):
        def build(self, input_shape):
            self.inner = keras.Sequential(
                [keras.Input((2,)), keras.layers.Dense(3, name="first")]
            )
            self.built = True

    outer = Outer(name="outer")
    outer.build((None, 2))
    assert outer.inner.weights[0].path.startswith("outer/")
    assert list(variables_by_path(outer.inner)) == ["first/kernel", "first/bias"]


def _spoil(tensors, name, value):
    tensors[name] = tensors[name].copy()
    tensors[name].flat[-1] = value


SPOILED = {
    "missing": (lambda t: t.pop("b.bias"), r"missing: b\.bias"),
    "unexpected": (lambda t: t.update(c=np.zeros(1)), "unexpected: c"),
    "shape": (
        lambda t: t.update({"b.bias": np.zeros(4, "float32")}),
        r"wrong shape: b\.bias is \(4,\), and the model needs \(2, 2\)",
    ),
    "nan": (lambda t: _spoil(t, "b.bias", np.nan), r"not finite.*: b\.bias"),
    "infinite": (lambda t: _spoil(t, "b.bias", np.inf), r"not finite.*: b\.bias"),
    "integers": (
        lambda t: t.update({"b.bias": np.zeros((2, 2), "int64")}),
        r"not floating point \(int64\): b\.bias",
    ),
    "many": (lambda t: t.update({f"c.{n}": np.ones(1) for n in range(30)}), "10 more"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_nothing_is_loaded_from_tensors_that_do_not_fit(model, tensors, how):
    spoil, message = SPOILED[how]
    spoil(tensors)
    before = model.get_weights()
    with pytest.raises(ValueError, match=message):
        load_weights(model, tensors, MAPPINGS, source="here")
    np.testing.assert_equal(before, model.get_weights())


def test_all_that_is_wrong_is_said_at_once(model, tensors):
    del tensors["a.bias"]
    tensors["c"] = np.zeros(1)
    with pytest.raises(ValueError, match=r"here.*\n.*a\.bias\n.*c\n") as caught:
        load_weights(model, tensors, MAPPINGS, source="here")
    assert "Nothing was loaded" in str(caught.value)


def test_a_table_must_name_every_weight_once(model, tensors):
    with pytest.raises(ValueError, match="no mapping names: second/bias"):
        load_weights(model, tensors, MAPPINGS[:-1])
    *others, _ = MAPPINGS
    for mappings, message in (
        (others, "no mapping names: second/bias"),
        ([*MAPPINGS, WeightMapping("third/bias", "c")], "has no weight: third/bias"),
        ([*MAPPINGS, WeightMapping("first/bias", "c")], "named twice: first/bias"),
        ([*others, WeightMapping("second/bias", "a.bias")], r"named twice: a\.bias"),
    ):
        with pytest.raises(ValueError, match=message):
            dump_weights(model, mappings)


def test_kept_weights_stay(model, tensors):
    del tensors["b.bias"]
    model.weights[-1].assign(np.full(4, 7.0))
    load_weights(model, tensors, MAPPINGS[:-1], kept=["second/bias"])
    assert (model.get_weights()[-1] == 7).all()
    assert "b.bias" not in dump_weights(model, MAPPINGS[:-1], kept=["second/bias"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_not_handed_on(model, value):
    model.weights[1].assign(np.full(3, value))
    with pytest.raises(ValueError, match=r"not finite.*first/bias"):
        dump_weights(model, MAPPINGS)


def test_low_precision_is_read(model, tensors):
    import ml_dtypes

    low = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors.items()}
    low["a.bias"] = tensors["a.bias"].astype("float16")
    load_weights(model, low, MAPPINGS)
    for name, value in dump_weights(model, MAPPINGS).items():
        np.testing.assert_array_equal(value, low[name].astype("float32"))


def test_numbers_too_large_for_the_model_are_refused(tensors):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, name="first", dtype="float16")]
    )
    tensors = {name: tensors[name] for name in ("a.weight", "a.bias")}
    _spoil(tensors, "a.bias", 1e6)
    with pytest.raises(ValueError, match=r"not finite.*: a\.bias"):
        load_weights(model, tensors, MAPPINGS[:2])


def test_a_quantized_model_is_refused(model, tensors):
    model.layers[0].quantize("int8")
    with pytest.raises(ValueError, match="in floating point, before it is quantized"):
        load_weights(model, tensors, MAPPINGS)
