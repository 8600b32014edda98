"""Data that comes in batches of its own."""

import keras
import numpy as np
import pytest

from tests.one_backend import on_one_backend_except

COUNT, SIZE = 24, 8

# Keras says it of every generator that ends.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning"),
    on_one_backend_except(
        "test_evaluates_and_predicts_as_lists_do",
        "test_fits_for_several_epochs",
        "test_a_stream_is_read_in_each_epoch",
        "test_ids_in_tf_data",
        "TestBadData::test_labels_in_tf_data",
        "TestBadData::test_targets_are_missed",
        "test_an_error_in_the_middle_leaves_the_model_whole[1]",
        "TestNoBatches::test_is_refused[fit-filter]",
        "TestNoBatches::test_is_refused[evaluate-filter]",
        "TestNoBatches::test_is_refused[predict-filter]",
        "TestNoBatches::test_what_nobody_has_counted_is_read_once",
        "TestNoEnd::test_steps_are_asked_for",
        "TestBytes::test_are_refused_in_training_and_in_pairs",
    ),
]


@pytest.fixture(scope="module")
def data(toy):
    return toy[0][:COUNT], [int(label == "good") for label in toy[1][:COUNT]]


@pytest.fixture(scope="module")
def expected(trained, data):
    """The loss and the predictions of the same texts, given as lists."""
    loss = trained.evaluate(*data, verbose=0)[0]
    return loss, trained.predict(data[0], verbose=0)


@pytest.fixture(scope="module")
def learner(make_classifier):
    """Compiled once, for all who train on the same shapes."""
    classifier = make_classifier()
    classifier.compile(keras.optimizers.SGD(0.01))
    return classifier


def rows_of(part):
    """Return the rows of a column, or of a pair of columns."""
    return list(zip(*part, strict=True)) if isinstance(part, tuple) else part


def batches_of(*parts):
    def cut(part, rows):
        if isinstance(part, tuple):
            return tuple(cut(column, rows) for column in part)
        return part[rows]

    for start in range(0, len(rows_of(parts[0])), SIZE):
        yield tuple(cut(part, slice(start, start + SIZE)) for part in parts)


class Indexed(keras.utils.PyDataset):
    def __init__(self, *columns):
        super().__init__()
        self.batches = list(batches_of(*columns))
        self.asked = []
        self.epochs = 0

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        self.asked.append(index)
        return self.batches[index]

    def on_epoch_end(self):
        self.epochs += 1


def as_tf_data(*columns):
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")
    return tf.data.Dataset.from_tensor_slices(columns).batch(SIZE)


def as_data_loader(*columns):
    data_utils = pytest.importorskip("torch.utils.data")
    rows = list(zip(*map(rows_of, columns), strict=True))
    return data_utils.DataLoader(rows, batch_size=SIZE)


def as_grain(*columns):
    grain = pytest.importorskip("grain")
    rows = list(zip(*map(rows_of, columns), strict=True))
    return grain.MapDataset.source(rows).batch(SIZE)


FORMS = {
    "generator": batches_of,
    "py_dataset": Indexed,
    "tf_data": as_tf_data,
    "data_loader": as_data_loader,
    "grain": as_grain,
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@forms
def test_evaluates_and_predicts_as_lists_do(trained, data, expected, form):
    loss, outputs = expected
    assert trained.evaluate(form(*data), verbose=0)[0] == pytest.approx(loss, abs=1e-5)
    texts_alone = (element[0] for element in batches_of(data[0]))
    for x in (form(*data), texts_alone):
        got = trained.predict(x, verbose=0)
        np.testing.assert_allclose(got, outputs, atol=1e-5)


@forms
def test_only_a_tuple_within_an_element_is_a_pair(trained, data, expected, form):
    texts, labels = data
    pair = (texts, texts[::-1])
    outputs = trained.predict(pair, verbose=0)
    for x in (form(pair), form(pair, labels)):
        np.testing.assert_allclose(trained.predict(x, verbose=0), outputs, atol=1e-5)
    found = trained.evaluate(form(pair, labels), verbose=0)[0]
    assert found == pytest.approx(
        trained.evaluate(pair, labels, verbose=0)[0], abs=1e-5
    )
    # Names of classes are no second texts.
    names = [trained.class_names[number] for number in labels]
    for x in (form(texts, names), form(texts, texts)):
        found = trained.predict(x, verbose=0)
        np.testing.assert_allclose(found, expected[1], atol=1e-5)


@pytest.mark.parametrize("name", ["py_dataset", "tf_data", "data_loader", "grain"])
def test_fits_for_several_epochs(learner, data, name):
    classifier = learner
    steps = int(classifier.optimizer.iterations)
    history = classifier.fit(
        FORMS[name](*data), epochs=3, validation_data=FORMS[name](*data), verbose=0
    ).history
    assert len(history["loss"]) == len(history["val_loss"]) == 3
    # Each epoch had all three batches.
    assert int(classifier.optimizer.iterations) == steps + 9
    expected = classifier.evaluate(*data, verbose=0)[0]
    assert history["val_loss"][-1] == pytest.approx(expected, abs=1e-5)


class Stream:
    """Batches of an unknown number, as of a data set that is read from the network."""

    def __init__(self, *columns):
        self.columns = columns

    def __iter__(self):
        return batches_of(*self.columns)


def test_a_stream_is_read_in_each_epoch(learner, data):
    steps = int(learner.optimizer.iterations)
    stream = Stream(*data)
    history = learner.fit(stream, epochs=3, validation_data=stream, verbose=0).history
    assert len(history["loss"]) == len(history["val_loss"]) == 3
    assert int(learner.optimizer.iterations) == steps + 9
    rows = batches_of(*data)
    for x, name, option in (
        (rows, "`x`", "steps_per_epoch"),
        (stream, "`validation_data`", "validation_steps"),
    ):
        with pytest.raises(ValueError, match=f"{name} is an iterator.*{option}"):
            learner.fit(x, epochs=2, validation_data=rows)
    # Nothing was read before the error.
    learner.fit(rows, epochs=3, initial_epoch=2, verbose=0)
    assert int(learner.optimizer.iterations) == steps + 12


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_py_dataset_is_shuffled_if_asked(make_classifier, data, shuffle):
    keras.utils.set_random_seed(1)
    dataset = Indexed(*[np.repeat(column, 4)[:COUNT] for column in data])
    dataset.batches *= 4
    make_classifier().fit(dataset, epochs=2, shuffle=shuffle, verbose=0)
    epochs = dataset.asked[-24:-12], dataset.asked[-12:]
    for asked in epochs:
        assert sorted(asked) == list(range(12))
        assert (asked == sorted(asked)) != shuffle
    assert (epochs[0] != epochs[1]) == shuffle
    assert dataset.epochs >= 1


def test_ids_in_tf_data(trained, data, expected):
    tf = pytest.importorskip("tensorflow")
    ids = trained.preprocessor(data[0])
    rows = tf.data.Dataset.from_tensor_slices((ids, data[1])).batch(SIZE)
    assert trained.evaluate(rows, verbose=0)[0] == pytest.approx(expected[0], abs=1e-5)


class TestBadData:
    @pytest.mark.parametrize("form", [batches_of, Indexed])
    @pytest.mark.parametrize(
        ("texts", "labels", "message"),
        [
            (["a", "b"], [0, 2], "Row 1 has the label 2. The model has"),
            (["a", None], [0, 1], "row 1 of texts is None"),
            (["a", "b"], [0], "2 examples, but 1 targets"),
            ("a", [0], r"Received a single one: 'a'"),
            ([1, 2], [0, 1], "row 0 of texts is 1"),
        ],
    )
    def test_batches(self, trained, form, texts, labels, message):
        batch = (texts, labels)
        dataset = Indexed([], [])
        dataset.batches = [batch]
        data = dataset if form is Indexed else iter([batch])
        with pytest.raises((ValueError, TypeError), match=message):
            trained.evaluate(data, verbose=0)

    def test_labels_in_tf_data(self, trained):
        tf = pytest.importorskip("tensorflow")
        pytest.importorskip("tensorflow_text")
        slices = tf.data.Dataset.from_tensor_slices
        data = slices((["a", "b"], [0, 2])).batch(2)
        with pytest.raises(Exception, match=r"Row 1 has the label 2\. The model"):
            trained.fit(data, verbose=0)

    def test_targets_are_missed(self, trained, data):
        message = "A loss needs targets"
        with pytest.raises(ValueError, match=message):
            trained.fit((batch[0] for batch in batches_of(data[0])), verbose=0)
        with pytest.raises(ValueError, match="has its own targets"):
            trained.fit(Indexed(*data), data[1])


@pytest.mark.parametrize("good_batches", [0, 1])
def test_an_error_in_the_middle_leaves_the_model_whole(learner, data, good_batches):
    dataset = Indexed(*data)
    dataset.batches[good_batches] = (["a", None], [0, 1])
    before = learner.predict(data[0], verbose=0)
    for method in (learner.evaluate, learner.predict):
        with pytest.raises(Exception, match="row 1 of texts is None"):
            method(dataset, verbose=0)
        np.testing.assert_allclose(
            learner.predict(data[0], verbose=0), before, atol=1e-6
        )
    with pytest.raises(Exception, match="row 1 of texts is None"):
        learner.fit(dataset, shuffle=False, verbose=0)
    # It goes on from where it was.
    after = learner.predict(data[0], verbose=0)
    assert np.isfinite(after).all()
    assert np.array_equal(after, before) == (good_batches == 0)
    steps = int(learner.optimizer.iterations)
    learner.fit(Indexed(*data), verbose=0)
    assert int(learner.optimizer.iterations) == steps + 3


def unsized(data):
    """Give nothing, which nobody knows before it is read."""
    return data.filter(lambda *_: False)


EMPTY = {
    "take": lambda *columns: as_tf_data(*columns).take(0),
    "filter": lambda *columns: unsized(as_tf_data(*columns)),
    "py_dataset": lambda *_: _no_batches(),
    "generator": lambda *_: iter(()),
    "data_loader": lambda *_: as_data_loader([], []),
}


def _no_batches():
    dataset = Indexed([], [])
    dataset.batches = []
    return dataset


class TestNoBatches:
    MESSAGE = "`x` is an empty data set: it has no batch. Check the files"

    @pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
    @pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
    def test_is_refused(self, learner, data, empty, method):
        before = learner.predict(data[0], verbose=0)
        with pytest.raises(ValueError, match=self.MESSAGE):
            getattr(learner, method)(empty(*data), verbose=0)
        np.testing.assert_array_equal(learner.predict(data[0], verbose=0), before)

    @pytest.mark.parametrize("form", ["take", "filter", "py_dataset"])
    def test_nothing_is_held_out(self, learner, data, form):
        message = self.MESSAGE.replace("`x`", "`validation_data`")
        with pytest.raises(ValueError, match=message):
            learner.fit(*data, validation_data=EMPTY[form](*data), verbose=0)

    def test_what_nobody_has_counted_is_read_once(self, learner, data):
        tf = pytest.importorskip("tensorflow")
        pytest.importorskip("tensorflow_text")
        batches = batches_of(*data)  # one generator
        spec = tf.TensorSpec((None,), tf.string), tf.TensorSpec((None,), tf.int32)
        once = tf.data.Dataset.from_generator(lambda: batches, output_signature=spec)
        expected = learner.evaluate(*data, verbose=0)[0]
        # Compiled and built, or Keras itself reads a batch ahead.
        assert learner.evaluate(once, verbose=0)[0] == pytest.approx(expected, abs=1e-5)


class TestNoEnd:
    @pytest.mark.parametrize(
        ("method", "option"),
        [("fit", "steps_per_epoch"), ("evaluate", "steps"), ("predict", "steps")],
    )
    def test_steps_are_asked_for(self, learner, data, method, option):
        message = f"`x` is an infinite data set, and `{option}` is None. Pass"
        endless = as_tf_data(*data).repeat()
        with pytest.raises(ValueError, match=message):
            getattr(learner, method)(endless, verbose=0)
        getattr(learner, method)(endless, **{option: 2}, verbose=0)
        getattr(learner, method)(endless.take(2), verbose=0)


class TestBytes:
    INVALID = (b"caf\xe9", b"\xed\xa0\x80", b"a\xff", b"\xc0\x80", b"\xf4\x90\x80\x80")

    @pytest.mark.parametrize("text", INVALID)
    def test_are_refused_as_in_lists(self, trained, text):
        rows = [b"ok", "né \U0010ffff \ufeff \0".encode(), text]
        with pytest.raises(ValueError, match="row 2 of texts is not UTF-8"):
            trained.predict(rows, verbose=0)
        for data in (as_tf_data(rows).map(lambda x: x), as_tf_data(rows)):
            with pytest.raises(Exception, match="row 2 of texts is not UTF-8"):
                trained.predict(data, verbose=0)
        good = trained.predict(as_tf_data(rows[:2]), verbose=0)
        np.testing.assert_allclose(
            good, trained.predict(rows[:2], verbose=0), atol=1e-5
        )

    def test_are_refused_in_training_and_in_pairs(self, learner):
        rows, labels = ["a", "b"], [0, 1]
        bad = [b"\xff", b"b"]
        with pytest.raises(Exception, match=r"row 0 of texts is not UTF-8\. Decode"):
            learner.fit(as_tf_data(bad, labels), verbose=0)
        with pytest.raises(Exception, match="row 0 of second texts is not UTF-8"):
            learner.evaluate(as_tf_data((rows, bad), labels), verbose=0)
