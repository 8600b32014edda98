"""The program is stopped in one line while the package is loaded, too."""

import os
import signal
import subprocess
import sys

import pytest

# A test may run in the background of a shell, where SIGINT is ignored.
_HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
"""
_START = f"""{_HEARS_CTRL_C}
from keras_albert import cli
cli.__path__.insert(0, ".")
sys.exit(cli.main())
"""
_LOADS = "import time\nprint('loading', flush=True)\ntime.sleep(600)\n"
_RUNS = """
import signal, sys
def verify(options):
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, options)
    return 5
"""
_STOPS = """
import threading, time
def verify(options):
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("stopped here")
    return 143
"""


_IS_SIGNALLED = """
import os, signal, time
os.kill(os.getpid(), signal.SIGTERM)
def run(options):
    # As `StopSignals` does.
    signal.signal(signal.SIGTERM, lambda *_: print("recorded"))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    print("went on")
"""
_KERAS = """
class utils:
    set_random_seed = print
"""
_HUB = """
try:
    import tensorflow
except ImportError:
    print("without TensorFlow")
"""


@pytest.fixture
def start(tmp_path):
    """Start the program with another module in the place of a command."""
    (tmp_path / "a").mkdir()

    def run(command, module="convert", arguments=("verify", "a"), **variables):
        (tmp_path / f"{module}.py").write_text(command)
        return subprocess.Popen(
            [sys.executable, "-c", _START, *arguments],
            # Where Python looks first.
            cwd=tmp_path,
            env=os.environ | variables,
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


def test_one_of_several_processes_is_not_stopped_alone(start, tmp_path):
    (tmp_path / "keras.py").write_text(_KERAS)
    (tmp_path / "keras_hub.py").write_text(_HUB)
    (tmp_path / "torch.py").touch()
    command = ("pretrain", "--data", "data", "--output", "run")
    variables = {"WORLD_SIZE": "2", "KERAS_BACKEND": "torch"}
    with start(_IS_SIGNALLED, "pretrain", command, **variables) as process:
        assert process.stdout.read().splitlines() == [
            "without TensorFlow",
            "0",
            "recorded",
            "went on",
        ]
    assert process.returncode == 0


def test_what_runs_has_the_signals_as_they_were(start):
    with start(_RUNS) as process:
        shown = process.stdout.read()
        assert shown == "True Verify(directory=PosixPath('a'), python=None)\n"
    assert process.returncode == 5


def test_a_thread_does_not_keep_what_was_stopped(start):
    with start(_STOPS) as process:
        assert process.stdout.read() == "stopped here\n"
    assert process.returncode == 143
