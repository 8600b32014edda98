import signal

import pytest


@pytest.fixture
def _hears_ctrl_c():
    """In the background of a shell SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
