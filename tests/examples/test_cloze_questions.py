"""Questions that are made of sentences."""

import json

import keras
import pytest

from keras_albert.text import read_squad
from tests.examples.test_examples import run

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="the same on each, quickest on PyTorch"
)

TEXT = (
    "The bridge over the river was opened in 1932 by the mayor, Anna Keller. It has "
    "eight lanes, and the tower of the old station is near its northern end. In May "
    "1957 a storm damaged two of the pillars, and ships from Hamburg could not pass "
    "for a week. Since then, the city of Norden has paid for a guard."
)


def test_answers_are_words_of_the_paragraph_and_the_same_for_a_seed(tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join([TEXT, "Too short.", TEXT.replace("1932", "1931")]))
    outputs = [tmp_path / f"{number}.json" for number in range(2)]
    for output in outputs:
        run("cloze_questions.py", str(output), "--texts", str(texts), "--count", "3")
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    found = read_squad(outputs[0])
    # Two of each paragraph at most, and none begun after the third.
    assert len(found.questions) == 4
    for paragraph in (
        x["paragraphs"][0] for x in json.loads(outputs[0].read_text())["data"]
    ):
        for qa in paragraph["qas"]:
            (answer,) = qa["answers"]
            start, words = answer["answer_start"], answer["text"]
            assert paragraph["context"][start : start + len(words)] == words
            assert qa["question"].endswith("?")
            assert words not in qa["question"]
