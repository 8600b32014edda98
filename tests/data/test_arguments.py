"""Arguments of `fit` that cannot be meant are refused before anything is computed."""

import keras
import numpy as np
import pytest

from tests.one_backend import on_one_backend
from tests.tasks.question_answering.small_reader import small_reader, toy_reading
from tests.tasks.small_models import small_backbone, small_tagger, toy_tags

pytestmark = on_one_backend


@pytest.fixture(scope="module")
def model(make_classifier):
    return make_classifier()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": -1}, "`batch_size` must be a whole number"),
        ({"batch_size": 1.5}, "`batch_size` must be a whole number"),
        ({"validation_batch_size": 0}, "`batch_size` must be a whole number"),
        ({"epochs": -1}, "`epochs` must be a whole number"),
        ({"steps_per_epoch": -1}, "`steps_per_epoch` must be a whole number"),
        ({"validation_steps": 1.5}, "`validation_steps` must be a whole number"),
        ({"sample_weight": [1, -1]}, "Row 1 has the sample weight -1.0"),
        ({"sample_weight": [[1, 2], [3, 4]]}, r"an array of shape \(2, 2\)"),
    ],
)
def test_numbers_of_fit(model, arguments, message):
    data = ["a", "b"], [0, 1]
    with pytest.raises(ValueError, match=message):
        model.fit(*data, validation_data=data, **arguments)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("fit", {"epoch": 2}, "`fit` has no argument `epoch`. Did you mean `epochs`"),
        ("fit", {"zzz": 2}, "`zzz`. Its arguments are: .*validation_freq"),
        ("fit", {"callbacks": [keras.callbacks.EarlyStopping]}, "list of instances"),
        ("fit", {"callbacks": 3}, "list of instances of .* Received: 3"),
        ("fit", {"initial_epoch": 1.5}, "`initial_epoch` must be a whole number"),
        ("fit", {"validation_freq": 0}, "`validation_freq` must be a whole number"),
        ("fit", {"validation_data": tuple("abcd")}, "Received: a tuple of 4"),
        ("fit", {"validation_split": "x"}, "fraction .* validation_split='x'"),
        ("evaluate", {"batchsize": 2}, "`evaluate` has no .*mean `batch_size`"),
        ("predict", {"verbos": 0}, "`predict` has no .*mean `verbose`"),
        ("predict", {"callbacks": "x"}, "list of instances"),
        ("classify", {"topk": 2}, "unexpected keyword argument 'topk'"),
        ("compile", {"optimiser": "sgd"}, "`compile` has no .*mean `optimizer`"),
        ("compile", {"learning_rate": "1e-3"}, "must be a finite number above 0"),
        ("compile", {"learning_rate": np.inf}, "must be a finite number above 0"),
        ("compile", {"steps_per_execution": 0}, "`steps_per_execution` must be a"),
        ("compile", {"loss": "crossentrpy"}, "no loss 'crossentrpy'"),
        ("compile", {"loss": 3}, "`loss` must be"),
        ("compile", {"metrics": "accuracy"}, r"pass \['accuracy'\]"),
        ("compile", {"metrics": ["acuracy"]}, "Did you mean 'accuracy'"),
        ("compile", {"weighted_metrics": {"a": ["f9"]}}, "no metric 'f9'"),
    ],
)
def test_options_that_cannot_be_meant_change_nothing(
    make_classifier, method, options, message
):
    model = make_classifier()
    optimizer, loss = model.optimizer, model.loss
    data = {"fit": (["a", "b"], ["x", "y"]), "compile": ()}
    data["evaluate"] = data["fit"]
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(model, method)(*data.get(method, (["a"],)), **options)
    assert model.labels is None
    assert model.optimizer is optimizer
    assert model.loss is loss


def test_a_huge_batch_is_all_examples(model):
    data = ["lamps", "rain"], [0, 1]
    expected = model.evaluate(*data, verbose=0)
    assert model.evaluate(*data, 10**30, verbose=0) == pytest.approx(expected)


def test_arguments_of_constructors(make_classifier):
    with pytest.raises(ValueError, match="`layer_norm_epsilon` must be a number from"):
        small_backbone(layer_norm_epsilon=1e300)
    with pytest.raises(ValueError, match="needs at least two classes"):
        make_classifier(None, labels=["one"])


def test_ids_without_tokens(model):
    ids = np.zeros((2, 0), "int32")
    names = ("token_ids", "segment_ids", "padding_mask")
    with pytest.raises(ValueError, match="have 0 tokens, but the model reads 1"):
        model.predict(dict.fromkeys(names, ids))
    ids = model.preprocessor(["lamps", "rain"])
    with pytest.raises(ValueError, match="`steps=1` ends a data set early"):
        model.predict(ids, batch_size=1, steps=1)
    with pytest.raises(ValueError, match="There are no examples"):
        model.fit({name: rows[:0] for name, rows in ids.items()}, [])


def test_weights_of_words_and_words_to_ignore(toy_proto):
    words, tags = toy_tags(6)
    arguments = {"labels": ["B-place", "O"], "scheme": "BIO"}
    tagger = small_tagger(toy_proto, **arguments)
    weights = [[n % 2 for n, _ in enumerate(row)] for row in words]
    expected = tagger.evaluate(words, tags, sample_weight=weights, verbose=0)
    for ignored in (-100, None):
        some = [
            [tag if weight else ignored for tag, weight in zip(*row, strict=True)]
            for row in zip(tags, weights, strict=True)
        ]
        assert tagger.evaluate(words, some, verbose=0) == pytest.approx(expected)
        learner = small_tagger(toy_proto, num_classes=2)
        learner.fit(words, some, verbose=0, validation_split=0.3, sample_weight=weights)
        assert learner.labels == ("B-place", "O")
    whole = tagger.evaluate(words, tags, sample_weight=[2.0] * 6, verbose=0)
    assert whole == pytest.approx(tagger.evaluate(words, tags, verbose=0))
    with pytest.raises(ValueError, match="Row 1 has 3 words, but 1 sample weights"):
        tagger.fit(words, tags, sample_weight=[[1] * 2, [1], *weights[2:]])
    with pytest.raises(ValueError, match=r"Row 2 of the sample weights: Word 0 has"):
        tagger.fit(words, tags, sample_weight=[*weights[:2], [-1], *weights[3:]])
    with pytest.raises(ValueError, match="a weight for each word"):
        tagger.fit(words, tags, class_weight={"O": 2.0})
    with pytest.raises(ValueError, match="Row 0 has a word without a tag"):
        tagger.evaluate_entities(words, some)
    with pytest.raises(ValueError, match=r"pass `list\(x\)`"):
        tagger.fit(("a", "b"), tags[:2])


@pytest.mark.parametrize("make", [small_tagger, small_reader])
@pytest.mark.parametrize("without", [True, False])
def test_a_data_set_of_ids_with_targets(toy_proto, make, without):
    import tensorflow as tf

    if make is small_tagger:
        task = make(toy_proto, labels=["B-place", "O"], scheme="BIO")
        words, tags = toy_tags(4)
        data = task.preprocessor(words, task.encode_targets(tags))
    else:
        task = make(toy_proto)
        data = task.preprocessor(*toy_reading(4))
        # Of the conditional head.
        data[0].pop("start_positions", None)
    if without:
        task.preprocessor = None
    expected = task.evaluate(*data[:2], sample_weight=(*data, None)[2], verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices(tuple(data)).batch(64)
    assert task.evaluate(dataset, verbose=0) == pytest.approx(expected, rel=1e-5)
    task.fit(dataset, verbose=0)


def test_string_labels_of_batches_need_all_names(model):
    batches = [(["lamps", "rain"], ["bad", "bad"]), (["lamps"], ["good"])]
    with pytest.raises(ValueError, match=r"1 names \(bad\).*`labels=\[...\]`.*lack"):
        model.fit(iter(batches), verbose=0)
    assert keras.tree.flatten(model.labels) == [None]
