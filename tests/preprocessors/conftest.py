"""The fixtures of texts."""

from tests.text.conftest import *  # noqa: F403
