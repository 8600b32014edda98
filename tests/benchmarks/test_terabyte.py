"""The plan for 1 TB follows from what was measured; its many files are read."""

import importlib

import pytest

from tests.pretraining.prepared_texts import write_prepared


@pytest.fixture
def terabyte():
    return importlib.import_module("terabyte")


def test_a_plan_scales_what_was_measured(terabyte):
    measured = terabyte.Measured(
        1e9, 500.0, 2e8, 4096 * 100, 5e8, rows_per_second=1024.0
    )
    machine = terabyte.Machine("eight chips", 8, 4, 1e12)
    # 100 updates for 1 GB, of two seconds.
    expected = terabyte.Plan(1e5, 2e5 / 3600, 512.0, 0.5, 8 * 2e5 / 3600)
    assert terabyte.plan(measured, machine, 2.0) == expected


def test_many_files_are_those_of_the_examples(terabyte, tmp_path, tiny_proto):
    prepared = write_prepared(tmp_path / "prepared", tiny_proto)
    terabyte.write_files(prepared, tmp_path / "many", 5)
    opened, _, rows = terabyte.measure_reading(str(tmp_path / "many"), 1)
    assert opened > 0 < rows
    data = terabyte.PretrainingData(tmp_path / "many")
    assert len(data) == 5 * terabyte.FEW
