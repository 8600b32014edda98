"""Processes with the TensorFlow backend, started from any backend."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_albert.utils import child_program

_NO_ROOM = (errno.ENOSPC, errno.EFBIG)


def run_in_tensorflow(what: str, module: str, *arguments: str) -> None:
    """Run a module of this package as a program, with TensorFlow as the backend."""
    finished = run_child([sys.executable], module, arguments)
    if finished.returncode:
        for code in _NO_ROOM:
            if os.strerror(code) in finished.stderr:
                raise OSError(code, os.strerror(code))
        raise RuntimeError(
            f"The process that writes the {what} {describe_end(finished.returncode)}. "
            f"Nothing was written. Its error output:\n{finished.stderr[-2000:]}"
        )


def run_child(
    python: Sequence[str], program: str, arguments: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run a Python program with TensorFlow that ends when this process ends."""
    package_parent = Path(__file__).resolve().parents[2]
    search_path = [str(package_parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        # TensorFlow imports Keras, which would import another backend.
        "KERAS_BACKEND": "tensorflow",
        # The graph is the same, and the GPU may be in use by training.
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join(filter(None, search_path)),
    }
    command = [*python, child_program.__file__, program, *arguments]
    stdin, lifeline = os.pipe()
    # A converter's output is not always UTF-8.
    how: Any = {"capture_output": True, "text": True, "errors": "replace"}
    try:
        return subprocess.run(command, env=environment, stdin=stdin, check=False, **how)
    finally:
        os.close(stdin)
        os.close(lifeline)


def describe_end(status: int) -> str:
    """Say how a process ended; a negative status is the number of a signal."""
    if status >= 0:
        return f"ended with {status}"
    name = signal.Signals(-status).name
    why = ", as where memory runs out" if name == "SIGKILL" else ""
    return f"was killed by {name}{why}"
