"""The question answerer's preprocessor: windows of contexts and targets."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_albert import AlbertQuestionAnswererPreprocessor
from keras_albert.text.spans import ContextTokens

CLS, SEP = 2, 3


CONTEXT = "In 2011, the old café on the corner opened again, and it was full by noon."


QUESTION = "What was full?"


PAIRS = [(QUESTION, CONTEXT), ("Who?", "noon")]


# Any text that UTF-8 can encode, and texts of words in the vocabulary.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


words = st.lists(
    st.sampled_from(["The old café", "£12", "naïve", "½", "ﬁne", "e\u0301t", "."]),
    min_size=1,
    max_size=60,
).map(" ".join)


property_based = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def make(tokenizer):
    def make(max_sequence_length=24, **kwargs):
        return AlbertQuestionAnswererPreprocessor(
            tokenizer, max_sequence_length=max_sequence_length, **kwargs
        )

    return make


class TestOffsets:
    @property_based
    @given(text=st.one_of(texts, words), data=st.data())
    def test_found_tokens_cover_the_span(self, any_tokenizer, text, data):
        tokenizer = any_tokenizer
        start = data.draw(st.integers(0, len(text) - 1))
        end = data.draw(st.integers(start + 1, len(text)))
        tokens = ContextTokens(tokenizer.vocabulary, ["before", text])
        first, last = tokens.find(np.array([1]), np.array([start]), np.array([end]))
        if last < first:
            # The span contains only characters that the vocabulary removes.
            assert not len(tokenizer.tokenize(text[start:end].strip() or "")) or not (
                text[start:end].strip().isascii()
            )
            return
        left, right = (int(n[0]) for n in tokens.characters(np.array([1]), first, last))
        assert 0 <= left <= right <= len(text)
        # The found tokens overlap the span.
        assert right > start
        assert left < end
        # Searching for the characters found does not find more tokens.
        if right > left:
            again = tokens.find(np.array([1]), np.array([left]), np.array([right]))
            assert again[0][0] >= first[0]
            assert again[1][0] <= last[0]

    @property_based
    @given(contexts=st.lists(words, min_size=1, max_size=4))
    def test_token_offsets_refer_to_the_right_text(self, any_tokenizer, contexts):
        tokenizer = any_tokenizer
        tokens = ContextTokens(tokenizer.vocabulary, contexts + contexts)
        assert len(tokens.rows) == len(set(contexts))
        for number, text in enumerate(contexts + contexts):
            ids, starts, ends = tokenizer.tokenize_with_offsets(text)
            place = np.arange(len(ids))
            which = np.full(len(ids), number)
            left, right = tokens.characters(which, place, place)
            np.testing.assert_array_equal(left, starts)
            np.testing.assert_array_equal(right, ends)

    def test_answers_are_targets_in_all_windows_with_them(self, make, tokenizer):
        preprocessor = make(doc_stride=5, num_starts=3)
        start = CONTEXT.index("corner")
        x, y = preprocessor((QUESTION, CONTEXT), (start, "corner"))
        y["end_logits"] = y["end_logits"][:, 0]
        held = np.flatnonzero(y["start_logits"])
        assert 1 <= len(held) < len(y["start_logits"])
        for row in held:
            span = slice(y["start_logits"][row], y["end_logits"][row] + 1)
            assert tokenizer.detokenize(x["token_ids"][row, span]) == "corner"
        np.testing.assert_array_equal(y["answerability"], y["start_logits"] == 0)
        np.testing.assert_array_equal(x["start_positions"][:, 0], y["start_logits"])
        assert (y["end_logits"][y["start_logits"] == 0] == 0).all()
        # The model chooses starts, and the independent head takes none.
        unknown = preprocessor((QUESTION, CONTEXT))["start_positions"]
        assert unknown.shape == (len(held) + sum(y["start_logits"] == 0), 3)
        assert (unknown == -1).all()
        x, y = make(doc_stride=5)((QUESTION, CONTEXT), (start, "corner"))
        assert "start_positions" not in x
        assert set(y) == {"start_logits", "end_logits"}


class TestWindows:
    @property_based
    @given(
        contexts=st.lists(words, min_size=1, max_size=4),
        question=st.sampled_from(["Who?", "What was in the old café by noon? " * 4]),
        length=st.integers(8, 40),
        stride=st.integers(1, 40),
        max_query_length=st.integers(1, 30),
    )
    def test_windows_contain_the_whole_context(
        self, any_tokenizer, contexts, question, length, stride, max_query_length
    ):
        tokenizer = any_tokenizer
        preprocessor = AlbertQuestionAnswererPreprocessor(
            tokenizer,
            max_sequence_length=length,
            doc_stride=stride,
            max_query_length=max_query_length,
        )
        windows, _ = preprocessor.encode(([question] * len(contexts), contexts))
        rows = np.arange(len(windows))
        width = int(windows.lengths.max())
        assert width <= length
        (x,) = windows.pack(rows, width)
        owned = windows.owned_positions(rows, width)
        asked = tokenizer.tokenize(question)
        kept = min(len(asked), max_query_length, (length - 3) // 2)
        for number, context in enumerate(contexts):
            ids = tokenizer.tokenize(context)
            owners = np.zeros(len(ids), int)
            for row in np.flatnonzero(windows.questions == number):
                token_ids, size = x["token_ids"][row], windows.lengths[row]
                assert token_ids[0] == CLS
                np.testing.assert_array_equal(token_ids[1 : kept + 1], asked[:kept])
                assert token_ids[kept + 1] == token_ids[size - 1] == SEP
                begin = windows.starts[row]
                here = ids[begin : begin + size - kept - 3]
                np.testing.assert_array_equal(token_ids[kept + 2 : size - 1], here)
                assert x["padding_mask"][row].sum() == size
                segments = x["segment_ids"][row]
                assert not segments[: kept + 2].any()
                assert segments[kept + 2 : size].all()
                places = np.flatnonzero(owned[row]) - (kept + 2) + begin
                owners[places] += 1
            # Each token is owned by one window.
            np.testing.assert_array_equal(owners, 1)

    def test_long_question_takes_at_most_half_of_the_row(self, make):
        preprocessor = make(max_sequence_length=16)
        x = preprocessor((QUESTION * 9, CONTEXT))
        assert ((x["segment_ids"] == 1).sum(axis=1) >= 7).all()

    def test_windows_have_the_weight_and_target_of_their_question(self, make):
        x, y, weights = make(num_starts=2)(
            ([QUESTION, QUESTION], [CONTEXT, "noon"]),
            [None, (0, "noon")],
            np.array([2.0, 3.0]),
        )
        # Each target has them, with as many axes.
        assert weights["end_logits"].shape == y["end_logits"].shape
        weights = weights["start_logits"]
        assert weights.tolist() == [2.0] * (len(weights) - 1) + [3.0]
        assert y["answerability"].tolist() == [1.0] * (len(weights) - 1) + [0.0]
        assert x["token_ids"].shape[0] == len(weights)


class TestForms:
    @pytest.mark.parametrize(
        "given", [([QUESTION, "Who?"], [CONTEXT, "noon"]), PAIRS, np.array(PAIRS)]
    )
    def test_all_types_are_equal(self, make, given):
        preprocessor = make(max_sequence_length=96)
        expected = preprocessor((QUESTION, CONTEXT))["token_ids"][0]
        found = preprocessor(given)["token_ids"]
        assert len(found) == 2
        np.testing.assert_array_equal(found[0], expected)

    def test_empty_batch(self, make):
        assert len(make().encode(([], []))[0]) == 0
        assert len(make().encode([])[0]) == 0


class TestBadInput:
    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (([QUESTION, ""], [CONTEXT] * 2), "question of row 1 is empty"),
            (([QUESTION, "\u200b"], [CONTEXT] * 2), "question of row 1 is empty"),
            (([QUESTION] * 2, [CONTEXT, "  "]), "context of row 1 is empty"),
            (([QUESTION, None], [CONTEXT] * 2), "row 1 of first texts is None"),
            (([QUESTION], [CONTEXT] * 2), "as many first texts as second"),
            ([QUESTION], "Each question needs its context"),
        ],
    )
    def test_invalid_input_names_the_row(self, make, x, message):
        with pytest.raises(ValueError, match=message):
            make().encode(x)

    def test_errors_name_the_original_row_after_a_dropped_one(self, make):
        questions = ([QUESTION] * 2 + [" "], [CONTEXT] * 3)
        with pytest.raises(ValueError, match="question of row 2"):
            make(misaligned="drop").encode(questions, [(0, "geese"), None, None])

    def test_weights_of_dropped_questions_are_dropped(self, make):
        windows, _ = make(misaligned="drop").encode(
            ([QUESTION] * 2, [CONTEXT, "noon"]), [(0, "geese"), (0, "noon")], [1.0, 2.0]
        )
        assert len(windows) == 1
        weights = windows.pack(np.array([0]), 24)[2]
        assert weights["start_logits"].tolist() == [2.0]

    def test_answer_without_tokens_raises(self, make):
        with pytest.raises(ValueError, match="row 0 has no tokens"):
            make().encode(([QUESTION], ["noon \u200b then"]), [(5, "\u200b")])
