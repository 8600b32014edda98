"""Child processes with the TensorFlow backend, which end with their parent process.

    python child_process.py PROGRAM ARGUMENT ...

runs PROGRAM, a module or the path of a file. The parent process keeps the other end of
its standard input open. The system closes it when the parent ends, even if a signal
leaves the parent no time to end its children; then this process ends, too.
"""

import errno
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    command = [*python, __file__, program, *arguments]
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
    why = ", which often means that memory ran out" if name == "SIGKILL" else ""
    return f"was killed by {name}{why}"


def _end_with_parent() -> None:
    """End this process when the other end of its standard input is closed."""
    if not hasattr(select, "poll"):  # Windows
        return
    watched = select.poll()
    # Only hang-up is polled: the input itself is for the program.
    watched.register(sys.stdin.fileno(), 0)

    def watch() -> None:
        watched.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _main() -> None:
    """Run a program in a child process."""
    _end_with_parent()
    program = sys.argv[1]
    del sys.argv[0]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        if not sys.flags.isolated:
            del sys.path[0]
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
