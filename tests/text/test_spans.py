"""Answers as spans: reading them, and finding them in the outputs of a model."""

import itertools

import numpy as np
import pytest

from keras_albert import AlbertQuestionAnswererPreprocessor, AlbertTokenizer
from keras_albert.layers.heads import MASKED_LOGIT
from keras_albert.text.spans import answer_spans, read_answers, span_candidates

DUCKS = "ten small ducks, ten hills"


class TestAnswers:
    @pytest.mark.parametrize(
        "given",
        [
            [{"text": ["ten", "ducks"], "answer_start": [0, 10]}, None],
            [
                {"text": np.array(["ten", "ducks"]), "answer_start": np.array([0, 10])},
                {"text": [], "answer_start": []},
            ],
            {"text": [["ten", "ducks"], []], "answer_start": [[0, 10], []]},
            [((0, "ten"), (10, "ducks")), ()],
        ],
    )
    def test_all_types_are_equal(self, given):
        expected = [((0, "ten"), (10, "ducks")), ()]
        assert read_answers(given) == expected
        assert read_answers(expected) == expected

    def test_one_answer_as_a_pair_or_as_columns(self):
        assert read_answers([(10, "ducks")]) == [((10, "ducks"),)]
        columns = {"text": np.array([b"ducks"]), "answer_start": np.array([10])}
        assert read_answers(columns) == [((10, "ducks"),)]

    @pytest.mark.parametrize(
        "wrong",
        [
            *("ten", float("nan"), (0, ""), ("ten", 0), [0, "ten", "ducks"]),
            *((n, "ten") for n in (-1, 0.5, True, None)),
            {"text": ["ten"]},
            {"text": ["ten"], "answer_start": [0, 1]},
            {"text": ["  "], "answer_start": [0]},
        ],
    )
    def test_invalid_answer_names_the_row(self, wrong):
        with pytest.raises(ValueError, match="Row 1 of the answers"):
            read_answers([None, wrong])

    @pytest.mark.parametrize("wrong", ["ten", 3, None])
    def test_other_types_raise(self, wrong):
        with pytest.raises(TypeError, match="Answers must be a list"):
            read_answers(wrong)

    def test_columns_of_different_lengths_raise(self):
        with pytest.raises(ValueError, match="2 texts of answers, but 1"):
            read_answers({"text": ["a", "b"], "answer_start": [0]})


class TestSpans:
    def test_whitespace_around_an_answer_is_removed(self):
        spans, _ = answer_spans([((3, " small "),)], [DUCKS])
        assert spans.tolist() == [[4, 9]]

    def test_repair_uses_the_nearest_start(self):
        answers = [((3, "ten"),), ((15, "ten"),)]
        spans, dropped = answer_spans(answers, [DUCKS, DUCKS], "repair")
        assert spans.tolist() == [[0, 3], [17, 20]]
        assert dropped == []

    def test_drop_returns_the_dropped_questions(self):
        answers = [((0, "geese"),), ((0, "ten"),), ()]
        spans, dropped = answer_spans(answers, [DUCKS] * 3, "drop")
        assert dropped == [0]
        assert spans[1:].tolist() == [[0, 3], [-1, -1]]

    @pytest.mark.parametrize(
        ("answer", "options", "message"),
        [
            ((1, "ten"), (), r"row 1, 'ten'.*'en '.*starts at 0"),
            ((0, "geese"), ("repair",), r"row 1.*It is not in its context"),
            ((900, "ten"), (), "at character 900"),
        ],
    )
    def test_misaligned_answers_raise(self, answer, options, message):
        with pytest.raises(ValueError, match=message):
            answer_spans([(), (answer,)], [DUCKS, DUCKS], *options)


CONTEXTS = ["the old café on the corner opened again, and it was full by noon", "noon"]


@pytest.fixture(scope="module")
def windows(tiny_proto):
    preprocessor = AlbertQuestionAnswererPreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=20, doc_stride=6
    )
    windows, _ = preprocessor.encode((["what was full?"] * 2, CONTEXTS))
    assert len(windows) > 3
    return windows


@pytest.fixture(scope="module")
def logits(windows):
    """Random logits, masked where the model masks."""
    rng = np.random.default_rng(4)
    (x,) = windows.pack(np.arange(len(windows)), 20)
    size = windows.lengths[:, None]
    mask = (x["segment_ids"] == 1) & (np.arange(20) < size - 1)
    mask[:, 0] = True

    def draw(*shape):
        return rng.normal(size=shape, scale=2).astype("float32")

    def masked(array, mask):
        return np.where(mask, array, np.float32(MASKED_LOGIT))

    rows = len(windows)
    return {
        "start_logits": masked(draw(rows, 20), mask),
        "end_logits": masked(draw(rows, 20), mask),
        "beams": masked(draw(rows, 3, 20), mask[:, None]),
        "answerability": draw(rows, 1),
    }


def log_softmax(x):
    return x - np.log(np.exp(x - x.max()).sum()) - x.max()


def brute_force(windows, logits, max_length, conditional, end_n_top=99):
    """All spans of all windows, each by itself."""
    owned = windows.owned_positions(np.arange(len(windows)), 20)
    found = {}
    for row in range(len(windows)):
        starts = log_softmax(logits["start_logits"][row].astype(float))
        followed = np.argsort(-starts, kind="stable")[:3] if conditional else range(20)
        for number, start in enumerate(followed):
            if not owned[row, start]:
                continue
            ends = logits["beams"][row, number] if conditional else None
            if ends is None:
                ends = logits["end_logits"][row]
            ends = log_softmax(ends.astype(float))[start : start + max_length]
            for end in np.argsort(-ends)[:end_n_top]:
                if ends[end] < -1e20:
                    continue
                shift = windows.starts[row] - windows.offsets[row]
                question = windows.questions[row]
                span = windows.contexts.characters(
                    np.array([question]),
                    np.array([start + shift]),
                    np.array([start + end + shift]),
                )
                left, right = (int(n[0]) for n in span)
                if right > left:
                    key = (int(question), left, right)
                    found.setdefault(key, []).append(starts[start] + ends[end])
    return found


@pytest.mark.parametrize("max_length", [1, 4, 30])
@pytest.mark.parametrize("conditional", [False, True])
def test_the_best_are_found(windows, logits, max_length, conditional):
    outputs = {name: logits[name] for name in ("start_logits", "end_logits")}
    if conditional:
        outputs["end_logits"] = logits["beams"]
        outputs["answerability"] = logits["answerability"]
    found = span_candidates(outputs, windows, max_length, n_best=500, end_n_top=2)
    expected = brute_force(
        windows, logits, max_length, conditional, 2 if conditional else 99
    )
    seen = [
        (question, int(start), int(end))
        for question in range(2)
        for start, end in zip(found.starts[question], found.ends[question], strict=True)
    ]
    assert sorted(seen) == sorted(
        itertools.chain.from_iterable([k] * len(v) for k, v in expected.items())
    )
    for question in range(2):
        of_question = [v for k, v in expected.items() if k[0] == question]
        scores = sorted(itertools.chain.from_iterable(of_question), reverse=True)
        np.testing.assert_allclose(found.scores[question], scores, rtol=1e-5)
        # Few candidates of each window are the best ones.
        few = span_candidates(outputs, windows, max_length, n_best=1, end_n_top=2)
        if scores:
            np.testing.assert_allclose(few.scores[question][0], scores[0], rtol=1e-5)


def test_no_answer_by_the_window_that_is_least_sure(windows, logits):
    outputs = {name: logits[name] for name in ("start_logits", "answerability")}
    found = span_candidates(
        outputs | {"end_logits": logits["beams"]}, windows, 9, 5, end_n_top=2
    )
    for question in range(2):
        of_question = logits["answerability"][windows.questions == question]
        least = of_question.min()
        assert found.null_scores[question] == pytest.approx(least)
        assert found.null_probabilities[question] == pytest.approx(
            1 / (1 + np.exp(-least))
        )


def test_no_answer_against_the_best_span(windows, logits):
    outputs = {name: logits[name] for name in ("start_logits", "end_logits")}
    found = span_candidates(outputs, windows, 9, 5, end_n_top=2)
    for question in range(2):
        rows = np.flatnonzero(windows.questions == question)
        null = min(
            sum(log_softmax(outputs[name][row].astype(float))[0] for name in outputs)
            for row in rows
        )
        best = found.scores[question][0]
        assert found.null_scores[question] == pytest.approx(null - best)
        assert found.null_probabilities[question] == pytest.approx(np.exp(null))
