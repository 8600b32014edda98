"""Entries of modules that are imported late."""

import sys

from keras_albert.utils.registry import Registry

REGISTRY = Registry()
MODULE = f"""
from {__name__} import REGISTRY
REGISTRY.add("late", 2)
REGISTRY.add("early", 3)
"""


def test_a_module_is_imported_at_the_first_look_up(tmp_path, monkeypatch):
    (tmp_path / "adds_late.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    REGISTRY.add("early", 1)
    REGISTRY.add_module("adds_late")
    assert "adds_late" not in sys.modules
    assert list(REGISTRY.entries().items()) == [("early", 3), ("late", 2)]
