"""A token classifier: its targets, its answers, and transformers' logits."""

import keras
import numpy as np
import pytest

from tests.one_backend import on_one_backend_except
from tests.tasks.small_models import small_tagger

pytestmark = on_one_backend_except("test_the_loss_is_the_mean_over_tagged_positions")

WORDS = [["the", "old", "hill"], ["rain", "on", "the", "sea"], ["a", "small", "town"]]
TAGS = [["O", "B-place", "I-place"], ["O", "O", "O", "B-place"], ["O", "O", "B-place"]]
TEXT = "THE  Old\u00a0hill"


@pytest.fixture(scope="module")
def make(toy_proto):
    def make(**arguments):
        if "labels" not in arguments:
            arguments.setdefault("num_classes", 3)
        return small_tagger(toy_proto, sequence_length=16, **arguments)

    return make


@pytest.fixture(scope="module")
def tagger(make):
    """One that has learned three sentences by heart."""
    tagger = make()
    tagger.compile(learning_rate=1e-2)
    tagger.fit(WORDS * 8, TAGS * 8, batch_size=8, epochs=25, verbose=0)
    return tagger


def test_it_learns_tags_and_their_names(tagger):
    assert (tagger.labels, tagger.scheme) == (("B-place", "I-place", "O"), "BIO")
    assert tagger.predict_tags(WORDS) == TAGS
    assert tagger.evaluate(WORDS, TAGS, verbose=0, return_dict=True)["accuracy"] == 1.0


def test_entities_of_texts_and_of_words(tagger):
    (entity,) = tagger.tag(TEXT)
    assert TEXT[entity["start"] : entity["end"]] == entity["text"] == "Old\u00a0hill"
    assert entity["label"] == "place"
    assert 0.5 < entity["score"] <= 1
    assert set(entity) == {"label", "score", "start", "end", "text"}
    (entity,) = tagger.tag(tuple(WORDS[0]))
    words = entity["start_word"], entity["end_word"], entity["text"]
    assert words == (1, 3, "old hill")
    assert [len(found) for found in tagger.tag(WORDS)] == [1, 1, 1]
    # Nothing to see: no words, blanks, a character without width, an emoji's joiner.
    assert tagger.tag(["", " \n", "\u200b", "\u200d"]) == [[], [], [], []]
    assert tagger.tag("") == []
    assert tagger.tag([]) == []
    (entity,) = tagger.tag([["the", "old", "\u200b", "hill"]])[0]
    assert (entity["start_word"], entity["end_word"]) == (1, 4)


def test_scores_of_entities(tagger):
    pytest.importorskip("seqeval")
    scores = tagger.evaluate_entities(WORDS, TAGS)
    assert (scores["f1"], scores["support"]) == (1.0, 3)
    wrong = [["B-place", "I-place", "I-place"], *TAGS[1:]]
    assert tagger.evaluate_entities(WORDS, wrong)["f1"] == pytest.approx(2 / 3)
    # Of texts the characters count.
    place = {"start": 5, "end": 13, "label": "place"}
    assert tagger.evaluate_entities([TEXT], [[place]])["labels"]["place"]["f1"] == 1.0
    assert tagger.evaluate_entities([TEXT], [[place | {"end": 12}]])["f1"] == 0.0
    with pytest.raises(ValueError, match="Row 2 has 3 words, but 2 tags"):
        tagger.evaluate_entities(WORDS, [*TAGS[:2], TAGS[2][:2]])


def test_texts_with_entities_are_learned_as_their_words_are(make):
    from_words, from_texts = make(), make()
    spans = [
        [{"start": 4, "end": 12, "label": "place"}],
        [{"start": 12, "end": 15, "label": "place"}],
        [{"start": 8, "end": 12, "label": "place"}],
    ]
    texts = [" ".join(words) for words in WORDS]
    keras.tree.map_structure(
        np.testing.assert_array_equal,
        from_texts.preprocess_samples(texts, spans),
        from_words.preprocess_samples(WORDS, TAGS),
    )
    assert from_texts.labels == from_words.labels == ("B-place", "I-place", "O")


def test_the_loss_is_the_mean_over_tagged_positions(make):
    task = make(labels=["B-place", "I-place", "O"])
    words = [["the", "hill"], ["old", "\u200b", "town", "by", "the", "river"]]
    tags = [["O", "B-place"], ["B-place", "I-place", "I-place", "O", "O", "O"]]
    logits = task.predict(words, verbose=0)
    _, y, weights = task.preprocessor(words, task.encode_targets(tags))
    assert weights.sum() == 7
    raised = np.exp(logits)
    log = np.log(raised / raised.sum(-1, keepdims=True))
    losses = -np.take_along_axis(log, y[..., None], -1)[..., 0]
    expected = (losses * weights).sum() / weights.sum()
    scores = task.evaluate(words, tags, verbose=0, return_dict=True)
    np.testing.assert_allclose(scores["loss"], expected, rtol=1e-4)
    accuracy = ((logits.argmax(-1) == y) * weights).sum() / 7
    np.testing.assert_allclose(scores["accuracy"], accuracy, rtol=1e-4)
    # Nothing to learn from is no trouble.
    assert task.evaluate([["\u200b"]], [["O"]], verbose=0)[0] == 0


def test_long_documents_are_read_in_windows_and_merged(make, monkeypatch):
    """A word is read where it has most context; the rows there say the same."""
    task = make(stride=4)
    words = [[*WORDS[0], *WORDS[1], *WORDS[2]] * 4, ["a"]]
    rows = task.predict(words, verbose=0)
    assert len(rows) > 3
    merged = task.predict_words(words)
    assert [len(row) for row in merged] == [40, 1]
    np.testing.assert_allclose(merged[0].sum(-1), 1, rtol=1e-5)
    examples, _ = task.preprocessor.encode(words, [np.arange(40) % 3, np.array([0])])
    _, _, weights = examples.pack(np.arange(len(rows)), 16)
    read = rows[weights > 0]
    exponents = np.exp(read - read.max(-1, keepdims=True))
    probabilities = exponents / exponents.sum(-1, keepdims=True)
    np.testing.assert_allclose(probabilities, np.concatenate(merged), rtol=1e-5)
    # One label wins everywhere: the entities' words are whole in all windows.
    monkeypatch.setattr(task, "labels", ("B-a", "O", "I-a"))
    assert len(task.predict_tags(words)[0]) == 40


class Batches(keras.utils.PyDataset):
    """Words and tags, one text a batch."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return WORDS[index : index + 1], TAGS[index : index + 1]


def test_data_sets(tagger):
    scores = tagger.evaluate(Batches(), verbose=0, return_dict=True)
    np.testing.assert_allclose(
        scores["accuracy"], tagger.evaluate(WORDS, TAGS, verbose=0)[1]
    )
    rows = tagger.predict(WORDS, verbose=0)
    # Lists of tags are not the second texts of pairs.
    np.testing.assert_allclose(tagger.predict(Batches(), verbose=0), rows, atol=1e-5)


def test_numbers_alone_and_bare_labels(make):
    task = make()
    task.fit(WORDS, [[0, 1, 2], [0, 0, 1, 1], [2, 2, 2]], verbose=0)
    assert task.labels is None
    assert {tag for row in task.predict_tags(WORDS) for tag in row} <= {"0", "1", "2"}
    task = make(labels=["NOUN", "VERB", "O"])
    task.encode_targets([["VERB", "NOUN"]])
    assert task.known_scheme == "IO"


def test_iob1_is_learned_and_checked(make):
    task = make(num_classes=2)
    task.encode_targets([["I-a", "I-a", "O"], ["I-a"]])
    assert (task.labels, task.scheme) == (("I-a", "O"), "IOB1")
    task = make(labels=["B-a", "I-a", "O"])
    task.encode_targets([["I-a", "B-a"]])  # By their names alone these could be BIO.
    with pytest.raises(ValueError, match=r"Row 0, word 1, .*'I-a'.*BIO"):
        make(labels=["B-a", "I-a", "O"], scheme="BIO").encode_targets([["O", "I-a"]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": None}, "number of classes is not known"),
        ({"num_classes": 2, "labels": ["O"]}, "as many names as classes"),
        ({"scheme": "IOB2"}, "`scheme` must be .*'IOB2'"),
    ],
)
def test_arguments_that_disagree(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


@pytest.mark.parametrize(
    ("words", "tags", "message"),
    [
        (WORDS, [*TAGS[:2], ["O"]], "Row 2 has 3 words, but 1 tags"),
        (WORDS, TAGS[:2], "3 examples, but 2 targets"),
        ([["a"]], [["B-person"]], "Row 0 of the targets: Word 0 has the label 'B-p"),
        ([["a"]], [["I-place"]], "Row 0, word 0, has the tag 'I-place': in BIO"),
        (["a"], [["O"]], "Row 0 is a raw text, whose target is its entities"),
        ([], [], "`x` is empty"),
        ([["a"]], None, "A loss needs targets"),
    ],
)
def test_targets_that_cannot_be(tagger, words, tags, message):
    with pytest.raises(ValueError, match=message):
        tagger.fit(words, tags, verbose=0)


def test_too_few_names(make):
    with pytest.raises(ValueError, match=r"2 names .* the model has 3 classes"):
        make().fit([["a", "the"]], [["B-a", "O"]], verbose=0)
