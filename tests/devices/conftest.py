"""The fixtures of the tasks."""

from tests.tasks.conftest import *  # noqa: F403
