"""The tutorials' data: formats, splits without leaks, and what their README says."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from keras_albert.text import read_conll, read_squad

DATA = Path(__file__).parents[2] / "examples" / "data"
README = (DATA / "README.md").read_text(encoding="utf-8")


def read_table(name):
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize(("name", "count"), [("bank", 6), ("transfer", 10)])
def test_messages(name, count):
    labels = [row["label"] for row in read_table(f"{name}_messages.tsv")]
    assert len(labels) == 1200
    for start in range(0, len(labels), count):
        assert len(set(labels[start : start + count])) == count
    for label in set(labels):
        assert f"| `{label}` |" in README


def test_reviews():
    rows = read_table("reviews.tsv")
    assert Counter(row["label"] for row in rows) == {"0": 300, "1": 300}
    assert len({row["sentence"] for row in rows}) == 600


def test_entities():
    words, tags = read_conll(DATA / "entities.conll")
    assert len(words) == 900
    assert f"{sum(map(len, words)):,}\nwords in all" in README
    counts = Counter(tag[2:] for row in tags for tag in row if tag[0] == "B")
    for kind, count in counts.items():
        assert f"| `{kind}` | {count} |" in README


def test_questions():
    file = read_squad(DATA / "questions.json")
    contexts = list(dict.fromkeys(file.contexts))
    assert len(contexts) == 80
    assert sum(bool(answer["text"]) for answer in file.answers) == 404
    for context, answer in zip(file.contexts, file.answers, strict=True):
        for text, start in zip(answer["text"], answer["answer_start"], strict=True):
            assert context[start:].startswith(text)


def test_pairs():
    rows = read_table("pairs.tsv")
    sentences = [{row["sentence1"], row["sentence2"]} for row in rows]
    assert len(rows) == 800
    assert all(0 <= float(row["score"]) <= 5 for row in rows)
    assert not set.union(*sentences[:-200]) & set.union(*sentences[-200:])


def test_choices():
    lines = (DATA / "choices.jsonl").read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    assert len(questions) == 240
    for question in questions:
        choices = question["choices"]
        assert set(question) == {"context", "question", "choices", "answer"}
        assert question["answer"] in "ABCD"[: len(choices)]
        assert 3 <= len(choices) <= 4
        assert len(set(choices)) == len(choices)
    counts = Counter(len(question["choices"]) for question in questions)
    assert f"three ({counts[3]} questions) or four ({counts[4]})" in README
    answers = Counter(question["answer"] for question in questions)
    assert ", ".join(f"{key} {answers[key]}" for key in "ABCD") in README
    texts = [question["context"] for question in questions]
    assert len(set(texts)) == 60
    assert not set(texts[:-60]) & set(texts[-60:])
