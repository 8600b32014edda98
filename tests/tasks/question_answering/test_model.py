import keras
import numpy as np
import pytest

from keras_albert.text.spans import ContextTokens
from tests.one_backend import on_one_backend
from tests.tasks.question_answering.small_reader import (
    CONTEXT,
    small_reader,
    toy_reading,
)

pytestmark = on_one_backend

HEADS = ("independent", "conditional")


@pytest.fixture(scope="module")
def readers(toy_proto):
    """A trained reader for each head: to read, not to change."""
    x, y = toy_reading(24)
    readers = {}
    for head in HEADS:
        readers[head] = small_reader(toy_proto, head=head)
        readers[head].compile(learning_rate=3e-3)
        readers[head].fit(x, y, batch_size=16, epochs=60, verbose=0)
    return readers


def test_one_context_of_many_questions(toy_proto):
    reader, questions = small_reader(toy_proto), ["the lamps", "the bread"]
    expected = reader.answer(questions, [CONTEXT] * 2)
    assert reader.answer(questions, CONTEXT) == expected
    with pytest.raises(ValueError, match="2"):
        reader.answer(questions, [CONTEXT])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("threshold", [None, 0.0])
def test_a_context_without_visible_characters_has_no_answer(head, threshold, toy_proto):
    reader = small_reader(toy_proto, head=head, null_threshold=threshold)
    nothing = {"answer": "", "score": 1.0, "start": 0, "end": 0}
    for blank in ("", " ", "\u00ad", "\n\u200b\ufe0f"):
        assert reader.answer("the lamps", blank) == nothing
    contexts = [CONTEXT, "\u00ad", CONTEXT]
    found = reader.answer(["the lamps"] * 3, contexts, top_k=2)
    assert found[1] == [nothing]
    alone = reader.answer("the lamps", CONTEXT, top_k=2)
    for row in (found[0], found[2]):
        assert [each["answer"] for each in row] == [each["answer"] for each in alone]


def test_numbers_that_size_memory_are_bounded(toy_proto):
    for name in ("start_n_top", "end_n_top"):
        with pytest.raises(ValueError, match=f"`{name}` must be at most 100"):
            small_reader(toy_proto, head="conditional", **{name: 10**9})
    reader = small_reader(toy_proto)
    expected = reader.answer("the lamps", CONTEXT, 1, 16)
    assert reader.answer("the lamps", CONTEXT, 10**9, 10**9)[0] == expected


@pytest.mark.parametrize("head", HEADS)
class TestAnswers:
    def test_it_learns_what_is_there_and_what_is_not(self, readers, head):
        (questions, contexts), answers = toy_reading(6)
        found = readers[head].answer(questions, contexts)
        for answer, right, context in zip(found, answers, contexts, strict=True):
            start, text = right or (0, "")
            assert answer["answer"] == text
            assert (answer["start"], answer["end"]) == (start, start + len(text))
            assert context[answer["start"] : answer["end"]] == text
            assert 0 < answer["score"] <= 1

    def test_a_context_longer_than_a_row(self, readers, head):
        filler = "on a hill in old town it was small and of the sea " * 8
        context = f"{filler}{CONTEXT} {filler}"
        windows, _ = readers[head].preprocessor.encode((["the bread"], [context]))
        assert len(windows) > 10
        ranked = readers[head].answer("the bread", context, top_k=30)
        assert len(ranked) == 30
        for answer in ranked:
            assert context[answer["start"] : answer["end"]] == answer["answer"]
        # It looks into more than one window.
        assert max(answer["start"] for answer in ranked) > len(context) / 2

    def test_several_answers_fall_in_score(self, readers, head):
        ranked = readers[head].answer("the lamps", CONTEXT, top_k=4)
        assert len(ranked) == 4
        assert ranked[0] == readers[head].answer("the lamps", CONTEXT)
        scores = [answer["score"] for answer in ranked]
        assert scores == sorted(scores, reverse=True)
        assert len({(answer["start"], answer["end"]) for answer in ranked}) == 4
        for answer in ranked:
            assert CONTEXT[answer["start"] : answer["end"]] == answer["answer"]

    def test_answers_are_no_longer_than_asked(self, readers, head):
        reader = readers[head]
        ranked = reader.answer("the lamps", CONTEXT, 5, max_answer_length=2)
        spans = [(a["start"], a["end"]) for a in ranked if a["answer"]]
        tokens = ContextTokens(reader.preprocessor.tokenizer.vocabulary, [CONTEXT])
        starts, ends = np.transpose(spans)
        first, last = tokens.find(np.zeros(len(spans), int), starts, ends)
        assert (last - first < 2).all()

    def test_no_company_changes_an_answer(self, readers, head):
        (questions, contexts), _ = toy_reading(6)
        together = readers[head].answer(questions, contexts, batch_size=2)
        alone = readers[head].answer(questions[0], contexts[0])
        assert alone["answer"] == together[0]["answer"]
        assert alone["score"] == pytest.approx(together[0]["score"], rel=1e-3)
        assert readers[head].answer([], []) == []

    def test_the_threshold_decides(self, readers, head):
        reader = readers[head]
        learned = reader.null_threshold
        try:
            reader.null_threshold = None
            assert reader.answer("the storm", CONTEXT)["answer"]
            reader.null_threshold = -1e9
            nothing = reader.answer("the lamps", CONTEXT)
            assert (nothing["answer"], nothing["start"], nothing["end"]) == ("", 0, 0)
            x, y = toy_reading(6)
            threshold = reader.choose_null_threshold(x, y)
            assert threshold == reader.null_threshold
            answers = [answer["answer"] for answer in reader.answer(*x)]
            assert answers == [right[1] if right else "" for right in y]
        finally:
            reader.null_threshold = learned


def test_gold_starts_train_and_likely_ones_predict(readers):
    reader = readers["conditional"]
    x, y = toy_reading(3)
    ids, _ = reader.preprocessor(x, y)
    known = reader.predict(ids, verbose=0)
    assert known["end_logits"].shape[1] == 1
    del ids["start_positions"]
    beams = reader.predict(ids, verbose=0)
    assert beams["end_logits"].shape[1] == reader.start_n_top
    # Well trained, the likeliest start is the right one.
    np.testing.assert_allclose(
        beams["end_logits"][:, 0], known["end_logits"][:, 0], atol=1e-3
    )


def test_only_a_model_that_saw_no_answer_says_so(toy_proto):
    reader = small_reader(toy_proto)
    x, y = toy_reading(4, answerable=True)
    reader.fit(x, y, verbose=0)
    assert reader.null_threshold is None
    assert all(answer["answer"] for answer in reader.answer(*x))
    with pytest.raises(ValueError, match="4 with and 0 without"):
        reader.choose_null_threshold(x, y)
    given = small_reader(toy_proto, null_threshold=1.5)
    assert given.get_config()["null_threshold"] == 1.5


class TestBadInput:
    def test_arguments(self, toy_proto):
        for wrong in ({"head": "both"}, {"start_n_top": 0}, {"end_n_top": 0}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                small_reader(toy_proto, **wrong)

    def test_calls(self, readers):
        reader = readers["independent"]
        with pytest.raises(ValueError, match="top_k=0"):
            reader.answer("the lamps", CONTEXT, top_k=0)
        with pytest.raises(ValueError, match="context of row 1 is empty"):
            reader.predict((["the lamps"] * 2, [CONTEXT, ""]))
        with pytest.raises(ValueError, match="as many first texts"):
            reader.answer(["the lamps"], [CONTEXT] * 2)

    def test_answers(self, readers):
        (questions, contexts), y = toy_reading(3)
        reader = readers["independent"]
        with pytest.raises(ValueError, match="answer of row 1, 'rain'"):
            reader.evaluate((questions, contexts), [y[0], (0, "rain"), None], verbose=0)
        with pytest.raises(ValueError, match="3 examples, but 2 targets"):
            reader.evaluate((questions, contexts), y[:2], verbose=0)

    @pytest.mark.parametrize("head", HEADS)
    def test_ids(self, readers, head):
        reader = readers[head]
        ids, targets = reader.preprocessor(*toy_reading(3))
        outside = targets | {"end_logits": targets["end_logits"] + 99}
        with pytest.raises(ValueError, match="Row 0 of `end_logits`"):
            reader.evaluate(ids, outside, verbose=0)
        with pytest.raises(TypeError, match="targets of ids must be a dict"):
            reader.evaluate(ids, [1, 2, 3], verbose=0)
        starts = np.full((len(ids["token_ids"]), 1), 99)
        with pytest.raises(ValueError, match="Row 0 of `start_positions`"):
            reader.predict(ids | {"start_positions": starts})
        wrong = targets | {"start_logits": np.zeros(len(ids["token_ids"]))}
        with pytest.raises(
            ValueError, match="`start_logits` must be an array with one number per row"
        ):
            reader.evaluate(ids, wrong, verbose=0)


def test_sample_weights_and_data_sets(toy_proto):
    x, y = toy_reading(4)
    reader = small_reader(toy_proto, head="conditional")
    whole = reader.evaluate(x, y, verbose=0, return_dict=True)
    questions, contexts = x
    first = reader.evaluate(
        ([questions[0]], [contexts[0]]), y[:1], verbose=0, return_dict=True
    )
    weighted = reader.evaluate(
        x, y, sample_weight=[1.0, 0, 0, 0], verbose=0, return_dict=True
    )
    # Keras divides by the number of rows, whatever their weights.
    rows = len(reader.preprocessor.encode(x)[0])
    of_first = len(reader.preprocessor.encode(([questions[0]], [contexts[0]]))[0])
    assert weighted["loss"] == pytest.approx(first["loss"] * of_first / rows, rel=1e-3)
    ids, targets, weights = reader.preprocessor(x, y, [1.0, 0, 0, 0])
    by_ids = reader.evaluate(
        ids, targets, sample_weight=weights, verbose=0, return_dict=True
    )
    assert by_ids["loss"] == pytest.approx(weighted["loss"], rel=1e-3)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            part = slice(2 * index, 2 * index + 2)
            return (questions[part], contexts[part]), y[part]

    streamed = reader.evaluate(Batches(), verbose=0, return_dict=True)
    assert streamed["loss"] == pytest.approx(whole["loss"], rel=0.3)
    reader.fit(Batches(), validation_data=(x, y), verbose=0)
    reader.fit(x, y, validation_split=0.5, verbose=0)
