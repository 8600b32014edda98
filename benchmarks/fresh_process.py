"""Measurements that need a new process: the first step, memory, imports."""

import json
import os
import subprocess
import sys
from typing import Any


def ask(file: str, question: dict[str, Any], **environment: str) -> dict[str, Any]:
    """Run a benchmark's file as a worker.

    Args:
        file: string. The benchmark's `__file__`.
        question: The arguments of the worker's function; see `answer_worker`.
        **environment: Additional environment variables for the worker.

    Returns:
        The result of the function.

    Raises:
        RuntimeError: If the worker fails, with its last line of error output.
    """
    finished = subprocess.run(
        [sys.executable, file, "--worker", json.dumps(question)],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        words = finished.stderr.strip().splitlines() or ["it said nothing"]
        msg = f"{words[-1]} (a worker of {file})"
        raise RuntimeError(msg)
    answer: dict[str, Any] = json.loads(finished.stdout.strip().splitlines()[-1])
    return answer


def answer_worker(function: Any) -> bool:
    """Run the worker's function if this process is a worker.

    Args:
        function: Callable of a question's entries that returns a dict.

    Returns:
        Whether this process is a worker.
    """
    if sys.argv[1:2] != ["--worker"]:
        return False
    print(json.dumps(function(**json.loads(sys.argv[2]))), flush=True)
    return True
