import signal
import threading

import keras
import numpy as np
import pytest
from keras import ops

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertMaskedLMPreprocessor,
    AlbertMultipleChoice,
    AlbertMultipleChoicePreprocessor,
    AlbertPretrainer,
    AlbertQuestionAnswerer,
    AlbertQuestionAnswererPreprocessor,
    AlbertTextClassifierPreprocessor,
    AlbertTextEmbedder,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenClassifier,
    AlbertTokenClassifierPreprocessor,
    AlbertTokenizer,
    compress,
    distill,
)
from keras_albert.compression.distill import (
    error_of_cosines,
    one_minus_cosine,
    soft_cross_entropy,
    squared_error,
)
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except(
    "test_losses_are_zero_for_equal_vectors_and_equal_what_is_expected",
    "test_the_student_learns_the_vectors_of_the_teacher",
    "test_passages_are_learned_without_dropout",
    "test_a_masked_lm_learns_masked_tokens_too",
    "test_a_classifier_learns_outputs_and_labels",
)

LENGTHS = {"max_sequence_length": 16, "length_buckets": [16]}
WORDS = ["the quick brown fox", "the earth is round", "a fox jumped over the fox"]
TEXTS = [f"{first} {second}" for first in WORDS for second in WORDS] * 4
# One length of rows, so that few programs are compiled.
SHORT = {"batch_size": 4, "max_length": 16, "verbose": 0}


def backbone(seed=3, dropout=0.1, hidden_dim=16):
    keras.utils.set_random_seed(seed)
    return AlbertBackbone(
        dropout=dropout,
        attention_dropout=dropout,
        vocabulary_size=130,
        num_layers=2,
        num_heads=2,
        embedding_dim=16,
        hidden_dim=hidden_dim,
        intermediate_dim=32,
        num_groups=2,
        max_sequence_length=16,
        unroll=True,
    )


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


def embedder(tokenizer, **kwargs):
    preprocessor = AlbertTextEmbedderPreprocessor(tokenizer, **LENGTHS)
    return AlbertTextEmbedder(backbone(**kwargs), preprocessor)


def classifier(tokenizer, **kwargs):
    preprocessor = AlbertTextClassifierPreprocessor(tokenizer, **LENGTHS)
    kwargs = {"num_classes": 2} | kwargs
    return AlbertClassifier(backbone(), preprocessor=preprocessor, **kwargs)


def weights(model):
    return [ops.convert_to_numpy(weight) for weight in model.weights]


def test_losses_are_zero_for_equal_vectors_and_equal_what_is_expected():
    a = np.array([[[3.0, 4.0]], [[0.0, 2.0]]], "float32")
    b = np.array([[[3.0, 0.0]], [[0.0, 2.0]]], "float32")
    values = ops.convert_to_numpy(squared_error(a, b))
    np.testing.assert_allclose(values, [[16 / 25], [0]], rtol=1e-5)
    values = ops.convert_to_numpy(one_minus_cosine(a[:, 0], b[:, 0]))
    np.testing.assert_allclose(values, [0.4, 0], atol=1e-6)
    # The cosines of the first and the second are 0.8 and 0.
    values = ops.convert_to_numpy(error_of_cosines(a[:, 0], b[:, 0]))
    np.testing.assert_allclose(values, [0.32, 0.32], atol=1e-6)
    # At a temperature of 2 the probabilities are 0.75 and 0.25, and 0.5 and 0.5.
    logits = np.array([[2 * np.log(3), 0.0]], "float32")
    expected = 4 * (0.75 * np.log(1.5) + 0.25 * np.log(0.5))
    values = ops.convert_to_numpy(soft_cross_entropy(logits, np.zeros((1, 2), "f4")))
    np.testing.assert_allclose(values, [expected], rtol=1e-5)
    assert float(soft_cross_entropy(logits, logits)[0]) == 0


def test_the_student_learns_the_vectors_of_the_teacher(tokenizer):
    teacher = embedder(tokenizer)
    student = compress(teacher, embedding_dim=6, num_groups=1)
    before = weights(teacher)
    rate = {"learning_rate": 0.02}
    curve = distill(student, teacher, TEXTS, steps=30, **rate, **SHORT)
    assert len(curve) == 15
    assert curve[-1]["val_vector_loss"] < 0.8 * curve[0]["val_vector_loss"]
    assert curve[-1]["val_hidden_loss"] < curve[0]["val_hidden_loss"]
    np.testing.assert_equal(before, weights(teacher))
    assert student.backbone.pooler.trainable


def test_passages_are_learned_without_dropout(tokenizer):
    teacher, curves = embedder(tokenizer), []
    start = compress(teacher, num_layers=1).get_weights()
    for rate in (0.0, 0.5):
        student = compress(embedder(tokenizer, dropout=rate), num_layers=1)
        student.set_weights(start)
        curves.append(distill(student, teacher, TEXTS, steps=4, **SHORT))
        block = student.backbone.encoder.blocks[0]
        rates = block.dropout, block.attention_dropout, student.backbone.dropout
        assert {*rates, student.backbone.embedding.dropout_layer.rate} == {rate}
    assert curves[0] == curves[1]


def test_a_masked_lm_learns_masked_tokens_too(tokenizer):
    preprocessor = AlbertMaskedLMPreprocessor(tokenizer, **LENGTHS)
    teacher = AlbertMaskedLM(backbone(), preprocessor)
    student = compress(teacher, num_layers=1)
    rate = {"learning_rate": 0.01}
    curve = distill(student, teacher, TEXTS, steps=20, **rate, **SHORT)
    assert curve[-1]["val_masked_lm_loss"] < 0.9 * curve[0]["val_masked_lm_loss"]
    assert 0 <= curve[-1]["val_masked_lm_accuracy"] <= 1


X, Y = [*WORDS, "the fox"] * 4, ["a", "b", "a", "b"] * 4


def test_a_classifier_learns_outputs_and_labels(tokenizer):
    teacher = classifier(tokenizer, labels=("a", "b"))
    student = compress(teacher, num_layers=1)
    how = {"learning_rate": 0.01, "verbose": 0}
    curve = distill(student, teacher, X, Y, validation_data=(X, Y), **how)
    # Three epochs of half a batch.
    assert len(curve) == 3
    assert {"label_loss", "output_loss", "hidden_loss", "val_loss"} <= set(curve[0])
    assert curve[-1]["val_hidden_loss"] < curve[0]["val_hidden_loss"]
    assert student.labels == ("a", "b")
    curve = distill(student, teacher, X, steps=1, verbose=0)
    assert "label_loss" not in curve[0]


def test_another_vocabulary_is_taught_by_vectors_alone(tokenizer):
    from keras_albert.text import train_vocabulary

    other = AlbertTokenizer(train_vocabulary(TEXTS * 3, vocabulary_size=36))
    teacher = embedder(tokenizer)
    preprocessor = AlbertTextEmbedderPreprocessor(other, **LENGTHS)
    student = AlbertTextEmbedder(backbone(4), preprocessor)
    curve = distill(student, teacher, TEXTS, steps=2, **SHORT)
    assert "vector_loss" in curve[0]
    assert "hidden_loss" not in curve[0]


@pytest.mark.parametrize("kind", ["tags", "answers", "choices", "scores"])
def test_other_tasks_learn_theirs(tokenizer, kind):
    if kind == "tags":
        preprocessor = AlbertTokenClassifierPreprocessor(tokenizer, **LENGTHS)
        teacher = AlbertTokenClassifier(backbone(), 2, preprocessor=preprocessor)
        x, y = [text.split() for text in X], [[1] * len(text.split()) for text in X]
    elif kind == "answers":
        preprocessor = AlbertQuestionAnswererPreprocessor(
            tokenizer, sequence_length=16, max_query_length=4
        )
        teacher = AlbertQuestionAnswerer(backbone(), preprocessor=preprocessor)
        x, y = (["the"] * 4, ["a fox jumped"] * 4), [(2, "fox")] * 4
    elif kind == "choices":
        preprocessor = AlbertMultipleChoicePreprocessor(
            tokenizer, max_qa_length=8, **LENGTHS
        )
        teacher = AlbertMultipleChoice(backbone(), preprocessor)
        x, y = (["the fox"] * 4, ["the"] * 4, [["a", "fox"]] * 4), [0, 1, 0, 1]
    else:
        teacher = classifier(tokenizer, num_classes=1)
        x, y = X, [0.5] * len(X)
    student = compress(teacher, num_layers=1)
    curve = distill(student, teacher, x, y, steps=2, batch_size=4, verbose=0)
    assert all(np.isfinite(list(row.values())).all() for row in curve)
    assert any(name.startswith("label") for name in curve[0])
    assert any(name.startswith("output") for name in curve[0])


def test_hours_become_steps(tokenizer, tmp_path):
    teacher = embedder(tokenizer)
    student = compress(teacher, embedding_dim=6)
    curve = distill(student, teacher, TEXTS, hours=1e-6, **SHORT)
    assert len(curve) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hours": 1.0, "steps": 1}, "either `hours` or `steps`"),
        ({"steps": None}, "either `hours` or `steps`"),
        ({"hours": -1.0, "steps": None}, "`hours` must be a finite number above 0"),
        ({"max_length": 17}, "`max_length` must be at most 16"),
        ({"x": "a text"}, "`x` must be a list of at least two texts"),
        ({"x": ["", ""]}, "All texts are empty"),
        ({"y": [1]}, "Train on it with `fit`"),
    ],
)
def test_arguments_are_checked_first(tokenizer, change, message):
    teacher = embedder(tokenizer)
    student = compress(teacher, embedding_dim=6)
    before = weights(student)
    with pytest.raises(ValueError, match=message):
        distill(student, teacher, **({"x": TEXTS, "steps": 1} | SHORT | change))
    np.testing.assert_array_equal(before[0], weights(student)[0])


def test_models_must_fit_each_other(tokenizer, tiny_proto):
    teacher = embedder(tokenizer)
    with pytest.raises(TypeError, match="must be a task"):
        distill(backbone(), teacher, TEXTS, steps=1)
    with pytest.raises(ValueError, match="same class and the same width"):
        distill(classifier(tokenizer), teacher, TEXTS, steps=1)
    with pytest.raises(ValueError, match="are the same model"):
        distill(teacher, teacher, TEXTS, steps=1)
    pretrainer = AlbertPretrainer(backbone())
    with pytest.raises(ValueError, match="preprocessor"):
        distill(pretrainer, pretrainer, TEXTS, steps=1)


def test_an_interrupted_run_resumes_with_the_same_result(tokenizer, tmp_path):
    teacher = embedder(tokenizer)

    def train(output, stop_after=None):
        student = compress(teacher, embedding_dim=6)
        how = {"steps": 8, "output": output} | SHORT
        if stop_after is None:
            distill(student, teacher, TEXTS, **how)
            return weights(student)
        # The signal comes while a batch is read.
        original, count = np.random.default_rng, 0

        def signal_once(seed=None):
            nonlocal count
            if isinstance(seed, list) and len(seed) == 3:
                count += 1
                if count == stop_after:
                    main = threading.main_thread().ident
                    signal.pthread_kill(main, signal.SIGTERM)
            return original(seed)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np.random, "default_rng", signal_once)
            with pytest.raises(KeyboardInterrupt):
                distill(student, teacher, TEXTS, **how)
        return None

    whole = train(tmp_path / "whole")
    assert train(tmp_path / "cut", stop_after=5) is None
    np.testing.assert_equal(whole, train(tmp_path / "cut"))
