"""Exits after each layer: training, and texts that leave early."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.checkpoints import export_checkpoint
from keras_albert.tasks.classification import early_exit
from tests.one_backend import on_one_backend_except
from tests.tasks.classification.exit_models import (
    LAYERS,
    add_lora,
    by_depth,
    scale,
    spread,
)

pytestmark = on_one_backend_except(
    "test_metrics_are_those_of_the_last_head",
    "test_gradients_reach_all_heads_with_remat_and_half_precision",
    "test_texts_leave_by_the_rule_whatever_the_batch[rule1]",
    "test_texts_that_left_are_not_computed",
    "test_new_weights_and_lora_count_at_once",
    "test_texts_leave_in_the_precision_of_the_model",
)


@pytest.fixture(scope="module")
def trained(make, toy):
    classifier = make()
    classifier.compile(learning_rate=4e-3)
    classifier.fit(*toy, batch_size=16, epochs=4, verbose=0)
    return classifier


def test_all_heads_learn(trained, toy):
    accuracies = [
        trained.evaluate(*toy, num_layers=n, verbose=0)[1] for n in range(1, LAYERS + 1)
    ]
    assert min(accuracies) > 0.9


def test_loss_is_the_mean_by_depth(make, toy):
    classifier = scale(make())
    texts, labels = toy[0][:8], toy[1][:8]
    y = classifier.encode_targets(labels)
    weights = np.linspace(0.5, 2, 8).astype("float32")
    ids = classifier.preprocessor(texts)
    outputs = classifier(ids, training=True)
    assert tuple(outputs.shape) == (8, LAYERS, 2)
    heads = by_depth(classifier, texts)
    found = ops.convert_to_numpy(outputs).transpose(1, 0, 2)
    np.testing.assert_allclose(found, heads, atol=1e-4)
    for reduction in ("sum_over_batch_size", "sum", "mean_with_sample_weight"):
        loss = keras.losses.SparseCategoricalCrossentropy(True, reduction=reduction)
        classifier.compile(loss=loss)
        for weight in (None, weights):
            expected = sum(
                j * float(loss(y, each, weight)) for j, each in enumerate(heads, 1)
            ) / sum(range(1, LAYERS + 1))
            found = classifier.compute_loss(
                ids, ops.convert_to_tensor(y), outputs, weight, training=True
            )
            found = ops.convert_to_numpy(found)
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_metrics_are_those_of_the_last_head(make, toy):
    classifier = scale(make())
    classifier.compile(keras.optimizers.SGD(0.0))
    history = classifier.fit(*toy, verbose=0).history
    _, accuracy = classifier.evaluate(*toy, verbose=0)
    np.testing.assert_allclose(history["accuracy"][0], accuracy, atol=1e-6)


def test_gradients_reach_all_heads_with_remat_and_half_precision(make, toy):
    classifier = make(remat=True, dtype="mixed_bfloat16")
    before = [ops.convert_to_numpy(v) for v in classifier.output_dense.weights]
    classifier.compile(keras.optimizers.SGD(1.0))
    classifier.fit(toy[0][:8], toy[1][:8], verbose=0)
    for old, variable in zip(before, classifier.output_dense.weights, strict=True):
        moved = np.abs(ops.convert_to_numpy(variable) - old)
        assert moved.reshape(LAYERS, -1).max(axis=1).min() > 0


def expected_exits(heads, patience=None, threshold=None):
    """The depth of each text, one text after the other."""
    probabilities = np.exp(heads) / np.exp(heads).sum(-1, keepdims=True)
    depths = []
    for row in range(heads.shape[1]):
        agreed = 0
        for depth in range(1, LAYERS + 1):
            answers = heads[:, row].argmax(-1)
            same = depth > 1 and answers[depth - 1] == answers[depth - 2]
            agreed = agreed + 1 if same else 0
            if patience is not None and agreed == patience:
                break
            if (
                threshold is not None
                and probabilities[depth - 1, row].max() >= threshold
            ):
                break
        depths.append(depth)
    return np.array(depths)


@pytest.mark.parametrize("rule", [{"patience": 1}, {"patience": 2}, {"threshold": 0.7}])
def test_texts_leave_by_the_rule_whatever_the_batch(make, toy, rule):
    texts = toy[0][:40]
    classifier = spread(make(num_classes=3), texts)
    heads = by_depth(classifier, texts)
    expected = expected_exits(heads, **rule)
    assert len(set(expected)) > 1
    for size in (40, 7, 1):
        outputs, depths = classifier.predict(
            texts, size, **rule, return_depths=True, verbose=0
        )
        np.testing.assert_array_equal(depths, expected)
        np.testing.assert_allclose(
            outputs, heads[expected - 1, np.arange(40)], atol=2e-3
        )
    ids = classifier.preprocessor(texts)
    np.testing.assert_allclose(
        classifier.predict(ids, **rule, verbose=0), outputs, atol=1e-4
    )
    answers = classifier.classify(texts, **rule, return_depths=True)
    assert [answer["depth"] for answer in answers] == depths.tolist()
    labels = [str(i) for i in outputs.argmax(-1)]
    assert [answer["label"] for answer in answers] == labels


def test_texts_that_left_are_not_computed(make, toy, monkeypatch):
    classifier = spread(make(), toy[0][:32])
    compile_layers, rows = early_exit.compile_layers, []

    def counting(classifier):
        start, run_layer = compile_layers(classifier)

        def counted(x, *arguments):
            rows.append(x.shape[0])
            return run_layer(x, *arguments)

        return start, counted

    monkeypatch.setattr(early_exit, "compile_layers", counting)
    _, depths = classifier.predict(
        toy[0][:32], patience=1, return_depths=True, verbose=0
    )
    assert len(rows) == depths.max()
    left = [np.count_nonzero(depths > layer) for layer in range(depths.max())]
    assert all(a >= b for a, b in zip(rows, left, strict=True))
    assert rows[-1] < 32
    if keras.config.backend() != "jax":
        assert rows == left


def test_regression_leaves_by_differences(make, toy):
    classifier = scale(make(num_classes=1))
    texts = toy[0][:24]
    heads = by_depth(classifier, texts)[..., 0]
    threshold = float(np.median(np.abs(np.diff(heads, axis=0))))
    rule = {"patience": 1, "threshold": threshold}
    outputs, depths = classifier.predict(texts, **rule, return_depths=True, verbose=0)
    close = np.abs(np.diff(heads, axis=0)) <= threshold
    close[-1] = True
    np.testing.assert_array_equal(depths, close.argmax(axis=0) + 2)
    assert outputs.shape == (24, 1)
    answer = classifier.classify(texts[0], **rule)
    assert set(answer) == {"score"}
    # Of one number there are no likeliest ones.
    shown = classifier.classify(texts[0], top_k=3, **rule, return_depths=True)
    assert shown == answer | {"depth": depths[0]}


def test_several_labels(make, toy):
    classifier = scale(make(num_classes=3, activation="sigmoid"))
    texts = toy[0][:24]
    y = [["0", "2"], []] * 12
    classifier.labels = ("0", "1", "2")
    heads = by_depth(classifier, texts)
    outputs, depths = classifier.predict(
        texts, threshold=0.6, return_depths=True, verbose=0
    )
    certain = np.maximum(heads, 1 - heads).min(axis=-1) >= 0.6
    certain[-1] = True
    np.testing.assert_array_equal(depths, certain.argmax(axis=0) + 1)
    np.testing.assert_allclose(outputs, heads[depths - 1, np.arange(24)], atol=1e-4)
    same = ((heads[1:] > 0.5) == (heads[:-1] > 0.5)).all(axis=-1)
    same[-1] = True
    _, depths = classifier.predict(texts, patience=1, return_depths=True, verbose=0)
    np.testing.assert_array_equal(depths, same.argmax(axis=0) + 2)
    history = classifier.fit(texts, y, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_no_texts(trained):
    outputs, depths = trained.predict([], patience=1, return_depths=True, verbose=0)
    assert (outputs.shape, depths.shape) == ((0, 2), (0,))


def test_new_weights_and_lora_count_at_once(make, toy):
    classifier = make()

    def outputs():
        rules = ({"patience": 4}, {"num_layers": 2})
        return [classifier.predict(toy[0][:8], **rule, verbose=0) for rule in rules]

    before = outputs()
    # LoRA as an adapter is loaded: nothing is compiled anew.
    for change in (scale, lambda model: add_lora(model, 0.3)):
        change(classifier)
        after = outputs()
        moved = [np.abs(a - b).max() for a, b in zip(after, before, strict=True)]
        assert min(moved) > 1e-3
        before = after


def test_preset_at_another_depth(make, toy, tmp_path):
    classifier = scale(make())
    texts = toy[0][:8]
    classifier.save_to_preset(tmp_path / "preset")
    four = AlbertClassifier.from_preset(tmp_path / "preset", num_layers=4)
    assert (four.exits, four.backbone.num_layers) == (LAYERS, 4)
    expected = classifier.predict(texts, num_layers=4, verbose=0)
    np.testing.assert_allclose(four.predict(texts, verbose=0), expected, atol=1e-4)
    with (
        pytest.warns(UserWarning, match="trained with 6"),
        pytest.raises(ValueError, match="at least one for each of the 7 layers"),
    ):
        AlbertClassifier.from_preset(tmp_path / "preset", num_layers=7)
    new = AlbertClassifier.from_preset(tmp_path / "preset", num_classes=5)
    assert new.predict(texts, patience=1, verbose=0).shape == (8, 5)


def test_preset_without_exits(make, toy, tmp_path):
    make(exits=False).save_to_preset(tmp_path / "preset")
    old = AlbertClassifier.from_preset(tmp_path / "preset")
    assert [v.path for v in old.output_dense.weights] == [
        "logits/kernel",
        "logits/bias",
    ]
    for rule in ({"patience": 1}, {"threshold": 0.5}):
        with pytest.raises(ValueError, match="built with `exits=True`"):
            old.predict(toy[0][:2], **rule, verbose=0)
    with pytest.raises(ValueError, match="its config do not belong together"):
        AlbertClassifier.from_preset(tmp_path / "preset", exits=True)
    new = AlbertClassifier.from_preset(tmp_path / "preset", exits=True, num_classes=2)
    assert new.exits == LAYERS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patience": 0}, "`patience` must be a whole number"),
        ({"patience": 1.5}, "`patience` must be a whole number"),
        ({"threshold": 1.1}, "from 0 to 1"),
        ({"threshold": "high"}, "from 0 to 1"),
        ({"patience": 1, "threshold": 0.5}, "Pass one of"),
        ({"patience": 1, "num_layers": 3}, "Pass one of"),
        ({"num_layers": 0}, "`num_layers` must be a whole number"),
        ({"num_layers": 7}, "heads after 6 layers"),
    ],
)
@pytest.mark.filterwarnings("ignore:The model was trained with 6 layers")
def test_bad_arguments(trained, toy, arguments, message):
    texts = toy[0][:2]
    for call in (
        lambda: trained.predict(texts, **arguments, verbose=0),
        lambda: trained.classify(texts, **arguments),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"patience": 1}, "`patience` with `threshold`"),
        ({"threshold": 0.5}, "`patience` with `threshold`"),
        ({"patience": 1, "threshold": 0}, "above 0"),
    ],
)
def test_bad_arguments_of_a_regression(make, toy, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(num_classes=1).predict(toy[0][:2], **arguments)


def test_bad_constructor_arguments(make, make_classifier):
    with pytest.raises(ValueError, match="exits=3"):
        make(exits=3)
    grouped = AlbertBackbone(40, 6, 2, 4, 8, 16, num_groups=2)
    with pytest.raises(ValueError, match="num_groups=2"):
        AlbertClassifier(grouped, 2, exits=True)


@pytest.mark.parametrize("quantize", [False, True])
def test_the_last_head_alone(make, toy, quantize):
    classifier = scale(make())
    if quantize:
        classifier.quantize("int8")
    add_lora(classifier)
    expected = classifier.predict(toy[0][:8], verbose=0)
    one = early_exit.with_last_head(classifier)
    assert len(one.output_dense.kernel.shape) == 2
    np.testing.assert_allclose(one.predict(toy[0][:8], verbose=0), expected, atol=1e-5)


@pytest.mark.parametrize("other", ["transformers", "keras-hub"])
def test_formats_without_exits_have_the_last_head(other, make, toy, tmp_path):
    classifier = scale(make())
    export_checkpoint(classifier, tmp_path / other, other)
    loaded = AlbertClassifier.from_preset(tmp_path / other)
    assert loaded.exits == 0
    x = toy[0][:8]
    expected = classifier.predict(x, verbose=0)
    np.testing.assert_allclose(loaded.predict(x, verbose=0), expected, atol=1e-5)


@pytest.mark.skipif(keras.config.backend() == "torch", reason="runs eagerly")
def test_the_training_program_does_not_grow_with_depth(make):
    from tests.compiled import program_size

    def size(num_layers):
        classifier = make(num_layers=num_layers)
        ids = ops.zeros((2, 8), "int32")

        def run(ids):
            inputs = {"token_ids": ids, "segment_ids": ids, "padding_mask": ids}
            return classifier(inputs, training=True)

        return program_size(run, ids)

    assert size(4) == size(12)


CHANGES = {
    "none": lambda classifier: None,
    "weights": lambda classifier: scale(classifier, 1.0),
    "lora": add_lora,
    "int8": lambda classifier: classifier.quantize("int8"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_layers_one_by_one_equal_all_of_them(make, toy, change):
    # Of all lengths.
    texts = [" ".join(toy[0][:n]) for n in range(1, 5)] + toy[0][:16]
    rank = 2 if change in ("none", "int8") else None
    classifier = spread(make(num_classes=3, adapter_rank=rank), texts)
    CHANGES[change](classifier)
    for rule in ({"patience": 1}, {"patience": 2}, {"threshold": 0.7}):
        outputs, depths = classifier.predict(
            texts, 7, **rule, return_depths=True, verbose=0
        )
        for depth in set(depths):
            expected = classifier.predict(texts, 7, num_layers=int(depth), verbose=0)
            np.testing.assert_allclose(
                outputs[depths == depth], expected[depths == depth], atol=1e-5
            )


def test_texts_leave_in_the_precision_of_the_model(make, toy):
    classifier = make(dtype="mixed_bfloat16")
    texts = toy[0][:8]
    outputs, depths = classifier.predict(
        texts, patience=1, return_depths=True, verbose=0
    )
    for depth in set(depths):
        expected = classifier.predict(texts, num_layers=int(depth), verbose=0)
        np.testing.assert_allclose(
            outputs[depths == depth], expected[depths == depth], atol=2e-2
        )
