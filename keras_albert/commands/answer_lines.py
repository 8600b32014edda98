"""What models answer, as lines of a file."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

Answer = dict[str, Any]

FORMATS = ("jsonl", "tsv")
# Of a float32 there is no more to say.
_DIGITS = 6


class AnswerLines:
    r"""Answers as bytes.

    Args:
        format: string. `"jsonl"` or `"tsv"`.

    Example:
        >>> AnswerLines("tsv").encode([{"label": "good", "score": 0.123456789}])
        b'label\tscore\ngood\t0.123457\n'
    """

    def __init__(self, format: str) -> None:  # noqa: A002  (Keras' own name)
        self.header_lines = int(format == "tsv")
        self._columns: list[str] = []

    def resume(self, line: bytes) -> None:
        """Read a line that was written before; the first of a table names columns."""
        if self.header_lines and not self._columns:
            self._columns = line.decode().rstrip("\n").split("\t")

    def encode(self, answers: Sequence[Answer]) -> bytes:
        """Give the lines of some answers, and of a table's first ones the header."""
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
        # A text may hold half a character; it is written as it came.
        text = "".join(f"{line}\n" for line in lines)
        return text.encode("utf-8", "surrogatepass")


def to_json(value: Any) -> Any:
    """Turn what a model gives into what JSON can hold.

    Args:
        value: Arrays, numbers, texts, bytes, and lists and dicts of them.

    Returns:
        The same in Python's own types; numbers are rounded to what float32 knows.

    Example:
        >>> to_json({"scores": np.array([0.1, 0.25], np.float32), "label": b"good"})
        {'scores': [0.1, 0.25], 'label': 'good'}
    """
    if isinstance(value, dict):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        # JSON has no name for what is no number.
        return round(value, _DIGITS) if np.isfinite(value) else None
    return value


# A table has no quotes: what would end a field or a line is written as in JSON.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _to_field(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value.translate(_ESCAPES)
