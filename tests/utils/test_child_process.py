"""Processes that write and load exports end with their parent process."""

import os
import select
import subprocess
import sys
import time

import keras
import pytest

from keras_albert.utils.child_process import run_child

pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch" or not hasattr(select, "poll"),
    reason="the same processes on every backend, where there is poll",
)

_SLEEPER = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
_PARENT = """
import sys
from keras_albert.utils.child_process import run_child
run_child([sys.executable], sys.argv[1], [sys.argv[2]])
"""


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("nothing happened within a minute")


def is_running(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    # A zombie process still has its number.
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(number)],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    return bool(state.strip()) and not state.startswith("Z")


def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path):
    program, started = tmp_path / "sleeper.py", tmp_path / "started"
    program.write_text(_SLEEPER)
    command = [sys.executable, "-c", _PARENT, str(program), str(started)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as parent:
        wait_for(lambda: started.exists() and started.read_text())
        child = int(started.read_text())
        assert is_running(child)
        parent.kill()
    wait_for(lambda: not is_running(child))


def test_it_says_how_it_ended(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys\nprint(sys.argv)\nsys.exit(3)")
    finished = run_child([sys.executable], str(program), ["b"])
    assert finished.returncode == 3
    assert finished.stdout.split() == [f"['{program}',", "'b']"]
