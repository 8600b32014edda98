"""Programs that tests start."""

import os
import subprocess
import sys


def run_python(*arguments, python=None, cwd=None, **variables):
    """Run Python, and return what it prints."""
    finished = subprocess.run(
        [python or sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout
