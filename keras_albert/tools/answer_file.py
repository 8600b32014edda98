"""A file of predictions, written line by line, that an interrupted run can resume."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.remote import local_path
from keras_albert.utils.temporary import folders_above, locked

Answer = dict[str, Any]

FORMATS = ("jsonl", "tsv")
# TSV has no quotes: characters that end a field or a line are escaped as in JSON.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
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
            values = (plain[name] for name in self._columns)
            lines.append(
                "\t".join(
                    x.translate(_ESCAPES)
                    if isinstance(x, str)
                    else json.dumps(x, ensure_ascii=False)
                    for x in values
                )
            )
        # A text may contain lone surrogates, which are written unchanged.
        text = "".join(f"{line}\n" for line in lines)
        return text.encode("utf-8", "surrogatepass")


def to_json(value: Any) -> Any:
    """Convert the outputs of a model to JSON values, floats to six decimal places."""
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


Settings = dict[str, Any]


class AnswerFile:
    """Writes predictions as JSON lines or TSV, one line for each row of the input."""

    # They are in `PATH.partial`, locked against other processes, until all are there.
    # The complete lines of a process that died are kept, and the same run resumes after
    # them.

    def __init__(self, path: Path, format: str, settings: Settings) -> None:  # noqa: A002  (Keras' own name)
        self.path = local_path(path)
        self._partial = path.with_name(f"{path.name}.partial")
        self._settings = path.with_name(f"{path.name}.settings.json")
        self._lines = AnswerLines(format)
        self._check_new()
        with ExitStack() as opened:
            opened.enter_context(folders_above(path))
            self._partial.touch()
            opened.enter_context(locked(self._partial))
            opened.callback(self._drop_empty)
            # Another process may have finished in the meantime.
            self._check_new()
            if not self._holds_something():
                self._settings.unlink(missing_ok=True)
            if not open_settings(self._settings, settings):
                # Without settings, the run that wrote the partial file is unknown.
                self._partial.write_bytes(b"")
            self._file: BinaryIO = opened.enter_context(self._partial.open("a+b"))
            self._file.seek(0)
            lines = end = 0
            # The last line may not be whole.
            for line in self._file:
                if line.endswith(b"\n"):
                    lines, end = lines + 1, end + len(line)
                    self._lines.resume(line)
            self._file.truncate(end)
            self.done = max(0, lines - self._lines.header_lines)
            self._opened = opened.pop_all()

    def _check_new(self) -> None:
        if self.path.exists():
            msg = f"{self.path} already exists. Choose another output, or remove it."
            raise FileExistsError(msg)

    def _holds_something(self) -> bool:
        return self._partial.is_file() and self._partial.stat().st_size > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def _drop_empty(self) -> None:
        """If no prediction was made, no files remain."""
        if not self._holds_something():
            self._partial.unlink(missing_ok=True)
            self._settings.unlink(missing_ok=True)

    def write(self, answers: Sequence[Answer]) -> None:
        """Write predictions and flush the file."""
        self._file.write(self._lines.encode(answers))
        self._file.flush()

    def finish(self) -> None:
        """Rename the complete file to its final name."""
        self._file.close()
        self._partial.replace(self.path)
        self._settings.unlink()


def open_settings(file: Path, settings: Settings) -> bool:
    """Begin a run, or find the interrupted one."""
    if not file.is_file():
        with atomic_file(file) as partial:
            partial.write_text(json.dumps(settings, indent=2), encoding="utf-8")
        return False
    before = json.loads(file.read_text(encoding="utf-8"))
    changed = [name for name in settings if settings[name] != before.get(name)]
    if changed:
        was = ", ".join(f"{name} was {before.get(name)!r}" for name in changed)
        raise ValueError(
            f"{file} belongs to a run with different settings: {was}. Use these to "
            "resume the run, remove the file, or choose another output."
        )
    return True
