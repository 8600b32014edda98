"""Makes an interpreter whose programs start with the libraries imported."""

import contextlib
import os
import sys
from pathlib import Path

# A process of its own: for what a program imports, and for the limits of a process.
REAL_PYTHON = sys.executable


@contextlib.contextmanager
def warm_python(folder):
    """Yield the path of an interpreter; its servers end with this context.

    Args:
        folder: Where the servers' sockets and logs go.
    """
    os.mkfifo(folder / "alive")
    alive = os.open(folder / "alive", os.O_RDWR)
    client = Path(__file__).with_name("client.py")
    python = folder / "python"
    command = f'"{REAL_PYTHON}" -IS "{client}" "{REAL_PYTHON}" "{folder}" "$@"'
    python.write_text(f"#!/bin/sh\nexec {command}\n")
    python.chmod(0o755)
    try:
        yield str(python)
    finally:
        os.close(alive)
