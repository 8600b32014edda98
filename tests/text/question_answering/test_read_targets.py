import numpy as np
import pytest

from keras_albert.text.tasks.question_answering import answer_spans, read_answers

CONTEXT = "ten small ducks, ten hills"


class TestForms:
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
            "ten",
            (0, ""),
            (-1, "ten"),
            (0.5, "ten"),
            (True, "ten"),
            ("ten", 0),
            (None, "ten"),
            {"text": ["ten"]},
            {"text": ["ten"], "answer_start": [0, 1]},
            {"text": ["  "], "answer_start": [0]},
            float("nan"),
            [0, "ten", "ducks"],
        ],
    )
    def test_invalid_answer_names_the_row(self, wrong):
        with pytest.raises(ValueError, match="Row 1 of the answers"):
            read_answers([None, wrong])

    @pytest.mark.parametrize("wrong", ["ten", 3, None])
    def test_other_types_raise(self, wrong):
        with pytest.raises(TypeError, match="Answers are a list"):
            read_answers(wrong)

    def test_columns_of_different_lengths_raise(self):
        with pytest.raises(ValueError, match="2 texts of answers, but 1"):
            read_answers({"text": ["a", "b"], "answer_start": [0]})


class TestSpans:
    def test_whitespace_around_an_answer_is_removed(self):
        spans, _ = answer_spans([((3, " small "),)], [CONTEXT])
        assert spans.tolist() == [[4, 9]]

    def test_misaligned_answer_names_the_nearest_start(self):
        with pytest.raises(ValueError, match=r"row 1, 'ten'.*'en '.*begins at 0"):
            answer_spans([(), ((1, "ten"),)], [CONTEXT, CONTEXT])

    def test_repair_uses_the_nearest_start(self):
        near_first, near_second = ((3, "ten"),), ((15, "ten"),)
        spans, dropped = answer_spans(
            [near_first, near_second], [CONTEXT, CONTEXT], "repair"
        )
        assert spans.tolist() == [[0, 3], [17, 20]]
        assert dropped == []

    def test_repair_raises_if_the_answer_is_not_in_the_context(self):
        with pytest.raises(ValueError, match=r"row 0.*does not have it anywhere"):
            answer_spans([((0, "geese"),)], [CONTEXT], "repair")

    def test_drop_returns_the_dropped_questions(self):
        answers = [((0, "geese"),), ((0, "ten"),), ()]
        spans, dropped = answer_spans(answers, [CONTEXT] * 3, "drop")
        assert dropped == [0]
        assert spans[1:].tolist() == [[0, 3], [-1, -1]]

    def test_start_after_the_context_raises(self):
        with pytest.raises(ValueError, match="at character 900"):
            answer_spans([((900, "ten"),)], [CONTEXT])
