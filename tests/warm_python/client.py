"""Stands in for the Python interpreter; see `warm_python`.

Hands the program to the server of its backend, with this process's files. What asks for
options of the interpreter itself gets a separate process.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Another module's workers may start other processes and threads.
_OURS = ("keras_albert", "tests.")


def main():
    python, folder, *arguments = sys.argv[1:]
    if arguments and arguments[0].endswith(".py"):
        arguments = ["", *arguments]
    is_program = arguments and arguments[0] in {"", "-c", "-m"}
    is_foreign = arguments[:1] == ["-m"] and not arguments[1].startswith(_OURS)
    # ONNX Runtime's operations on texts crash beside TensorFlow's.
    reads_onnx = any("onnx" in each.lower() for each in arguments)
    if not is_program or is_foreign or reads_onnx:
        os.execv(python, [python, *sys.argv[3:]])  # noqa: S606
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
    }
    with connect(python, folder) as connection:
        socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
        answers = connection.makefile()
        pid = int(answers.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(pid, number))
        status = int(answers.readline())
    if status >= 0:
        sys.exit(status)
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)


def connect(python, folder):
    """Connect with the server of the backend; the first client starts it."""
    path = os.path.join(folder, os.environ.get("KERAS_BACKEND", "tensorflow"))
    connection = socket.socket(socket.AF_UNIX)
    with open(f"{path}.lock", "w") as lock, open(f"{path}.log", "a") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            # The test process keeps the other end, and ends the server with itself.
            with open(os.path.join(folder, "alive")) as alive:
                server = subprocess.Popen(
                    [python, "-m", "tests.warm_python.server", path],
                    cwd=_ROOT,
                    stdin=alive,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            while not os.path.exists(path):
                if server.poll() is not None:
                    sys.exit(f"the server ended: see {path}.log")
                time.sleep(0.02)
            connection.connect(path)
    return connection


if __name__ == "__main__":
    main()
