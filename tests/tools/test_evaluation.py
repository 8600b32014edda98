"""How good a model is, also by `keras-albert evaluate`."""

import contextlib
import json
import re
import warnings

import numpy as np
import pytest
from sklearn import metrics

from keras_albert import (
    AlbertClassifier,
    AlbertMultipleChoice,
    AlbertQuestionAnswerer,
    AlbertTokenClassifier,
)
from keras_albert.cli.run_command import run_command
from keras_albert.tasks import squad_scores
from keras_albert.tools import Dataset, evaluate
from keras_albert.tools.evaluation import calibration, intervals
from keras_albert.tools.metrics import (
    evaluate_answers,
    evaluate_choices,
    evaluate_classes,
    evaluate_entities,
)
from tests.tasks.small_models import toy_questions

TEXTS = ["a wonderful film", "an awful film", "great acting", "boring and slow"] * 3
LABELS = ["positive", "negative"] * 6
WRONG = (2, 7)
PRESET = "albert_small_en_uncased_sst2"


@pytest.fixture
def file(tmp_path):
    """A file in which two labels are wrong."""
    rows = [
        {"text": text, "label": label, "source": "ab"[number % 2]}
        for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
    ]
    for number in WRONG:
        rows[number]["label"] = LABELS[number - 1]
    path = tmp_path / "test.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def run_evaluate(*words):
    assert run_command(["evaluate", *map(str, words)]) == 0


def test_metrics_groups_and_worst_rows(file, tmp_path, capsys):
    output = tmp_path / "errors"
    words = (PRESET, file, "--slice", "source", "--output", output, "--resamples", 200)
    run_evaluate(*words, "--explain")
    printed = capsys.readouterr().out
    report = json.loads((output / "report.json").read_text())
    assert report["scores"]["accuracy"] == pytest.approx(10 / 12)
    low, high = report["intervals"]["accuracy"]
    assert low < 10 / 12 < high <= 1
    assert report["confusion"]["counts"] == [[5, 1], [1, 5]]
    assert [row["rows"] for row in report["groups"]["source"]] == [6, 6]
    lengths = report["groups"]["words"]
    assert sum(row["rows"] * row["accuracy"] for row in lengths) == pytest.approx(10)
    rows = [*map(json.loads, (output / "rows.jsonl").read_text().splitlines())]
    assert {row["row"] for row in rows[:2]} == set(WRONG)
    assert rows[0]["error"] >= rows[1]["error"] > 1 > rows[2]["error"]
    assert printed.count("predicted") == 2
    assert printed.count("because of") == 2
    assert "'boring'" in printed
    assert all(f"test.jsonl, line {number + 1}: " in printed for number in WRONG)
    for name in ("confusion.png", "calibration.png"):
        assert (output / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slice", "place"], "--slice: 'place' is not .* text, label, source"),
        (["--output", "."], "already exists"),
        (["--limit", "0"], "--limit"),
    ],
)
def test_mistakes_are_named(file, capsys, words, message):
    # argparse exits by itself.
    with contextlib.suppress(SystemExit):
        assert run_command(["evaluate", PRESET, str(file), *words])
    assert re.search(message, capsys.readouterr().err)


def test_a_label_that_the_model_does_not_have_is_named(file):
    with file.open("a") as stream:
        stream.write('\n{"text": "so so", "label": "neutral", "source": "a"}')
    model = AlbertClassifier.from_preset(PRESET)
    with pytest.raises(ValueError, match=r"line 13 has the label 'neutral'"):
        evaluate(model, file)


def test_intervals_are_those_of_the_binomial():
    right = np.arange(400) % 5 > 0
    score = lambda rows: {"accuracy": float(right[rows].mean())}  # noqa: E731
    low, high = intervals(score, 400, 2000, seed=0)["accuracy"]
    half = 1.96 * np.sqrt(0.8 * 0.2 / 400)
    assert (low, high) == pytest.approx((0.8 - half, 0.8 + half), abs=0.006)
    assert intervals(score, 400, 50, seed=1) == intervals(score, 400, 50, seed=1)


def test_calibration_compares_probabilities_with_answers():
    probabilities = np.array([0.55, 0.58, 0.91, 0.99, 1.0])
    bins = calibration(probabilities, np.array([True, False, True, True, False]))
    assert [(row["from"], row["rows"]) for row in bins] == [(0.5, 2), (0.9, 3)]
    assert bins[0]["probability"] == pytest.approx(0.565)
    assert [row["accuracy"] for row in bins] == pytest.approx([0.5, 2 / 3])


class Fake:
    """A classifier whose outputs are given."""

    class_names = ("a", "b", "c")

    def __init__(self, outputs, is_multi_label=False):
        self.outputs, self.is_multi_label = outputs, is_multi_label

    def predict(self, x, verbose):
        return self.outputs

    def probabilities(self, outputs):
        return outputs

    def encode_targets(self, y):
        return np.array([[name in row for name in self.class_names] for row in y])


def test_classes_are_evaluated_as_by_scikit_learn():
    random = np.random.default_rng(0)
    outputs = random.dirichlet(np.ones(3), 50)
    truth = random.choice(["a", "b"], 50).tolist()
    evaluated = evaluate_classes(Fake(outputs), Dataset(["x"] * 50, truth))
    answers = np.array(Fake.class_names)[outputs.argmax(-1)]
    expected = metrics.classification_report(
        truth, answers, labels=Fake.class_names, output_dict=True, zero_division=0
    )
    for name, row in evaluated.report.classes.items():
        assert row == pytest.approx(expected[name])
    assert evaluated.report.scores == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(truth, answers),
            "macro F1": expected["macro avg"]["f1-score"],
        }
    )
    losses = metrics.log_loss(truth, outputs, labels=Fake.class_names)
    assert evaluated.rows.errors.mean() == pytest.approx(losses)


def test_several_labels_are_evaluated_as_by_scikit_learn():
    random = np.random.default_rng(0)
    outputs = random.random((40, 3))
    flags = random.random((40, 3)) < 0.4
    y = [[n for n, flag in zip("abc", row, strict=True) if flag] for row in flags]
    data = Dataset(["x"] * 40, y)
    evaluated = evaluate_classes(Fake(outputs, is_multi_label=True), data)
    answers = outputs >= 0.5
    scores = {
        f"{kind} F1": metrics.f1_score(flags, answers, average=kind)
        for kind in ("micro", "macro")
    }
    scores["exact match"] = metrics.accuracy_score(flags, answers)
    assert evaluated.report.scores == pytest.approx(scores)
    expected = metrics.precision_recall_fscore_support(flags, answers)
    for number, row in enumerate(evaluated.report.classes.values()):
        assert list(row.values()) == pytest.approx([x[number] for x in expected])


def test_entities_are_evaluated_as_by_the_task():
    tagger = AlbertTokenClassifier.from_preset("albert_small_en_uncased_ner")
    words = [["Anna", "saw", "Rome"], ["no", "one"], ["in", "New", "York", "City"]]
    tags = [["B-person", "O", "B-group"], ["O", "B-person"]]
    tags.append(["O", "B-location", "I-location", "I-location"])
    evaluated = evaluate_entities(tagger, Dataset(words, tags))
    expected = tagger.evaluate_entities(words, tags)
    every = evaluated.rows.score(np.arange(3))
    for name in ("precision", "recall", "f1"):
        assert evaluated.report.scores[f"entity {name}"] == expected[name]
        assert every[f"entity {name}"] == pytest.approx(expected[name])
    assert evaluated.report.classes == expected["labels"]
    assert evaluated.rows.truth[0] == ["person: Anna", "group: Rome"]


def test_answers_are_evaluated_as_by_squad():
    reader = AlbertQuestionAnswerer.from_preset("albert_small_en_uncased_squad")
    x = ["Who saw a dog?", "What did Anna see?", "When?"], ["Anna saw a big dog."] * 3
    y = [{"text": ["Anna"]}, {"text": ["dog", "a dog"]}, {"text": []}]
    y = [row | {"answer_start": [0] * len(row["text"])} for row in y]
    evaluated = evaluate_answers(reader, Dataset(x, y))
    expected = squad_scores([found["answer"] for found in reader.answer(*x)], y)
    assert evaluated.report.scores == pytest.approx(expected)
    every = evaluated.rows.score(np.arange(3))
    assert every["f1"] == pytest.approx(expected["f1"])
    assert every["exact_match"] == pytest.approx(expected["exact_match"])


def test_choices_are_evaluated_as_by_the_task():
    chooser = AlbertMultipleChoice.from_preset("albert_tiny_en_uncased")
    x, y = toy_questions(6)
    with warnings.catch_warnings():
        # Of the new head.
        warnings.simplefilter("ignore")
        evaluated = evaluate_choices(chooser, Dataset(x, y))
    expected = chooser.evaluate(x, y, verbose=0, return_dict=True)
    assert evaluated.report.scores == pytest.approx(expected, abs=1e-5)


def test_texts_with_several_labels_are_read_from_files(tmp_path):
    rows = [
        {"text": "late and broken", "labels": ["delivery", "quality"]},
        {"text": "it is late", "labels": ["delivery"]},
        {"text": "thanks", "labels": []},
    ]
    for name, repeats in (("train", 8), ("dev", 2)):
        lines = map(json.dumps, rows * repeats)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    output = tmp_path / "run"
    files = [f"--{name}={tmp_path / name}.jsonl" for name in ("train", "dev")]
    words = ["--preset=albert_tiny_en_uncased", "--epochs=1", f"--output={output}"]
    assert run_command(["finetune", "classification", *files, *words]) == 0
    report = json.loads((output / "report.json").read_text())
    assert set(report["classes"]) == {"delivery", "quality"}
    errors = tmp_path / "errors"
    run_evaluate(output / "preset", tmp_path / "dev.jsonl", f"--output={errors}")
    found = json.loads((errors / "report.json").read_text())
    assert found["scores"] == pytest.approx(report["scores"])
    assert found["settings"]["worst"] == 5


def test_a_calibrated_preset_has_sets(file, tmp_path, capsys):
    output = tmp_path / "calibrated"
    assert run_command(["calibrate", PRESET, str(file), str(output)]) == 0
    assert "temperature: " in capsys.readouterr().out
    words = ["calibrate", PRESET, str(file), str(tmp_path / "sets"), "--error-rate=0.3"]
    assert run_command(words) == 0
    assert run_command(["predict", str(tmp_path / "sets"), str(file)]) == 0
    rows = capsys.readouterr().out.splitlines()[-len(TEXTS) :]
    assert all(json.loads(row)["set"] for row in rows)
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("text\tlabel\na fine film\tgreat\n", encoding="utf-8")
    assert run_command(["calibrate", PRESET, str(wrong), str(tmp_path / "no")]) == 1
    assert "wrong.tsv, line 2 has the label 'great'" in capsys.readouterr().err
    words[1] = "albert_small_en_uncased_ner"
    words[3] = str(tmp_path / "other")
    assert run_command(words) == 1
    assert "Only classifiers can be calibrated" in capsys.readouterr().err
