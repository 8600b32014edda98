"""However a run ends, the same command goes on as if it had not."""

import json
import subprocess
import sys
import time

import numpy as np

from keras_albert.pretraining import PretrainingConfig, pretrain
from keras_albert.pretraining.run_folder import RunFolder
from keras_albert.pretraining.training_checkpoint import TrainingCheckpoint

SPEEDS = ("examples/s", "tokens/s")


def curve(folder):
    rows = folder.curve.rows()
    return [{k: v for k, v in row.items() if k not in SPEEDS} for row in rows]


def assert_same_run(found, expected):
    assert curve(found) == curve(expected)
    for name in ("last", "best"):
        a, b = (TrainingCheckpoint.read(getattr(f, name)) for f in (found, expected))
        assert a.step == b.step
        assert set(a.groups) == set(b.groups)
        for group in a.groups:
            for x, y in zip(a.groups[group], b.groups[group], strict=True):
                np.testing.assert_array_equal(x, y)


def start(path):
    return subprocess.Popen(
        [sys.executable, "-m", "keras_albert.cli", "pretrain", "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_rows(process, folder, count):
    while len(folder.curve.rows()) < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


def test_killed_at_random_it_comes_out_the_same(settings, tmp_path):
    settings |= {"steps": 100, "accumulation_steps": 2}
    config = PretrainingConfig(**settings | {"output": str(tmp_path / "whole")})
    pretrain(config, verbose=0)
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings))
    folder = RunFolder(tmp_path / "run")
    moments = np.random.default_rng().uniform(0, 0.3, size=3)
    for number, moment in enumerate(moments):
        process = start(path)
        wait_for_rows(process, folder, 2 * number + 2)
        time.sleep(moment)
        process.kill()
        process.communicate()
        assert not folder.preset.exists(), "it was killed too late to test anything"
    process = start(path)
    printed = process.communicate()[0]
    assert process.returncode == 0, printed
    assert_same_run(folder, RunFolder(tmp_path / "whole"))
    assert (folder.preset / "README.md").is_file()
