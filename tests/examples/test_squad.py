"""The SQuAD example, on generated paragraphs and, if available, on real data."""

import json

import pytest

from keras_albert import AlbertQuestionAnswerer
from tests.examples.test_examples import run

TOWNS = ("Rome", "Bonn", "Cork", "Nice")


def write_squad(path, unanswerable):
    """Write paragraphs on birthplaces, optionally with a question without an answer."""
    paragraphs = []
    for number in range(20):
        town = TOWNS[number % 4]
        context = f"Person {number} was born in {town}, and lived on a hill."
        answer = {"text": town, "answer_start": context.index(town)}
        qas = [
            {
                "id": f"{number}-where",
                "question": f"Where was person {number} born?",
                "answers": [answer],
            }
        ]
        if unanswerable:
            qas.append(
                {
                    "id": f"{number}-when",
                    "question": "When did the rain end?",
                    "answers": [],
                    "is_impossible": True,
                }
            )
        paragraphs.append({"context": context, "qas": qas})
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return str(path)


def test_version_2_chooses_its_threshold_on_training_questions(tmp_path):
    file = write_squad(tmp_path / "squad.json", unanswerable=True)
    printed = run(
        "squad.py",
        *("--train", file, "--dev", file, "--head", "conditional"),
        *("--epochs", "1", "--limit", "30", "--output", str(tmp_path / "preset")),
    )
    assert "chosen on 4 training questions held out" in printed
    assert "always saying that there is no answer: F1" in printed
    assert "of 30 questions (conditional head, 26 questions" in printed
    assert "without: exact match" in printed
    threshold = float(printed.split("null threshold ")[1].split(",")[0])
    reader = AlbertQuestionAnswerer.from_preset(tmp_path / "preset")
    assert reader.null_threshold == pytest.approx(threshold, abs=0.01)


def test_version_1_leaves_out_what_has_no_answer(tmp_path):
    train = write_squad(tmp_path / "train.json", unanswerable=True)
    dev = write_squad(tmp_path / "dev.json", unanswerable=False)
    printed = run("squad.py", *("--train", train, "--dev", dev, "--epochs", "1"))
    assert "of 20 questions (independent head, 20 questions" in printed
    assert "threshold" not in printed
    assert "no answer" not in printed


@pytest.mark.shared_data
def test_it_reads_the_real_files(shared_data):
    folder = shared_data / "squad"
    printed = run(
        "squad.py",
        *("--train", str(folder / "train_union_14articles.json")),
        *("--dev", str(folder / "dev-v1.1.reconstructed.json")),
        *("--limit", "400", "--epochs", "1"),
    )
    assert "of 400 questions" in printed
