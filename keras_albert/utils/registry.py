"""Entries by name, which modules that are imported late add to."""

import importlib
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name, which modules that are imported late add to."""

    # Folders import downwards only: what offers something to a folder below adds it
    # there, and is imported when it is first looked up.

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._modules: set[str] = set()

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry, in place of an earlier one with that name."""
        self._entries[name] = entry

    def add_module(self, module: str) -> None:
        """Add the name of a module that calls `add` when it is imported."""
        self._modules.add(module)

    def entries(self) -> dict[str, Entry]:
        """Import the modules, and return all entries in the order of `add`."""
        for module in self._modules:
            importlib.import_module(module)
        return self._entries
