"""Small models of the tasks that read several texts an example."""

import keras
import numpy as np

from keras_albert import (
    AlbertBackbone,
    AlbertMultipleChoice,
    AlbertMultipleChoicePreprocessor,
    AlbertTextEmbedder,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenClassifier,
    AlbertTokenClassifierPreprocessor,
    AlbertTokenizer,
)

GOOD, BAD, FILLER = ("lamps", "bread"), ("rain", "storm"), ("the", "old", "hill", "by")
# One width, so that JAX compiles a program once.
LENGTHS = {"max_sequence_length": 32, "length_buckets": [16]}


def small_backbone(**kwargs):
    keras.utils.set_random_seed(7)
    return AlbertBackbone(
        vocabulary_size=40,
        num_layers=2,
        num_heads=2,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=32,
        unroll=True,
        seed=3,
        **kwargs,
    )


def small_chooser(proto, preprocessor=True, dropout=0.0, **kwargs):
    if preprocessor is True:
        preprocessor = AlbertMultipleChoicePreprocessor(
            AlbertTokenizer(proto), max_qa_length=8, **LENGTHS
        )
    return AlbertMultipleChoice(
        small_backbone(), preprocessor, dropout=dropout, **kwargs
    )


def small_embedder(proto, preprocessor=True, **kwargs):
    if preprocessor is True:
        preprocessor = AlbertTextEmbedderPreprocessor(AlbertTokenizer(proto), **LENGTHS)
    return AlbertTextEmbedder(small_backbone(), preprocessor, **kwargs)


def small_tagger(proto, stride=None, sequence_length=None, **kwargs):
    preprocessor = AlbertTokenClassifierPreprocessor(
        AlbertTokenizer(proto),
        sequence_length=sequence_length,
        stride=stride,
        max_sequence_length=16,
        length_buckets=[16],
    )
    kwargs = {"preprocessor": preprocessor, "dropout": 0.0} | kwargs
    return AlbertTokenClassifier(small_backbone(), **kwargs)


def toy_questions(count, choices=(2, 3)):
    """The right choice has words of one kind, the others those of the other."""
    random = np.random.default_rng(1)
    contexts, questions, options, answers = [], [], [], []
    for row in range(count):
        number = choices[row % len(choices)]
        answer = int(random.integers(number))
        contexts.append(" ".join(random.choice(FILLER, random.integers(1, 6))))
        questions.append(("the old _ by", "the hill")[row % 2])
        options.append(
            [
                " ".join(random.choice(GOOD if n == answer else BAD, 2))
                for n in range(number)
            ]
        )
        answers.append(answer)
    return (contexts, questions, options), answers


def toy_pairs(count):
    """Pairs of one kind are alike, others are not."""
    random = np.random.default_rng(2)
    kinds = random.integers(0, 2, (count, 2))
    first, second = (
        [" ".join(random.choice((GOOD, BAD)[kind], 3)) for kind in column]
        for column in kinds.T
    )
    return (first, second), (kinds[:, 0] == kinds[:, 1]).astype(float).tolist()


def toy_tags(count):
    """Words of one kind are places, which others part; the last text is long."""
    random = np.random.default_rng(3)
    words = [
        random.choice([*GOOD, *FILLER], 2 + row % 5).tolist() for row in range(count)
    ]
    words[-1] = words[-1] * 5
    return words, [["B-place" if w in GOOD else "O" for w in row] for row in words]
