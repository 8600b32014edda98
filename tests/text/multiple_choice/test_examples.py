import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import SpecialIds
from keras_albert.text.tasks.multiple_choice import ChoiceRows
from keras_albert.text.tokenizer.token_rows import TokenRows

CLS, SEP, PAD = 2, 3, 0
ids = st.lists(st.integers(5, 99), max_size=12)


def expected_row(text, choice, max_length, max_choice_length):
    """Pack one row by the reference's rule."""
    tail = choice[-min(max_choice_length, max_length - 4) :]
    head = text[: max_length - 3 - len(tail)]
    return [CLS, *head, SEP, *tail, SEP], [0] * (len(head) + 2) + [1] * (len(tail) + 1)


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(ids, min_size=1, max_size=3),
    questions=st.lists(
        st.tuples(st.integers(0, 2), st.lists(ids, min_size=1, max_size=4)), max_size=5
    ),
    max_length=st.integers(5, 20),
    max_choice_length=st.integers(1, 9),
    seed=st.integers(0, 9),
)
def test_packs_like_the_reference(
    texts, questions, max_length, max_choice_length, seed
):
    numbers = [number % len(texts) for number, _ in questions]
    choices = [choices for _, choices in questions]
    rows = ChoiceRows(
        TokenRows.from_lists(texts),
        np.array(numbers, np.int64),
        TokenRows.from_lists([choice for row in choices for choice in row]),
        np.array([len(row) for row in choices], np.int64),
        SpecialIds(CLS, SEP, PAD),
        max_length,
        max_choice_length,
    )
    assert len(rows) == len(rows.lengths) == len(questions)
    picked = np.random.default_rng(seed).permutation(len(questions))[:3]
    length = int(rows.lengths[picked].max(initial=5))
    packed = rows.pack(picked, length)
    most = max((len(choices[i]) for i in picked), default=1)
    assert {box.shape for box in packed.values()} == {(len(picked), most, length)}
    for place, question in enumerate(picked):
        longest = 0
        for number in range(most):
            box = {name: values[place, number] for name, values in packed.items()}
            if number >= len(choices[question]):
                assert not any(values.any() for values in box.values())
                continue
            row, segments = expected_row(
                texts[numbers[question]],
                choices[question][number],
                max_length,
                max_choice_length,
            )
            padding = [PAD] * (length - len(row))
            assert box["token_ids"].tolist() == row + padding
            assert box["segment_ids"].tolist() == segments + padding
            assert box["padding_mask"].sum() == len(row)
            longest = max(longest, len(row))
        assert rows.lengths[question] == longest
