"""Two processes that fine-tune and predict with the commands, as one does."""

import csv
import json

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.text import AlbertClassifierPreprocessor, train_vocabulary
from tests.commands.finetune_runs import flags, write_files
from tests.several_processes import BACKEND, finish, start


@pytest.fixture
def files(tmp_path):
    write_files(tmp_path)
    # Two processes cannot divide the last batch.
    rows = (tmp_path / "train.tsv").read_text().splitlines()
    (tmp_path / "train.tsv").write_text("\n".join(rows[:-3]) + "\n")
    (tmp_path / "other.tsv").write_text("\n".join(rows[:-4]) + "\n")
    tokenizer = AlbertTokenizer(
        train_vocabulary(rows[1:], vocabulary_size=60, hard_vocab_limit=False)
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=1,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=16,
        dropout=0.0,
        attention_dropout=0.0,
    )
    backbone.save_to_preset(tmp_path / "start")
    AlbertClassifierPreprocessor(tokenizer).save_to_preset(tmp_path / "start")
    return tmp_path


def commands(files, number, name):
    """What one process runs: it fine-tunes, predicts, and is refused."""

    def finetune(output, **changed):
        changed = {"preset": files / "start", "epochs": 2, **changed}
        return ["finetune", "classification", *flags(files, output, **changed)]

    def predict(file, output):
        model = files / "one" / "preset"
        return list(map(str, ["predict", model, file, "--output", output]))

    dev, answers = files / "dev.tsv", files / f"{name}.jsonl"
    yield 0, finetune(files / name)
    if BACKEND != "tensorflow" or name == "one":
        # TensorFlow connects workers once.
        yield 0, predict(dev, answers)
    if BACKEND != "tensorflow" and name != "one":
        train = files / ("other.tsv" if number else "train.tsv")
        yield 1, finetune(files / "refused", train=train)
        file = files / "train.tsv" if number else dev
        yield 1, predict(file, files / "refused.jsonl")


def read(folder):
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        rows = [{k: float(x) for k, x in row.items()} for row in csv.DictReader(file)]
    return rows, json.loads((folder / "report.json").read_text())["scores"]


def test_two_processes_do_what_one_does(files):
    module = "tests.commands.run_commands"
    finish(start(module, [[json.dumps(list(commands(files, 0, "one")))]]))
    given = ([json.dumps(list(commands(files, n, "two")))] for n in range(2))
    printed = finish(start(module, given))
    assert (files / "two" / "preset" / "config.json").is_file()
    (rows, scores), (one, expected) = read(files / "two"), read(files / "one")
    assert len(rows) == len(one) == 2
    for row, other in zip([*rows, scores], [*one, expected], strict=True):
        assert row.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_allclose(row[name], value, 1e-4, 1e-6, err_msg=name)
    # Only the first process speaks.
    assert "2 classes" in printed[0]
    assert "2 classes" not in printed[1]
    if BACKEND == "tensorflow":
        return
    answers, others = (
        list(map(json.loads, (files / f"{name}.jsonl").read_text().splitlines()))
        for name in ("two", "one")
    )
    assert len(answers) == len(others) == 12
    for answer, other in zip(answers, others, strict=True):
        assert answer["label"] == other["label"]
        assert answer["score"] == pytest.approx(other["score"], abs=1e-4)
    for each in printed:
        assert each.count("Process 1 has other files or options than process 0") == 2
    assert not (files / "refused" / "preset").exists()
