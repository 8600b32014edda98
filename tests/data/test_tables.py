"""Columns by name: dicts, data frames, Arrow, `datasets`, and batches of dicts."""

import grain
import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from tests.one_backend import on_one_backend
from tests.tasks.question_answering.small_reader import small_reader, toy_reading
from tests.tasks.small_models import (
    small_chooser,
    small_embedder,
    small_tagger,
    toy_questions,
    toy_tags,
)

datasets = pytest.importorskip("datasets")
pl = pytest.importorskip("polars")

# What Keras says of a stream.
pytestmark = [
    on_one_backend,
    pytest.mark.filterwarnings("ignore:Your input ran out of data:UserWarning"),
]

NAMES = ["neg", "pos"]
ROWS = 8


@pytest.fixture(scope="module")
def columns(toy):
    numbers = [n % 2 for n in range(ROWS)]
    return {"id": list(range(ROWS)), "film": toy[0][:ROWS], "mood": numbers}


@pytest.fixture(scope="module")
def model(make_classifier):
    return make_classifier(labels=NAMES)


def features():
    number, film = datasets.Value("int32"), datasets.Value("string")
    moods = datasets.ClassLabel(names=NAMES)
    return datasets.Features(id=number, film=film, mood=moods)


def rows_of(columns):
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


TABLES = {
    "dict": dict,
    "rows": rows_of,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "datasets": lambda c: datasets.Dataset.from_dict(c, features()),
    "formatted": lambda c: datasets.Dataset.from_dict(c, features()).with_format("np"),
}


class Batches(keras.utils.PyDataset):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


def tf_batches(columns):
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(columns).batch(3)


def batches_of(columns):
    return [{k: v[i : i + 3] for k, v in columns.items()} for i in (0, 3, 6)]


STREAMS = {
    "tf.data": tf_batches,
    "PyDataset": lambda c: Batches(batches_of(c)),
    "generator": lambda c: iter(batches_of(c)),
    "DataLoader": lambda c: torch.utils.data.DataLoader(rows_of(c), batch_size=3),
    "grain": lambda c: grain.MapDataset.source(rows_of(c)).batch(3),
    "datasets": lambda c: TABLES["datasets"](c).to_iterable_dataset(),
    "frames": lambda c: [pd.DataFrame(c)[i : i + 3] for i in (0, 3, 6)].__iter__(),
    "polars": lambda c: Batches(list(pl.DataFrame(c).iter_slices(3))),
    "arrow": lambda c: iter(pa.table(c).to_batches(3)),
}
NAMED = {"text": "film", "label": "mood"}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_tables(model, columns, make):
    table = make(columns)
    expected = model.evaluate(columns["film"], columns["mood"], verbose=0)
    assert model.evaluate(table, **NAMED, verbose=0) == pytest.approx(expected)
    weights = np.arange(ROWS)
    weighted = model.evaluate(
        columns["film"], columns["mood"], sample_weight=weights, verbose=0
    )
    found = model.evaluate(table, **NAMED, sample_weight="id", verbose=0)
    assert found == pytest.approx(weighted, rel=1e-5)
    with pytest.raises(ValueError, match=r"no column 'filn'.*'film'.*mean 'film'"):
        model.evaluate(table, text="filn", label="mood")
    if isinstance(table, list):
        return
    texts, targets = table["film"], table["mood"]
    assert model.evaluate(texts, targets, verbose=0) == pytest.approx(expected)
    assert model.classify(texts) == model.classify(columns["film"])


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_streams_of_dicts(model, columns, make):
    expected = model.evaluate(columns["film"], columns["mood"], verbose=0)
    found = model.evaluate(make(columns), **NAMED, verbose=0)
    assert found == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match=r"no column 'text'; .*'film'"):
        model.evaluate(make(columns), label="mood", verbose=0)


def test_dicts_with_targets(model, columns):
    """As `make_csv_dataset(label_name=...)` of TensorFlow reads a file."""
    import tensorflow as tf

    expected = model.evaluate(columns["film"], columns["mood"], verbose=0)
    texts = {"film": columns["film"], "id": columns["id"]}
    data = tf.data.Dataset.from_tensor_slices((texts, columns["mood"])).batch(3)
    for batches in (data, Batches(list(data.as_numpy_iterator()))):
        found = model.evaluate(batches, text="film", verbose=0)
        assert found == pytest.approx(expected, rel=1e-5)
    column = np.array(columns["film"])[:, None]
    data = tf.data.Dataset.from_tensor_slices((column, columns["mood"])).batch(3)
    assert model.evaluate(data, verbose=0) == pytest.approx(expected, rel=1e-5)


def test_columns_whose_names_are_numbers(model, columns):
    expected = model.evaluate(columns["film"], columns["mood"], verbose=0)
    table = pd.DataFrame({0: columns["film"], 1: columns["mood"]})
    assert model.evaluate(table, text=0, label=1, verbose=0) == pytest.approx(expected)


def test_splits_are_named(model, columns):
    splits = datasets.DatasetDict(train=TABLES["datasets"](columns))
    with pytest.raises(ValueError, match=r"several splits. Pass one of: data\['train'"):
        model.fit(splits, **NAMED)


def test_fit_on_named_columns_with_validation(make_classifier, columns):
    table = TABLES["datasets"](columns)
    for held_out in (table, (columns["film"], columns["mood"])):
        model = make_classifier()
        history = model.fit(
            table, **NAMED, validation_data=held_out, verbose=0, batch_size=4
        )
        # In the order of the data set, also of a name that no row has.
        assert model.labels == tuple(NAMES)
        assert "val_accuracy" in history.history
    model = make_classifier(2, labels=NAMES[::-1])
    assert model.encode_targets(["neg"]).tolist() == [1]
    first = model.evaluate(table, **NAMED, verbose=0)
    names = [NAMES[number] for number in columns["mood"]]
    assert model.evaluate(columns["film"], names, verbose=0) == pytest.approx(first)


def test_default_names_are_text_and_label(model, columns):
    table = {"text": columns["film"], "label": columns["mood"]}
    outputs = model.predict(columns["film"], verbose=0)
    for given in (table, pd.DataFrame(table), datasets.Dataset.from_dict(table)):
        np.testing.assert_array_equal(model.predict(given, verbose=0), outputs)
    twice = pd.DataFrame(table)[["text", "label", "text"]]
    with pytest.raises(ValueError, match="The data have 2 columns 'text'"):
        model.evaluate(twice, verbose=0)
    with pytest.raises(ValueError, match="only a table or a data set of tables has"):
        model.evaluate(columns["film"], columns["mood"], text="text")
    with pytest.raises(ValueError, match="as `y`, or the name"):
        model.evaluate(table, columns["mood"], label="label")


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_second_texts_are_read_by_name(model, columns, make):
    first, second, mood = columns["film"], columns["film"][::-1], columns["mood"]
    expected = model.evaluate((first, second), mood, verbose=0)
    table = {"text": first, "text_pair": second, "label": mood}
    other = {"a": first, "b": second, "c": mood}
    if make is TABLES["datasets"] or make is TABLES["formatted"]:
        make = datasets.Dataset.from_dict
    named = {"text": "a", "text_pair": "b", "label": "c"}
    for form in (make(table), iter([make(table)])):
        assert model.evaluate(form, verbose=0) == pytest.approx(expected, rel=1e-5)
    found = model.evaluate(make(other), **named, verbose=0)
    assert found == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(
        model.predict(make(table), verbose=0),
        model.predict((first, second), verbose=0),
        atol=1e-6,
    )
    # Nothing is read by its place.
    with pytest.raises(ValueError, match="no column 'text'; they have 'a', 'b'"):
        model.evaluate(make(other), mood, verbose=0)
    with pytest.raises(ValueError, match="no column 'text_pair'"):
        model.evaluate(make(other), text="a", text_pair="text_pair", label="c")
    with pytest.raises(TypeError, match="A table is read by the names of its columns"):
        model.preprocessor(pd.DataFrame(table))


def test_pairs_tags_and_labels_of_columns(toy_proto, make_classifier):
    words, tags = toy_tags(ROWS)
    tagger = small_tagger(toy_proto, num_classes=2)
    table = datasets.Dataset.from_dict(
        {"tokens": words, "ner_tags": [[t == "O" for t in row] for row in tags]}
    ).cast_column(
        "ner_tags", datasets.Sequence(datasets.ClassLabel(names=["B-x", "O"]))
    )
    tagger.fit(table, verbose=0)
    assert tagger.labels == ("B-x", "O")
    embedder = small_embedder(toy_proto)
    pairs = {"a": ["lamps"] * 2, "b": ["rain", "lamps"], "same": [0.0, 1.0]}
    arguments = {"text": "a", "text_pair": "b", "label": "same", "verbose": 0}
    assert embedder.evaluate(pairs, **arguments) == pytest.approx(
        embedder.evaluate((pairs["a"], pairs["b"]), pairs["same"], verbose=0)
    )


def test_questions_are_columns(toy_proto):
    reader, chooser = small_reader(toy_proto), small_chooser(toy_proto)
    (asked, contexts), answers = toy_reading(4)
    found = [
        {"text": [a[1]] if a else [], "answer_start": [a[0]] if a else []}
        for a in answers
    ]
    table = {"question": asked, "context": contexts, "answers": found}
    expected = reader.evaluate((asked, contexts), answers, verbose=0)
    (texts, questions, options), right = toy_questions(4)
    choices = {"context": texts, "question": questions, "choices": options}
    for make in (dict, rows_of, datasets.Dataset.from_dict):
        assert reader.evaluate(make(table), verbose=0) == pytest.approx(expected)
        assert chooser.evaluate(
            make(choices | {"answer": right}), verbose=0
        ) == pytest.approx(chooser.evaluate(choices, right, verbose=0))


def test_a_table_of_zeros_and_ones_names_its_labels(make_classifier):
    texts, flags = ["lamps", "rain"], {"toxic": [1, 0], "obscene": [1, 1]}
    for y in (flags, pd.DataFrame(flags), pl.DataFrame(flags), pa.table(flags)):
        model = make_classifier(activation="sigmoid")
        model.fit(texts, y, verbose=0)
        assert model.labels == ("toxic", "obscene")
        assert model.encode_targets(y).tolist() == [[1, 1], [0, 1]]
    model = make_classifier(activation="sigmoid", labels=["obscene", "toxic"])
    model.fit({"text": texts, **flags}, label=["toxic", "obscene"], verbose=0)
    assert model.encode_targets(pd.DataFrame(flags)).tolist() == [[1, 1], [1, 0]]
    with pytest.raises(ValueError, match="columns 'toxic', 'spam', and the labels"):
        model.encode_targets(pd.DataFrame({"toxic": [1], "spam": [0]}))


def test_a_data_set_without_batches_says_so(model, columns):
    import tensorflow as tf

    texts, numbers = columns["film"], columns["mood"]
    ids = model.preprocessor(texts)
    for x, y in ((texts, numbers), (texts, ["pos"] * ROWS), (ids, numbers)):
        data = tf.data.Dataset.from_tensor_slices((x, y))
        with pytest.raises(ValueError, match=r"a data set with `.batch\(32\)`"):
            model.fit(data, verbose=0)
    with pytest.raises(ValueError, match=r"a data set with `.batch\(32\)`"):
        model.fit(iter(zip(texts, numbers, strict=True)), verbose=0)


def test_columns_of_a_zip_are_tuples(model, columns):
    x, y = zip(*zip(columns["film"], columns["mood"], strict=True), strict=True)
    with pytest.raises(ValueError, match=r"pass `list\(x\)`"):
        model.fit(x, y)
    with pytest.raises(ValueError, match=r"pass `list\(x\)`"):
        model.fit(x[:2], y[:2])
