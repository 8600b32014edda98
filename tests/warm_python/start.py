"""Makes an interpreter whose programs start with the libraries imported."""

import contextlib
import os
import sys
from pathlib import Path

# A separate process: for what a program imports, and for the limits of a process.
REAL_PYTHON = sys.executable


@contextlib.contextmanager
def warm_python(folder):
    """Yield the path of an interpreter; its servers end with the last such context."""
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkfifo(folder / "alive")
    alive = os.open(folder / "alive", os.O_RDWR)
    client = Path(__file__).with_name("client.py")
    python, own = folder / "python", folder / f"python_{os.getpid()}"
    command = f'"{REAL_PYTHON}" -IS "{client}" "{REAL_PYTHON}" "{folder}" "$@"'
    own.write_text(f"#!/bin/sh\nexec {command}\n")
    own.chmod(0o755)
    own.rename(python)
    try:
        yield str(python)
    finally:
        os.close(alive)
