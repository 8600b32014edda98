"""The program is stopped in one line while the package is loaded, too."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import keras_albert_cli

# A test may run in the background of a shell, where SIGINT is ignored.
_START = """
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""
_LOADS = "import time\nprint('loading', flush=True)\ntime.sleep(600)\n"
_RUNS = """
import signal, sys
def main():
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, *sys.argv[1:])
    return 5
"""
_STOPS = """
import threading, time
def main():
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("stopped here")
    return 143
"""


@pytest.fixture
def start(tmp_path):
    """Start the program with another package in the place of this one."""
    (tmp_path / "keras_albert").mkdir()
    (tmp_path / "keras_albert" / "__init__.py").touch()

    def run(cli, *arguments):
        (tmp_path / "keras_albert" / "cli.py").write_text(cli)
        return subprocess.Popen(
            [sys.executable, "-c", _START, keras_albert_cli.__file__, *arguments],
            # Where Python looks first.
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_is_stopped_while_it_loads(number, start):
    with start(_LOADS) as process:
        assert process.stdout.readline() == "loading\n"
        process.send_signal(number)
        assert process.stderr.read() == "keras-albert: stopped\n"
    assert process.returncode == 128 + number


def test_the_example_of_a_server_is_stopped_while_it_loads(tmp_path):
    example = Path(__file__).parents[1] / "examples" / "serve.py"
    (tmp_path / "h11.py").write_text(_LOADS)
    with subprocess.Popen(
        [sys.executable, "-c", _START, example],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(example.parents[1])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "serve.py: stopped\n"
    assert process.returncode == 128 + signal.SIGINT


def test_what_runs_has_the_signals_as_they_were(start):
    with start(_RUNS, "predict", "--help") as process:
        assert process.stdout.read() == "True predict --help\n"
    assert process.returncode == 5


def test_a_thread_does_not_keep_what_was_stopped(start):
    with start(_STOPS) as process:
        assert process.stdout.read() == "stopped here\n"
    assert process.returncode == 143
