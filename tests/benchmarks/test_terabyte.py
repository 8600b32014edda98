"""The plan for 1 TB follows from what was measured; its many files are read."""

import importlib

import pytest

from tests.pretraining.prepared_texts import write_prepared


@pytest.fixture
def terabyte():
    return importlib.import_module("terabyte")


def test_many_files_are_those_of_the_examples(terabyte, tmp_path, tiny_proto):
    prepared = write_prepared(tmp_path / "prepared", tiny_proto)
    terabyte.write_files(prepared, tmp_path / "many", 5)
    opened, _, rows = terabyte.measure_reading(str(tmp_path / "many"), 1)
    assert opened > 0 < rows
    data = terabyte.PretrainingData(tmp_path / "many")
    assert len(data) == 5 * terabyte.FEW
