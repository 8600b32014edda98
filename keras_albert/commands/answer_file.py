"""A file of answers that grows line by line, and outlives its process."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from keras_albert.commands.answer_lines import Answer, AnswerLines
from keras_albert.commands.run_settings import Settings, open_settings


class AnswerFile:
    """Answers as JSON lines or TSV, a line for each row of the input.

    They are gathered in `PATH.partial` and appear under their own name when all are
    there. If the process dies, those that are whole stay, and the same run goes on
    behind them.

    Attributes:
        done: int. How many answers were there already.

    Args:
        path: Path. The file to write.
        format: string. `"jsonl"` or `"tsv"`.
        settings: dict. What makes the run this run; see `open_settings`.

    Raises:
        FileExistsError: If the file is there.
        ValueError: If a run with other settings was stopped.

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
            # Whatever it is: no settings tell what run it was of.
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
        # A model that cannot be asked leaves nothing behind.
        if error is not None and not self._holds_something():
            self._partial.unlink(missing_ok=True)
            self._settings.unlink(missing_ok=True)

    def write(self, answers: Sequence[Answer]) -> None:
        """Add answers, and hand them to the system."""
        self._file.write(self._lines.encode(answers))
        self._file.flush()

    def finish(self) -> None:
        """Give the file its name: all answers are there."""
        self._file.close()
        self._partial.replace(self.path)
        self._settings.unlink()
