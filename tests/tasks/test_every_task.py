"""The checks that all tasks pass; each task's own file has the rest."""

import pytest

from tests.one_backend import on_one_backend_except
from tests.tasks.every_task import cases
from tests.tasks.task_checks import check_task

ON_ONE = ("exits", "regression", "similarities", "conditional")
pytestmark = on_one_backend_except(
    *(f"test_task[{name}]" for name in cases() if name not in ON_ONE)
)


@pytest.mark.parametrize("name", cases())
def test_task(name, make_classifier, toy_proto, toy, tmp_path):
    make, x, y = cases(make_classifier, toy_proto, toy)[name]
    check_task(make(), x, y, tmp_path)
