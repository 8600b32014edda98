"""A file of predictions, written line by line, that an interrupted run can resume."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from keras_albert.commands.files.run_settings import Settings, open_settings
from keras_albert.commands.predict.output_lines import Answer, AnswerLines


class AnswerFile:
    """Writes predictions as JSON lines or TSV, one line for each row of the input.

    They are written to `PATH.partial`, which is renamed to `PATH` when all are there.
    If the process dies, complete lines are kept, and the same run resumes after them.

    Attributes:
        done: int. The number of predictions that an interrupted run has left.

    Args:
        path: Path. The file to write.
        format: string. `"jsonl"` or `"tsv"`.
        settings: dict. The settings that identify the run; see `open_settings`.

    Raises:
        FileExistsError: If the file exists.
        ValueError: If an interrupted run had other settings.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "answers.jsonl")
        ...     with AnswerFile(path, "jsonl", {}) as answers:
        ...         answers.write([{"label": "good", "score": 0.5}])
        ...         answers.finish()
        ...     print(path.read_text().strip())
        {"label": "good", "score": 0.5}
    """

    def __init__(self, path: Path, format: str, settings: Settings) -> None:  # noqa: A002  (Keras' own name)
        if path.exists():
            msg = f"{path} is there already. Name another output, or remove it."
            raise FileExistsError(msg)
        self.path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._settings = path.with_name(f"{path.name}.settings.json")
        if not self._holds_something():
            self._settings.unlink(missing_ok=True)
        if not open_settings(self._settings, settings):
            # Without settings, the run that wrote the partial file is unknown.
            self._partial.unlink(missing_ok=True)
        self._lines = AnswerLines(format)
        self._file: BinaryIO = self._partial.open("a+b")
        self.done = self._keep_whole_lines()

    def _holds_something(self) -> bool:
        return self._partial.is_file() and self._partial.stat().st_size > 0

    def _keep_whole_lines(self) -> int:
        self._file.seek(0)
        lines = end = 0
        for line in self._file:
            if line.endswith(b"\n"):
                lines, end = lines + 1, end + len(line)
                self._lines.resume(line)
        self._file.truncate(end)
        return max(0, lines - self._lines.header_lines)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        # If no prediction was made, no files remain.
        if error is not None and not self._holds_something():
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
