"""Mistakes in labelled data, also by `keras-albert check`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from keras_albert import AlbertTextEmbedder
from keras_albert.cli.run_command import run_command
from keras_albert.tools import Dataset, check
from keras_albert.tools.mistakes import doubtful_labels

MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "support_messages.tsv"
ROWS = [
    ("where is my parcel", "delivery"),
    ("it has not arrived", "delivery"),
    ("I want my money back", "refund"),
    ("please refund the payment", "refund"),
]


def write(path, rows):
    path.write_text("\n".join("\t".join(row) for row in [("text", "label"), *rows]))
    return str(path)


def run_check(tmp_path, train, dev=(), *words):
    """Run the command, and return its status and the findings by their kinds."""
    output = tmp_path / "found.json"
    files = [write(tmp_path / "train.tsv", train)]
    if dev:
        files += ["--dev", write(tmp_path / "dev.tsv", dev)]
    status = run_command(["check", *files, "--output", str(output), *words])
    found = json.loads(output.read_text())["findings"] if output.exists() else []
    return status, {finding["kind"]: finding for finding in found}


def test_good_files_have_no_errors(tmp_path, capsys):
    status, found = run_check(tmp_path, ROWS, [("the app has crashed", "refund")])
    assert status == 0
    assert set(found) == {"small classes"}
    assert "errors: 0, notes: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "train", "dev", "place"),
    [
        ("leakage", ROWS, [("Where is my  parcel", "delivery")], "dev.tsv, line 2"),
        ("contradiction", [*ROWS, (ROWS[0][0], "refund")], [], "train.tsv, line 6"),
        ("unknown labels", ROWS, [("hello", "Refund")], "dev.tsv, line 2"),
        ("empty", [*ROWS, (" ", "refund")], [], "train.tsv, line 6"),
    ],
)
def test_errors_set_the_status(tmp_path, capsys, kind, train, dev, place):
    status, found = run_check(tmp_path, train, dev)
    assert status == 1
    assert found[kind]["is_error"]
    assert place in found[kind]["examples"][0]
    assert f"error, {kind}: 1 " in capsys.readouterr().out


def test_one_class_is_an_error():
    rows = Dataset(["a parcel", "a bread"], ["delivery"] * 2)
    (found,) = [each for each in check(rows) if each.is_error]
    assert str(found) == "error, one class: only one class"


def test_notes(tmp_path):
    refund = "The refund was in my account within {}"
    train = [
        *ROWS,
        ("Where is my parcel?", "delivery"),
        (refund.format("an hour"), "praise"),
    ]
    train += [("all fine \N{SNOWMAN}", "praise"), ("word " * 600, "praise")]
    train.append((refund.format("two hours"), "praise"))
    train.append(("Die Seite lädt nicht, sobald ich auf Bezahlen drücke.", "delivery"))
    new = tmp_path / "new.txt"
    new.write_text("where is my parcel\nI want my money or my parcel\n")
    rows = [(f"{text} {n}", label) for text, label in ROWS for n in range(5)]
    words = ("--unlabelled", str(new))
    status, found = run_check(tmp_path, train + rows, [], *words)
    assert status == 0
    places = {
        "duplicates": "line 2: 'delivery' where is my parcel = ",
        "near duplicates": "line 7: 'praise' The refund was",
        "cut": "line 9: ",
        "unknown": "line 8: 'praise' all fine",
        "split words": ": 'delivery' Die Seite",
        "small classes": "'praise': 4",
        "label next": "row 1: I want my money or my parcel",
    }
    for kind, text in places.items():
        assert text in found[kind]["examples"][0]


def test_words_with_tags_are_checked_too(tmp_path, capsys):
    path = tmp_path / "words.conll"
    path.write_text("Anna\tB-person\nran\tO\n\nAnna\tB-person\nran\tO\n")
    words = ["--task", "token-classification", "--dev", str(path)]
    assert run_command(["check", str(path), *words]) == 1
    assert "leakage: 1 texts are in both files" in capsys.readouterr().out


def test_questions_on_one_passage_are_not_nearly_the_same(capsys):
    words = ["--task", "question-answering", "--limit", "20"]
    path = MESSAGES.with_name("questions.json")
    assert run_command(["check", str(path), *words]) == 0
    assert "near duplicates" not in capsys.readouterr().out


def test_flipped_labels_are_found():
    with MESSAGES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))[:600]
    texts, labels = ([row[name] for row in rows] for name in ("text", "label"))
    random = np.random.default_rng(0)
    flipped = set(random.choice(len(rows), len(rows) // 20, replace=False).tolist())
    for row in flipped:
        labels[row] = str(random.choice(sorted(set(labels) - {labels[row]})))
    embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
    vectors = embedder.embed(texts)
    (finding,) = doubtful_labels(Dataset(texts, labels), vectors)
    places = [each.partition("row ")[2] for each in finding.examples]
    found = {int(place.partition(":")[0]) for place in places}
    assert len(found & flipped) > 0.55 * len(flipped)
    assert len(found & flipped) > 0.55 * len(found)
