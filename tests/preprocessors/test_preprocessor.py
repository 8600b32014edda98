"""What all preprocessors have in common."""

import inspect

import pytest

import keras_albert
from keras_albert import AlbertTokenizer

TEXTS = ["the old café", "rain"]


@pytest.mark.parametrize(
    ("task", "columns", "labels"),
    [
        ("MaskedLM", (TEXTS,), None),
        ("MaskedLM", (TEXTS,), [0, 1]),
        ("Pretrainer", (TEXTS, TEXTS), None),
        ("TextEmbedder", (TEXTS,), None),
        ("TextEmbedder", (TEXTS, TEXTS), [0.5, 1.0]),
        ("TokenClassifier", (TEXTS,), None),
        ("QuestionAnswerer", (TEXTS, TEXTS), None),
        ("MultipleChoice", (TEXTS, TEXTS, [TEXTS, TEXTS]), None),
    ],
)
def test_preprocessing_in_a_graph_raises(tf, tiny_proto, task, columns, labels):
    cls = getattr(keras_albert, f"Albert{task}Preprocessor")
    preprocessor = cls(AlbertTokenizer(tiny_proto), max_sequence_length=64)
    x = columns if len(columns) > 1 else columns[0]
    dataset = tf.data.Dataset.from_tensor_slices(
        (x,) if labels is None else (x, labels)
    )
    with pytest.raises(TypeError, match=f"{cls.__name__} runs in Python.*Received: "):
        dataset.batch(2).map(preprocessor)
    # Eager batches of the data set are accepted.
    if labels is None:
        (batch,) = next(iter(dataset.batch(2)))
        preprocessor(batch)


def test_packing_has_its_former_name(tiny_proto):
    tokenizer = AlbertTokenizer(tiny_proto)
    preprocessor = keras_albert.AlbertMaskedLMPreprocessor(tokenizer, share_rows=True)
    assert preprocessor.pack_sequences
    assert preprocessor.get_config()["pack_sequences"]
    with pytest.raises(ValueError, match="Received: pack_sequences=2"):
        keras_albert.AlbertClassifierPreprocessor(tokenizer, share_rows=2)


@pytest.mark.parametrize(
    "name", [n for n in keras_albert.__all__ if n.endswith("Preprocessor")]
)
def test_the_docstring_has_all_arguments(name):
    cls = getattr(keras_albert, name)
    assert "{shared}" not in cls.__doc__
    _, *arguments = inspect.signature(cls.__init__).parameters.values()
    for argument in arguments:
        star = "**" if argument.kind is argument.VAR_KEYWORD else ""
        assert f"\n    {star}{argument.name}: " in cls.__doc__

    # A class of a user has its own, or none, so that `help` reads the base's.
    assert type("Own", (cls,), {}).__doc__ is None


OPTIONS = {
    "Classifier": {"truncate": "waterfall"},
    "MaskedLM": {"seed": 3, "max_ngram": 1},
    "MultipleChoice": {"max_qa_length": 9},
    "Pretrainer": {"seed": 5},
    "QuestionAnswerer": {"doc_stride": 7, "misaligned": "repair"},
    "TextEmbedder": {},
    "TokenClassifier": {"stride": 7, "label_all_pieces": True},
}


@pytest.mark.parametrize("task", OPTIONS)
def test_a_preset_has_the_options(task, tokenizer, tmp_path):
    cls = getattr(keras_albert, f"Albert{task}Preprocessor")
    options = OPTIONS[task] | {"max_sequence_length": 40, "name": "mine"}
    original = cls(tokenizer, length_buckets=(10, 20), **options)
    config = original.get_config()
    assert options.items() <= config.items()
    # KerasHub finds the class through the backbone's config.
    keras_albert.AlbertBackbone(130, 1, 2, 4, 8, 16).save_to_preset(tmp_path)
    original.save_to_preset(tmp_path)
    copy = cls.from_preset(tmp_path)
    # The vocabulary is saved separately.
    assert copy.get_config() | {"tokenizer": 0} == config | {"tokenizer": 0}
    assert copy.tokenizer.proto == tokenizer.proto
    assert cls.from_preset(tmp_path, sequence_length=33).sequence_length == 33


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        ("Classifier", {"sequence_length": 4}, "`sequence_length` must be at least 5"),
        ("Classifier", {"sequence_length": "8"}, "a whole number. .*length='8'"),
        ("Classifier", {"sequence_length": 8.5}, "a whole number. .*length=8.5"),
        ("Classifier", {"max_sequence_length": 0}, "`max_sequence_length` must be at"),
        ("Classifier", {"truncate": "middle"}, "Received: truncate='middle'"),
        ("Classifier", {"length_buckets": [0, 8]}, r"length_buckets=\[0, 8\]"),
        ("Classifier", {"length_buckets": [8.5]}, r"length_buckets=\[8.5\]"),
        ("Classifier", {"length_buckets": 16}, "length_buckets=16. For a single"),
        ("MaskedLM", {"mask_selection_rate": 1.2}, "mask_selection_rate=1.2"),
        ("MaskedLM", {"mask_selection_rate": None}, "mask_selection_rate=None"),
        ("MaskedLM", {"random_token_rate": "0.1"}, "random_token_rate='0.1'"),
        ("MaskedLM", {"mask_selection_length": 2.5}, "mask_selection_length=2.5"),
        (
            *("MaskedLM", {"mask_selection_length": 9, "max_sequence_length": 8}),
            "`mask_selection_length` must be at most 8",
        ),
        ("MaskedLM", {"max_ngram": 0}, "max_ngram=0"),
        ("MaskedLM", {"seed": -1}, "seed=-1"),
        ("MultipleChoice", {"max_qa_length": 0}, "Received: max_qa_length=0"),
        ("QuestionAnswerer", {"doc_stride": 0}, "doc_stride"),
        ("QuestionAnswerer", {"max_query_length": 0}, "max_query_length"),
        ("QuestionAnswerer", {"misaligned": "ignore"}, "misaligned"),
        ("TokenClassifier", {"stride": 0}, "`stride`, .* from 1 to 510.* stride=0"),
        ("TokenClassifier", {"stride": 7, "max_sequence_length": 8}, "from 1 to 6"),
    ],
)
def test_invalid_arguments_raise(task, tokenizer, arguments, message):
    cls = getattr(keras_albert, f"Albert{task}Preprocessor")
    with pytest.raises((ValueError, TypeError), match=message):
        cls(tokenizer, **arguments)
