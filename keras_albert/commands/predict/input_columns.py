"""Finds the columns of a file that a model reads."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_albert.commands.files.rows import FileRows, Row
from keras_albert.commands.files.table import Table, choice_columns_of, read_choices

# Inputs whose column is set by another input's option, as in `finetune`.
_SAME = {"context": "text", "question": "text_pair"}


class InputColumns:
    """The inputs of a model, found in the columns of a file.

    Attributes:
        names: The columns that each input of the model is read from.
    """

    def __init__(
        self,
        rows: FileRows,
        choices: Sequence[tuple[str, ...]],
        asked: dict[str, str | None],
    ) -> None:
        self._table = Table(rows.path, {name: [] for name in rows.columns}, [])
        self._asked = asked
        for inputs in choices:
            found = {name: self._find(name) for name in inputs}
            if all(found.values()):
                self.names = found
                break
        else:
            # Names the missing column of the smallest set that the model accepts.
            for name in choices[-1]:
                if not self._find(name):
                    self._table.require(name, self._asked_for(name))
        self._readers = {name: self._reader(name) for name in self.names}

    def _asked_for(self, name: str) -> str | None:
        return self._asked.get(_SAME.get(name, name))

    def _find(self, name: str) -> list[str]:
        column = self._table.find(name, self._asked_for(name))
        if column is not None:
            return [column]
        if name != "choices":
            return []
        return choice_columns_of(self._table.columns)

    def _reader(self, name: str) -> Callable[[Row, str], Any]:
        columns = self.names[name]
        if name != "choices" or self._table.find(name) is not None:
            return lambda row, where: row[columns[0]]
        return lambda row, where: read_choices([row[c] for c in columns], where)

    def read(self, rows: Sequence[tuple[int, Row]]) -> dict[str, list[Any]]:
        """Read the inputs of the model from rows."""
        taken: dict[str, list[Any]] = {name: [] for name in self._readers}
        for line, row in rows:
            for name, read in self._readers.items():
                where = f"{self._table.path}, line {line}"
                value = read(row, where)
                texts = value if name == "choices" else [value]
                if not isinstance(texts, list) or not all(
                    isinstance(text, str) for text in texts
                ):
                    msg = (
                        f"{where}: {name!r} is {value!r:.80}, and "
                        f"{'a list of texts' if name == 'choices' else 'a text'} is "
                        "needed in every row."
                    )
                    raise ValueError(msg)
                taken[name].append(value)
        return taken
