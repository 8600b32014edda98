"""The program is stopped in one line while the package is loaded, too."""

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
from keras_albert_cli import main
sys.exit(main())
"""
_LOADS = "import time\nprint('loading', flush=True)\ntime.sleep(600)\n"
_RUNS = """
import signal, sys
def run_verify(arguments):
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, arguments)
    return 5
"""
_STOPS = """
import threading, time
def run_verify(arguments):
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("stopped here")
    return 143
"""


@pytest.fixture
def start(tmp_path):
    """Start the program with another package in the place of this one."""
    commands = tmp_path / "keras_albert" / "commands"
    commands.mkdir(parents=True)
    (tmp_path / "keras_albert" / "__init__.py").touch()
    (tmp_path / "a").mkdir()

    def run(command):
        (commands / "convert.py").write_text(command)
        return subprocess.Popen(
            [sys.executable, "-c", _START, "verify", "a"],
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


def test_what_runs_has_the_signals_as_they_were(start):
    with start(_RUNS) as process:
        shown = process.stdout.read()
        assert shown == "True Namespace(directory=PosixPath('a'), python=None)\n"
    assert process.returncode == 5


def test_a_thread_does_not_keep_what_was_stopped(start):
    with start(_STOPS) as process:
        assert process.stdout.read() == "stopped here\n"
    assert process.returncode == 143
