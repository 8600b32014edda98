"""What is taken to a machine with a GPU, and what comes back."""

import importlib
import json
import signal
import subprocess
import sys

import pytest

from keras_albert.pretraining import PretrainingBatches, PretrainingConfig, pretrain
from keras_albert.training.run_folder import RunFolder
from tests.pretraining.prepared_texts import write_prepared

SIZES = {"num_layers": 1, "num_heads": 2, "embedding_dim": 8, "hidden_dim": 16}
SETTINGS = {
    **{"size": "tiny", "backbone": SIZES | {"intermediate_dim": 32}, "steps": 8},
    **{"batch_size": 16, "log_every": 2, "evaluate_every": 4, "checkpoint_every": 4},
}


@pytest.fixture
def gpu():
    return importlib.import_module("gpu")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, tiny_proto):
    return write_prepared(tmp_path_factory.mktemp("data") / "prepared", tiny_proto)


def test_a_run_goes_on_elsewhere(gpu, prepared, tmp_path, monkeypatch):
    config = PretrainingConfig(
        data=str(prepared), output=str(tmp_path / "here" / "run"), **SETTINGS
    )
    whole = PretrainingConfig.from_file(
        output=str(tmp_path / "whole"), data=str(prepared), **SETTINGS
    )
    expected = pretrain(whole, verbose=0)
    make = PretrainingBatches.batch

    def batch(self, *args):
        if self.shuffle and args[0] == 5:
            signal.raise_signal(signal.SIGTERM)
        return make(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(PretrainingBatches, "batch", batch)
        with pytest.raises(KeyboardInterrupt):
            pretrain(config, verbose=0)
    results = tmp_path / "results"
    results.mkdir()
    gpu.give_back(tmp_path / "here" / "run", results, part_bytes=5000)
    assert len(list(results.iterdir())) > 2
    assert max(part.stat().st_size for part in results.iterdir()) == 5000

    gpu.pack(prepared, tmp_path / "packed", 1)
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps(SETTINGS))
    script = gpu.__file__
    words = ["pretrain", str(tmp_path / "packed"), "--output", str(results)]
    words += ["--work", str(tmp_path / "there"), "--", "--config", str(settings)]
    subprocess.run([sys.executable, script, *words], check=True)
    gpu.take(results, tmp_path / "back")
    folder = RunFolder(tmp_path / "back" / "run")
    report = json.loads((folder.path / "report.json").read_text())
    assert report["scores"] == pytest.approx(expected)
    assert folder.preset.is_dir()
    # What was left was trained there, and what is finished needs no checkpoint.
    there = RunFolder(tmp_path / "there" / "run")
    assert len(there.curve.rows()) == 4
    assert not folder.training.exists()
