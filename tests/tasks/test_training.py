import functools

import keras
import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except(
    "test_training_is_reproducible",
    "test_torch_compile_reads_a_training_step",
    "test_a_frozen_backbone_stays",
)


def numpy_weights(model):
    return {v.path: keras.ops.convert_to_numpy(v).copy() for v in model.weights}


def changed(before, model):
    after = numpy_weights(model)
    return {
        path
        for path, array in after.items()
        if path in before and not np.array_equal(array, before[path])
    }


@pytest.fixture
def x(toy):
    return toy[0][:24]


@pytest.fixture
def y(toy):
    return toy[1][:24]


def test_validation_data_in_every_form(make_classifier, toy, x, y):
    classifier = make_classifier()
    held_x, held_y = toy[0][24:56], toy[1][24:56]
    # First the names are learned, which a held-out part may not all have.
    classifier.encode_targets(y)
    classifier.compile(keras.optimizers.SGD(1e-9))
    losses = []
    for held_out in (
        (held_x, held_y),
        (held_x, classifier.encode_targets(held_y)),
        (held_x, held_y, np.ones(32)),
        (classifier.preprocessor(held_x), held_y),
    ):
        history = classifier.fit(x, y, validation_data=held_out, verbose=0).history
        losses.append(history["val_loss"][0])
    expected = classifier.evaluate(held_x, held_y, verbose=0)[0]
    assert losses == pytest.approx([expected] * len(losses), abs=1e-5)


def test_validation_split_holds_out_the_end(make_classifier, x, y):
    classifier = make_classifier()
    classifier.compile(keras.optimizers.SGD(1e-9))
    # The last third of the texts are all of one class.
    order = sorted(range(24), key=lambda row: y[row])
    texts, labels = [x[row] for row in order], [y[row] for row in order]
    history = classifier.fit(texts, labels, validation_split=1 / 3, verbose=0).history
    assert classifier.labels == ("bad", "good")
    expected = classifier.evaluate(texts[16:], labels[16:], verbose=0)[0]
    assert history["val_loss"][0] == pytest.approx(expected, abs=1e-5)


def test_validation_split_names_rows_of_the_whole(make_classifier, x, y):
    classifier = make_classifier()
    with pytest.raises(ValueError, match="Row 23 has the label None"):
        classifier.fit(x, [*y[:23], None], validation_split=0.25)
    with pytest.raises(ValueError, match="24 examples, but 25 targets"):
        classifier.fit(x, [*y, "good"], validation_split=0.25)
    with pytest.raises(ValueError, match="A loss needs targets"):
        classifier.fit(x, validation_split=0.25)
    with pytest.raises(ValueError, match="row 22 of texts is None"):
        classifier.fit([*x[:22], None, x[23]], y, validation_split=0.25)


def test_sample_weights_weigh(make_classifier, x, y):
    classifier = make_classifier()
    classifier.encode_targets(y)
    one, zero = np.ones(24), np.zeros(24)
    good = np.array([label == "good" for label in y], float)

    def loss(weights, **kwargs):
        return classifier.evaluate(x, y, sample_weight=weights, verbose=0, **kwargs)[0]

    assert loss(None) == pytest.approx(loss(one), abs=1e-6)
    assert loss(zero) == 0
    assert loss(2 * one, batch_size=5) == pytest.approx(2 * loss(one), rel=1e-4)
    assert loss(good) + loss(1 - good) == pytest.approx(loss(one), rel=1e-4)
    ids = classifier.preprocessor(x)
    assert classifier.evaluate(ids, y, sample_weight=good, verbose=0)[
        0
    ] == pytest.approx(loss(good), abs=1e-6)
    classifier.compile(keras.optimizers.SGD(1.0, weight_decay=None))
    before = numpy_weights(classifier)
    classifier.fit(x, y, sample_weight=zero, verbose=0)
    assert not changed(before, classifier)
    with pytest.raises(ValueError, match="24 examples, but 3 sample weights"):
        classifier.fit(x, y, sample_weight=[1, 1, 1])
    for wrong in (1.0, {0: 1.0}, ["a"] * 24):
        with pytest.raises(ValueError, match="`sample_weight` must have a number for"):
            classifier.fit(x, y, sample_weight=wrong)
    with pytest.raises(ValueError, match="Row 1 has the sample weight nan"):
        classifier.fit(x, y, sample_weight=[1, np.nan, *[1] * 22])


def test_training_is_reproducible(make_classifier, x, y):
    losses = []
    for seed in (1, 1, 2):
        classifier = make_classifier(dropout=0.2)
        keras.utils.set_random_seed(seed)
        classifier.compile(learning_rate=1e-3)
        history = classifier.fit(x, y, batch_size=8, epochs=2, verbose=0)
        losses.append(history.history["loss"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[0] != pytest.approx(losses[2], abs=1e-5)


def test_training_does_not_depend_on_the_padding(make_classifier, x, y):
    """The same batches, as wide as a bucket or as wide as can be: the same losses."""
    losses = []
    for length in (None, 32):
        classifier = make_classifier(sequence_length=length)
        keras.utils.set_random_seed(1)
        classifier.compile(learning_rate=1e-3)
        history = classifier.fit(x, y, batch_size=8, epochs=3, verbose=0)
        losses.append(history.history["loss"])
    assert classifier.preprocessor(x)["token_ids"].shape[1] == 32
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    # Something was learned, so that the losses could differ.
    assert losses[0][0] - losses[0][-1] > 1e-4


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_torch_compile_reads_a_training_step(make_classifier, x, y, monkeypatch):
    if keras.config.backend() != "torch":
        pytest.skip("`torch.compile` is PyTorch's")
    import torch

    # The C++ of its default compiler would take a minute.
    compiler = functools.partial(torch.compile, backend="eager")
    monkeypatch.setattr(torch, "compile", compiler)
    losses = []
    made = make_classifier()
    config = made.backbone.get_config() | {"num_layers": 1}
    for jit_compile in (False, True):
        keras.utils.set_random_seed(7)
        backbone = AlbertBackbone.from_config(config)
        classifier = AlbertClassifier(backbone, 2, made.preprocessor, dropout=0.0)
        # The steps of AdamW, which are Keras', would take as long again.
        classifier.compile(keras.optimizers.SGD(1e-3), jit_compile=jit_compile)
        history = classifier.fit(x, y, batch_size=len(x), verbose=0).history
        losses.append(history["loss"][0])
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)


def test_a_frozen_backbone_stays(make_classifier, x, y):
    classifier = make_classifier()
    classifier.backbone.trainable = False
    before = numpy_weights(classifier)
    classifier.compile(learning_rate=1e-2)
    classifier.fit(x, y, batch_size=8, verbose=0)
    assert changed(before, classifier) == {"logits/kernel", "logits/bias"}
