"""What all preprocessors have in common, and the lengths of batches."""

import inspect
from itertools import pairwise

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_albert
from keras_albert import AlbertTokenizer
from keras_albert.preprocessors import preprocessor as length_buckets
from keras_albert.preprocessors.preprocessor import default_length_buckets
from keras_albert.text.packing import plan_batches

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
        (
            "Classifier",
            {"sequence_length": 4},
            "`sequence_length` must be .* at least 5",
        ),
        ("Classifier", {"sequence_length": "8"}, "a whole number.*length='8'"),
        ("Classifier", {"sequence_length": 8.5}, "a whole number.*length=8.5"),
        ("Classifier", {"max_sequence_length": 0}, "`max_sequence_length` must be"),
        ("Classifier", {"truncate": "middle"}, "Received: truncate='middle'"),
        ("Classifier", {"length_buckets": [0, 8]}, r"length_buckets=np.int64\(0\)"),
        ("Classifier", {"length_buckets": [8.5]}, "`length_buckets` must be an array"),
        ("Classifier", {"length_buckets": 16}, r"of shape \(lengths\)"),
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


@given(st.integers(1, 5000))
def test_default_buckets_increase_to_the_maximum(longest):
    buckets = default_length_buckets(longest)
    assert buckets[-1] == longest
    # How much a row is padded at most.
    share = {"jax": 1 / 2, "torch": 1 / 16}.get(keras.config.backend(), 0)
    assert all(a < b <= max(a + 8, a * (1 + share)) for a, b in pairwise(buckets))


def test_default_buckets_on_a_gpu(monkeypatch):
    if keras.config.backend() == "jax":
        pytest.skip("JAX has the same lengths on all devices")
    monkeypatch.setattr(length_buckets, "_is_on_cpu", lambda: False)
    assert default_length_buckets(512) == tuple(range(8, 513, 8))


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_have_little_padding(seed):
    # A skewed distribution of lengths up to 512, as for real sentences.
    random = np.random.default_rng(3)
    lengths = np.clip(random.lognormal(2.7, 0.6, 4000).astype(int), 3, 512)
    generator = None if seed is None else np.random.default_rng(seed)
    buckets = default_length_buckets(512)

    def padded(plan):
        return sum(
            len(batch) * next(n for n in buckets if n >= lengths[batch].max())
            for batch in plan
        )

    sorted_plan = plan_batches(lengths, 32, generator)
    unsorted = np.split(random.permutation(4000), range(32, 4000, 32))
    real = lengths.sum()
    assert padded(sorted_plan) < 1.35 * real
    assert padded(unsorted) > 2.2 * real
