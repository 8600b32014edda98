import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.layers.heads import MISSING_CHOICE
from tests.one_backend import on_one_backend_except
from tests.random_weights import fill_weights
from tests.tasks.small_models import small_chooser, toy_questions

pytestmark = on_one_backend_except("TestMissingChoices")

CONTEXT, QUESTION = "the old hill by the sea", "the river was _"
CHOICES = ["bread", "rain storm", "lamps and bread", "the sea"]


@pytest.fixture(scope="module")
def chooser(toy_proto):
    """One whose weights are far from the initial ones: scores differ."""
    return fill_weights(small_chooser(toy_proto))


def test_learns_a_separable_problem(toy_proto):
    x, y = toy_questions(96)
    chooser = small_chooser(toy_proto)
    chooser.compile(learning_rate=4e-3)
    chooser.fit(x, y, batch_size=16, epochs=6, verbose=0)
    loss, accuracy = chooser.evaluate(x, y, verbose=0)
    assert accuracy > 0.9
    assert loss < 0.5
    answer = chooser.choose("the hill", "the old _", ["rain", "rain storm", "bread"])
    assert (answer["index"], answer["choice"]) == (2, "bread")


def test_predictions_are_padded_where_choices_are_missing(chooser):
    x, _ = toy_questions(5, choices=(1, 4))
    outputs = chooser.predict(x, batch_size=2, verbose=0)
    assert outputs.shape == (5, 4)
    counts = np.array([len(row) for row in x[2]])
    missing = np.arange(4) >= counts[:, None]
    np.testing.assert_array_equal(outputs[missing], np.float32(MISSING_CHOICE))
    assert np.abs(outputs[~missing]).max() < 100
    for row in (0, 1):
        alone = chooser.predict([tuple(column[row] for column in x)], verbose=0)
        np.testing.assert_allclose(outputs[row, : counts[row]], alone[0], atol=1e-5)


@settings(max_examples=12, deadline=None)
@given(order=st.permutations(range(4)))
def test_permuted_choices_have_permuted_scores(chooser, order):
    scores = chooser.choose(CONTEXT, QUESTION, CHOICES)["scores"]
    answer = chooser.choose(CONTEXT, QUESTION, [CHOICES[i] for i in order])
    np.testing.assert_allclose(answer["scores"], [scores[i] for i in order], atol=1e-5)
    assert answer["choice"] == CHOICES[int(np.argmax(scores))]


class TestChoose:
    def test_one_question(self, chooser):
        answer = chooser.choose(CONTEXT, QUESTION, CHOICES)
        assert sorted(answer) == ["choice", "index", "scores"]
        assert sum(answer["scores"]) == pytest.approx(1)
        assert answer["scores"][answer["index"]] == max(answer["scores"])
        assert answer["choice"] == CHOICES[answer["index"]]
        assert chooser.choose(None, QUESTION, ["rain"])["scores"] == [1.0]

    def test_many_questions(self, chooser):
        choices = [CHOICES, CHOICES[:2]]
        answers = chooser.choose([CONTEXT, "rain"], [QUESTION] * 2, choices)
        assert [len(answer["scores"]) for answer in answers] == [4, 2]
        single = chooser.choose(CONTEXT, QUESTION, CHOICES)
        np.testing.assert_allclose(answers[0]["scores"], single["scores"], atol=1e-5)
        assert chooser.choose([], [], []) == []


class TestMissingChoices:
    def test_they_carry_no_gradient_and_no_nan(self, toy_proto):
        """Two rows of padding train as if they were not there."""
        x, y = toy_questions(4, choices=(2,))
        models = small_chooser(toy_proto), small_chooser(toy_proto)
        ids = models[0].preprocessor(x)
        wide = {
            name: np.pad(rows, [(0, 0), (0, 2), (0, 0)]) for name, rows in ids.items()
        }
        for model, inputs in zip(models, (ids, wide), strict=True):
            model.compile(keras.optimizers.SGD(0.5))
            model.fit(inputs, y, epochs=2, verbose=0)
        pairs = zip(*(model.get_weights() for model in models), strict=True)
        for expected, got in pairs:
            np.testing.assert_allclose(got, expected, atol=1e-5)


class TestBadInput:
    @pytest.mark.parametrize(
        ("choices", "y", "message"),
        [
            ([["a", "b"], ["c"]], [0, 1], r"Row 1 has the answer 1 \(B\), but its .*1"),
            ([["a", "b"], ["c"]], ["C", "A"], r"Row 0 has the answer 2 \(C\), but its"),
            ([["a", "b"], []], [0, 0], "Row 1 has no choices. Give it at least one"),
            ([["a", "b"], ["c"]], [0, -1], "Row 1 has the answer -1. Pass the number"),
            ([["a", "b"], ["c"]], [0, None], "Row 1 has the answer None"),
            ([["a", "b"], ["c"]], [0], "2 examples, but 1 targets"),
        ],
    )
    def test_names_the_row(self, chooser, choices, y, message):
        x = (["a", "b"], ["c", "d"], choices)
        for method in (chooser.fit, chooser.evaluate, chooser.train_on_batch):
            with pytest.raises(ValueError, match=message):
                method(x, y)

    def test_ids_are_checked(self, chooser):
        x, y = toy_questions(2)
        ids = chooser.preprocessor(x)
        with pytest.raises(ValueError, match=r"Row 0 has the answer 2 \(C\)"):
            chooser.evaluate(ids, [2, 0])
        ids["padding_mask"][1] = 0
        with pytest.raises(ValueError, match="Row 1 of `padding_mask` is all zero"):
            chooser.predict(ids)
        flat = {name: rows[0] for name, rows in ids.items()}
        with pytest.raises(ValueError, match=r"\(examples, choices, tokens\)"):
            chooser.evaluate(flat, y)


def test_data_sets_of_questions(chooser):
    x, y = toy_questions(4, choices=(2,))
    rows = list(zip(*x, strict=True))
    expected = chooser.evaluate(x, y, verbose=0, return_dict=True)
    batches = [(rows[:2], y[:2]), (rows[2:], y[2:])]
    scores = chooser.evaluate(iter(batches), steps=2, verbose=0, return_dict=True)
    assert scores["loss"] == pytest.approx(expected["loss"], abs=1e-5)
    columns = [(tuple(column[i : i + 2] for column in x),) for i in (0, 2)]
    outputs = chooser.predict(iter(columns), steps=2, verbose=0)
    expected = chooser.predict(x, verbose=0)
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
