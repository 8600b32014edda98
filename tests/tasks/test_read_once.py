"""Each text is read and checked once, whatever the method."""

from collections import Counter

import pytest

from keras_albert.text import reading as read_texts
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm, make_pretrainer
from tests.tasks.question_answering.small_reader import small_reader
from tests.tasks.small_models import small_chooser, small_embedder, small_tagger

TEXTS = ["the lamps", "rain on the hill", "old bread", "storm by the sea", "a river"]
OTHERS = [f"{text} in town" for text in TEXTS]
MASKED = [f"{text} [MASK]" for text in TEXTS]
WORDS = [text.split() for text in TEXTS]
CHOICES = [[f"lamps {row}", f"rain {row}"] for row in range(len(TEXTS))]
SCORES = [0.1, 0.2, 0.3, 0.4, 0.5]

# For each task its data, and methods that take texts.
CASES = {
    "classifier": (
        None,
        ((TEXTS, OTHERS), [0, 1, 1, 0, 1]),
        {
            "classify": ((TEXTS, OTHERS),),
            "classify_documents": (TEXTS,),
            "predict_documents": (TEXTS,),
        },
    ),
    "embedder": (
        small_embedder,
        ((TEXTS, OTHERS), SCORES),
        {"embed": ((TEXTS, OTHERS),), "embed_documents": (TEXTS,)},
    ),
    "chooser": (
        small_chooser,
        ((TEXTS, OTHERS, CHOICES), [0, 1, 1, 0, 1]),
        {"choose": (TEXTS, OTHERS, CHOICES)},
    ),
    "tagger": (
        lambda proto: small_tagger(proto, labels=["O", "a"]),
        (TEXTS, [[{"start": 0, "end": 1, "label": "a"}], [], [], [], []]),
        {"tag": (TEXTS,), "predict_tags": (TEXTS,), "predict_words": (TEXTS,)},
    ),
    "reader": (
        small_reader,
        ((TEXTS, OTHERS), [(0, text.split()[0]) for text in TEXTS]),
        {"answer": (TEXTS, OTHERS)},
    ),
    "filler": (make_masked_lm, (MASKED, None), {"fill_mask": (MASKED,)}),
    "orderer": (
        make_pretrainer,
        ((TEXTS, OTHERS), None),
        {"score_order": (TEXTS, OTHERS)},
    ),
}


@pytest.fixture
def reads(monkeypatch):
    """How often each text was checked for what UTF-8 cannot encode."""
    counts = Counter()
    check = read_texts._refuse_surrogates

    def count(rows, name):
        counts.update(rows)
        check(rows, name)

    monkeypatch.setattr(read_texts, "_refuse_surrogates", count)
    return counts


def make_task(name, make_classifier, proto):
    make = CASES[name][0]
    return make_classifier() if make is None else make(proto)


@pytest.mark.parametrize("name", CASES)
def test_methods_that_answer(name, make_classifier, toy_proto, reads):
    task = make_task(name, make_classifier, toy_proto)
    for method, arguments in {"predict": CASES[name][1][:1], **CASES[name][2]}.items():
        reads.clear()
        getattr(task, method)(*arguments)
        assert set(reads.values()) == {1}, method
        assert len(reads) >= len(TEXTS), method


@pytest.mark.parametrize("name", CASES)
def test_training(name, make_classifier, toy_proto, reads):
    task = make_task(name, make_classifier, toy_proto)
    task.fit(*CASES[name][1], validation_split=0.4, verbose=0)
    assert set(reads.values()) == {1}
    assert len(reads) >= len(TEXTS)


def test_one_text(make_classifier, reads):
    make_classifier().classify("a river")
    assert reads == {"a river": 1}
