"""What distillation does with each task, and with invalid arguments."""

import signal
import threading

import numpy as np
import pytest

from keras_albert import (
    AlbertMultipleChoice,
    AlbertMultipleChoicePreprocessor,
    AlbertPretrainer,
    AlbertQuestionAnswerer,
    AlbertQuestionAnswererPreprocessor,
    AlbertTextEmbedder,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenClassifier,
    AlbertTokenClassifierPreprocessor,
    AlbertTokenizer,
    compress,
    distill,
)
from tests.compression.test_distill import (
    LENGTHS,
    SHORT,
    TEXTS,
    X,
    backbone,
    classifier,
    embedder,
    tokenizer,
    weights,
)

__all__ = ["tokenizer"]


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
        ({"steps": None}, "Pass `hours`, or `steps`"),
        ({"hours": -1.0, "steps": None}, "`hours` must be above 0"),
        ({"steps": 0}, "steps"),
        ({"max_length": 17}, "`max_length` is at most 16"),
        ({"batch_tokens": 8}, "batch_tokens"),
        ({"learning_rate": 2.0}, "`learning_rate` must be"),
        ({"x": "a text"}, "from a list of texts"),
        ({"x": ["", ""]}, "All texts are empty"),
        ({"y": [1]}, "Train on these with `fit`"),
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
    with pytest.raises(ValueError, match="of the same class"):
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
    for old, new in zip(whole, train(tmp_path / "cut"), strict=True):
        np.testing.assert_array_equal(old, new)
