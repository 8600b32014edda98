"""After any interruption, the same command resumes the run with the same result."""

import hashlib
import json
import shutil
import signal
import sys

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTokenizer
from keras_albert.cli import finetune
from keras_albert.preprocessors import AlbertClassifierPreprocessor
from keras_albert.text import train_vocabulary
from keras_albert.training.recorder import TrainingRecorder
from keras_albert.training.run_folder import RunFolder, TrainingCheckpoint
from tests.cli.finetune_runs import (
    EPOCHS,
    STEPS,
    assert_same_outcome,
    flags,
    training_file,
    write_files,
)
from tests.one_backend import on_one_backend


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with files to train on, and a preset to start from."""
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    texts = (folder / "train.tsv").read_text().splitlines()[1:]
    tokenizer = AlbertTokenizer(
        train_vocabulary(texts, vocabulary_size=60, hard_vocab_limit=False)
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=16,
        dropout=0.1,
        attention_dropout=0.1,
        unroll=True,
    )
    backbone.save_to_preset(folder / "start")
    AlbertClassifierPreprocessor(tokenizer).save_to_preset(folder / "start")
    return folder


@pytest.fixture
def start(run, files):
    """Run the command into a directory."""

    def start(output, **changed):
        changed = {"preset": files / "start", **changed}
        return run("classification", *flags(files, output, **changed))

    return start


@pytest.fixture
def whole(start, files):
    """The directory of an uninterrupted run."""
    output = files / "whole"
    if not output.exists():
        start(output)
    return output


@pytest.fixture
def at_step(monkeypatch):
    """A dict of functions, called at the end of the batch of their number."""
    events = {}
    learned = TrainingRecorder.on_train_batch_end

    def on_train_batch_end(self, batch, logs):
        if self.done + 1 in events:
            events[self.done + 1]()
        learned(self, batch, logs)

    monkeypatch.setattr(TrainingRecorder, "on_train_batch_end", on_train_batch_end)
    return events


@pytest.mark.parametrize(
    ("number", "step"),
    # Within an epoch, and at the end of one.
    [(signal.SIGTERM, STEPS + 2), (signal.SIGINT, 2 * STEPS)],
)
def test_a_signal_ends_it_with_a_checkpoint(
    start, whole, at_step, tmp_path, capsys, number, step
):
    at_step[step] = lambda: signal.raise_signal(number)
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as stopped:
        start(tmp_path / "run")
    assert stopped.value.args == (number,)
    assert stopped.value.__notes__ == ["run the same command to resume"]
    assert signal.getsignal(number) == before
    folder = RunFolder(tmp_path / "run")
    assert TrainingCheckpoint.read(folder.last).step == step
    assert not folder.preset.exists()
    at_step.clear()
    start(tmp_path / "run")
    printed = " ".join(capsys.readouterr().out.split())
    epochs = step // STEPS
    assert f"resuming after epoch {epochs} (step {step} of {EPOCHS * STEPS})" in printed
    assert_same_outcome(tmp_path / "run", whole)


@on_one_backend
def test_lora_is_resumed_and_merged(run, files, at_step, tmp_path):
    def start(name):
        options = flags(files, tmp_path / name, preset=files / "start", lora=2)
        run("classification", *options)
        return tmp_path / name / "preset"

    whole = start("whole")
    at_step[STEPS + 2] = lambda: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        start("run")
    at_step.clear()
    resumed = start("run")
    name = "model.weights.h5"
    assert (resumed / name).read_bytes() == (whole / name).read_bytes()
    dev = [line.split("\t") for line in (files / "dev.tsv").read_text().splitlines()]
    texts, labels = zip(*dev[1:], strict=True)
    found = AlbertClassifier.from_preset(whole).classify(list(texts))
    accuracy = np.mean([each["label"] for each in found] == np.array(labels))
    report = json.loads((tmp_path / "whole" / "report.json").read_text())
    assert accuracy == pytest.approx(report["scores"]["accuracy"])


@on_one_backend
def test_a_masked_language_model_goes_on_with_the_same_masks(
    run, files, at_step, tmp_path
):
    texts = tmp_path / "texts.txt"
    texts.write_text((files / "train.tsv").read_text().replace("\t", " "))
    shared = {"train": training_file(texts), "dev": texts}
    run("masked-lm", *flags(files, tmp_path / "whole", **shared))
    at_step[STEPS + 3] = lambda: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        run("masked-lm", *flags(files, tmp_path / "run", **shared))
    at_step.clear()
    run("masked-lm", *flags(files, tmp_path / "run", **shared))
    assert_same_outcome(tmp_path / "run", tmp_path / "whole")


class DiskStates:
    """Copies of a directory, one for each state in which a kill may leave it.

    Python's audit events announce each change. Of the states that differ only in hidden
    files, which are unfinished, the last one is kept: it has the most of them.
    """

    WRITES = ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate")

    def __init__(self, directory, copies):
        self.directory = directory
        self.copies = copies
        self.seen = {}
        self.watches = True
        sys.addaudithook(self._hook)

    def _hook(self, event, arguments):
        if not self.watches or event not in self.WRITES:
            return
        if str(self.directory) not in " ".join(map(str, arguments)):
            return
        self.watches = False
        try:
            self.keep()
        finally:
            self.watches = True

    def keep(self):
        digest = hashlib.sha256()
        for path in sorted(self.directory.rglob("*")):
            name = path.relative_to(self.directory)
            if any(part.startswith(".") for part in name.parts):
                continue
            digest.update(str(name).encode())
            if path.is_file():
                digest.update(path.read_bytes())
        copy = self.copies / str(len(self.seen))
        copy = self.seen.setdefault(digest.digest(), copy)
        if self.directory.exists():
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.directory, copy)


@on_one_backend
def test_from_any_state_of_the_disk_it_comes_out_the_same(
    start, whole, tmp_path, monkeypatch
):
    # A checkpoint after each step.
    monkeypatch.setattr(finetune, "_SECONDS_PER_CHECKPOINT", 0.0)
    output = tmp_path / "run"
    states = DiskStates(output, tmp_path / "copies")
    start(output)
    states.watches = False
    assert_same_outcome(output, whole)
    steps, left = [], []
    for copy in states.seen.values():
        folder = RunFolder(copy)
        if folder.last.is_file():
            steps.append(TrainingCheckpoint.read(folder.last).step)
        if folder.preset.exists() and not folder.last.is_file():
            continue  # It is finished.
        left += [path.name for path in copy.rglob(".*")]
        start(copy)
        assert_same_outcome(copy, whole)
        assert not list(copy.rglob(".*"))
    # Each checkpoint is the newest one in some state, with the next one unfinished.
    assert set(steps) == set(range(1, EPOCHS * STEPS + 1))
    assert sum(name.startswith(".last.") for name in left) > EPOCHS * STEPS / 2
    assert any(name.startswith(".preset.") for name in left)


@pytest.fixture
def stopped(start, files, at_step):
    """The directory of a run that was interrupted in its second epoch."""
    output = files / "stopped"
    if not output.exists():
        at_step[STEPS + 2] = lambda: signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            start(output)
        at_step.clear()
    return output


@on_one_backend
def test_other_options_are_another_run(start, stopped):
    changed = {"seed": 1, "batch-size": 4}
    message = (
        r"different settings: batch_size was 8 and is 4; seed was 0 and is 1\. Use"
    )
    with pytest.raises(ValueError, match=message):
        start(stopped, **changed)


@on_one_backend
def test_another_model_is_another_run(start, stopped, files, tmp_path):
    # Another model under the same name.
    moved = files / "moved"
    shutil.move(files / "start", moved)
    try:
        loaded = AlbertBackbone.from_preset(moved, dropout=0.3)
        shutil.copytree(moved, files / "start")
        loaded.save_to_preset(files / "start")
        with pytest.raises(ValueError, match="different settings: backbone was "):
            start(stopped)
    finally:
        shutil.rmtree(files / "start")
        shutil.move(moved, files / "start")


@on_one_backend
def test_other_files_are_another_run(start, stopped, files, whole, tmp_path):
    text = (files / "train.tsv").read_text()
    other = tmp_path / "train.tsv"
    other.write_text(text + "old lamps\tg\n")
    with pytest.raises(ValueError, match="different settings: training file was "):
        start(stopped, train=other)
    # The same file in another place is the same run.
    other.write_text(text)
    shutil.copytree(stopped, tmp_path / "run")
    start(tmp_path / "run", train=other)
    assert_same_outcome(tmp_path / "run", whole)


@on_one_backend
def test_a_loss_that_is_no_number_ends_it(start, tmp_path, monkeypatch):
    learned = TrainingRecorder.on_train_batch_end

    def on_train_batch_end(self, batch, logs):
        if self.done == STEPS + 1:
            logs = {**logs, "loss": float("nan")}
        learned(self, batch, logs)

    monkeypatch.setattr(TrainingRecorder, "on_train_batch_end", on_train_batch_end)
    message = (
        r"at step 5\. .*contains the last finite weights\. .*--learning-rate than 0.02"
    )
    with pytest.raises(FloatingPointError, match=message):
        start(tmp_path / "run")
    assert TrainingCheckpoint.read(RunFolder(tmp_path / "run").last).step == STEPS
