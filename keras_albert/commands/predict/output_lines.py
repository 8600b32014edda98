"""Predictions as lines of a file."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

Answer = dict[str, Any]

FORMATS = ("jsonl", "tsv")
# More digits would exceed the precision of float32.
_DIGITS = 6


class AnswerLines:
    r"""Encodes predictions as lines of bytes."""

    def __init__(self, format: str) -> None:  # noqa: A002  (Keras' own name)
        self.header_lines = int(format == "tsv")
        self._columns: list[str] = []

    def resume(self, line: bytes) -> None:
        """Read a line of an interrupted run; a table's first line names its columns."""
        if self.header_lines and not self._columns:
            self._columns = line.decode().rstrip("\n").split("\t")

    def encode(self, answers: Sequence[Answer]) -> bytes:
        """Return predictions as lines, with a header before the first line of a TSV."""
        lines = []
        for answer in answers:
            plain = to_json(answer)
            if not self.header_lines:
                lines.append(json.dumps(plain, ensure_ascii=False))
                continue
            if not self._columns:
                self._columns = list(plain)
                lines.append("\t".join(self._columns))
            fields = (_to_field(plain[name]) for name in self._columns)
            lines.append("\t".join(fields))
        # A text may contain lone surrogates, which are written unchanged.
        text = "".join(f"{line}\n" for line in lines)
        return text.encode("utf-8", "surrogatepass")


def to_json(value: Any) -> Any:
    """Convert the outputs of a model to JSON values."""
    if isinstance(value, dict):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        # JSON has no NaN or infinity.
        return round(value, _DIGITS) if np.isfinite(value) else None
    return value


# TSV has no quotes: characters that end a field or a line are escaped as in JSON.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _to_field(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value.translate(_ESCAPES)
