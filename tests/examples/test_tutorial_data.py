"""The tutorials' data: formats, splits without leaks, and what their README says."""

import csv
import json
from collections import Counter
from pathlib import Path

DATA = Path(__file__).parents[2] / "examples" / "data"
README = (DATA / "README.md").read_text(encoding="utf-8")


def read_pairs():
    with (DATA / "pairs.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def read_choices():
    lines = (DATA / "choices.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def sentences(rows):
    return {row[name] for row in rows for name in ("sentence1", "sentence2")}


def test_pairs():
    rows = read_pairs()
    assert len(rows) == 400
    assert all(text and text == text.strip() for text in sentences(rows))
    for score, count in Counter(row["score"] for row in rows).items():
        assert f"\n| {score} | {count} |" in README
    lengths = [len(sentence.split()) for sentence in sentences(rows)]
    assert f"{min(lengths)} to {max(lengths)} words and are about daily life" in README
    # Five partners of one sentence, once each.
    for start in range(0, len(rows), 5):
        assert len(sentences(rows[start : start + 5])) == 6
    assert not sentences(rows[:-80]) & sentences(rows[-80:])


def test_choices():
    questions = read_choices()
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
