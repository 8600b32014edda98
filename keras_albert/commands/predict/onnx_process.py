"""Runs an ONNX model in a separate process."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from keras_albert.utils.packages import check_packages

_PROGRAM = Path(__file__).with_name("onnx_program.py")


class OnnxProcess:
    """A process that runs an ONNX model; see `onnx_program`.

    Attributes:
        columns: The names of the model's inputs with a row for each text.
        numbers: The names of its other inputs, scalars.
        metadata: The metadata of the file, strings by name.
    """

    def __init__(self, path: Path) -> None:
        check_packages("An ONNX model", "keras-albert[onnx]", "onnxruntime")
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Only this process receives Ctrl-C; it ends the other.
            start_new_session=True,
        )
        try:
            described = self._read_line()
        except BaseException:
            self.close()
            raise
        self.columns: tuple[str, ...] = tuple(described["columns"])
        self.numbers: tuple[str, ...] = tuple(described["numbers"])
        self.metadata: dict[str, str] = described["metadata"]

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Run a batch."""
        if self._process.stdin is None:
            raise AssertionError("opened with a pipe")
        # If the process has ended, the next read reports it.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(inputs) + "\n")
            self._process.stdin.flush()
        outputs = self._read_line()
        return {name: np.array(rows) for name, rows in outputs.items()}

    def _read_line(self) -> dict[str, Any]:
        if self._process.stdout is None:
            raise AssertionError("opened with a pipe")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            msg = f"The process of ONNX Runtime ended with {code}. Its words are above."
            raise RuntimeError(msg)
        read: dict[str, Any] = json.loads(line)
        if "error" in read:
            raise ValueError(f"ONNX Runtime says: {read['error']}")
        return read

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
