"""Two processes that fine-tune and predict as one does, also after a stop."""

import csv
import json
import shutil
import signal

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertTokenizer
from keras_albert.preprocessors import AlbertClassifierPreprocessor
from keras_albert.text import train_vocabulary
from keras_albert.training.run_folder import RunFolder, TrainingCheckpoint
from tests.cli.finetune_runs import STEPS, flags, weights_of, write_files
from tests.several_processes import BACKEND, finish, start, start_with_torchrun


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
    # Of the same name and sizes on the second host, with other weights.
    shutil.copytree(tmp_path / "start", tmp_path / "other" / "start")
    backbone.set_weights([value + 1 for value in backbone.get_weights()])
    backbone.save_to_preset(tmp_path / "other" / "start")
    return tmp_path


STOPPED = 143


def finetune(files, output, **changed):
    changed = {"preset": files / "start", "epochs": 2, **changed}
    return ["finetune", "classification", *flags(files, output, **changed)]


def commands(files, number, name):
    """What one process runs: it fine-tunes, predicts, and is refused."""

    dev, answers = files / "dev.tsv", files / f"{name}.jsonl"
    predict = ["predict", files / "one" / "preset", dev, "--output", answers]
    # If it is the second one on PyTorch, it dies in the second epoch.
    dies = BACKEND == "torch" and name == "two" and number
    yield 0, finetune(files, files / name), (5, signal.SIGKILL) if dies else None
    if BACKEND != "tensorflow" or name == "one":
        # TensorFlow connects workers once.
        if name == "two":
            # The signal is held until they are connected, and all end after a part.
            yield STOPPED, predict, (0, signal.SIGTERM) if number else None
        yield 0, predict, None
    if BACKEND != "tensorflow" and name != "one":
        train = files / ("other.tsv" if number else "train.tsv")
        yield 1, finetune(files, files / "refused", train=train), None
        folder = files / "other" if number else files
        yield 1, finetune(files, files / "refused", preset="start"), None, folder
        answers = files / "refused.jsonl"
        yield 1, ["predict", "start", dev, "--output", answers], None, folder


def stopped(files, names):
    """What two processes run that SIGTERM ends: sent to the second one, or to both."""
    for number in range(2):
        # Step 0 is before the processes are connected.
        stops = {
            name: (step, signal.SIGTERM) if number else None
            for name, step in {"none": 0, "two": 2}.items()
        }
        stops["all"] = (2, signal.SIGTERM)
        yield [(STOPPED, finetune(files, files / name), stops[name]) for name in names]


def read(folder):
    """The curve with the scores as its last row, and the weights."""
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        rows = [{k: float(x) for k, x in row.items()} for row in csv.DictReader(file)]
    rows.append(json.loads((folder / "report.json").read_text())["scores"])
    return rows, weights_of(folder / "preset")


def as_json(commands):
    return json.dumps(list(commands), default=str)


def run(each):
    given = [[as_json(commands)] for commands in each]
    return start("tests.cli.run_commands", given)


def run_again(each):
    """Run commands in processes, which `torchrun` starts again if one of them dies."""
    if BACKEND != "torch":
        return run(each)
    given = [as_json(commands) for commands in each]
    return start_with_torchrun("tests.cli.run_commands", given)


def test_two_processes_stop_and_go_on_to_where_one_ends(files):
    one = run([commands(files, 0, "one")])
    # TensorFlow connects workers once.
    groups = [["none", "two", "all"]]
    if BACKEND == "tensorflow":
        groups = [["two"], ["all"]]
    for running, names in [(run(stopped(files, names)), names) for names in groups]:
        first, second = finish(running)
        assert first.count("checkpoint of step") == len({*names} - {"none"})
        assert "checkpoint of step" not in second
    for name in ("two", "all"):
        # In the first epoch or at its end.
        assert TrainingCheckpoint.read(RunFolder(files / name).last).step in (2, STEPS)
    (alone,) = finish(one)
    # One process goes on with what two have begun.
    other = run([[(0, finetune(files, files / "all"), None)]])
    together = finish(run_again(commands(files, number, "two") for number in range(2)))
    finish(other)
    expected, weights = read(files / "one")
    for name in ("two", "all"):
        rows, found = read(files / name)
        assert len(rows) == len(expected) == 3
        for row, other in zip(rows, expected, strict=True):
            assert row == pytest.approx(other, 1e-4, 1e-6)
        assert found.keys() == weights.keys()
        for key, values in weights.items():
            np.testing.assert_allclose(found[key], values, atol=2e-4, err_msg=key)
    printed = "".join(together)
    starts = 1
    if BACKEND == "torch":
        assert "exitcode: -9" in printed
        starts = 2
    # Only the first process speaks.
    for words in ("2 classes", "resuming after epoch"):
        assert printed.count(words) == starts * (alone.count(words) or 1), words
    if BACKEND == "tensorflow":
        return
    assert printed.count("resuming after 12 rows") == 1
    answers, others = (
        list(map(json.loads, (files / f"{name}.jsonl").read_text().splitlines()))
        for name in ("two", "one")
    )
    assert len(answers) == len(others) == 12
    for answer, other in zip(answers, others, strict=True):
        assert answer["label"] == other["label"]
        assert answer["score"] == pytest.approx(other["score"], abs=1e-4)
    for fact in ("files or options", "preset", "content of model"):
        assert printed.count(f"Process 1 has different {fact} from process 0") == 2, (
            fact
        )
    assert not (files / "refused" / "preset").exists()
