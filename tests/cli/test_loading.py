"""Messages of libraries are hidden, unless they are asked for."""

import logging
import os
import subprocess
import sys
import threading

import pytest

from keras_albert.cli.loading import hidden_messages, loading, set_verbose

_WRITES = "import sys; print('of a child', file=sys.stderr); print('shown')"


@pytest.fixture(autouse=True)
def _level(monkeypatch):
    for name in ("TF_CPP_MIN_LOG_LEVEL", "GRPC_VERBOSITY"):
        monkeypatch.delenv(name, raising=False)


def write():
    os.write(2, b"of C++\n")
    subprocess.run([sys.executable, "-c", _WRITES], check=True)


@pytest.mark.parametrize("is_verbose", [False, True])
def test_messages_of_libraries_and_children_are_hidden(is_verbose, capfd):
    set_verbose(is_verbose)
    with loading("program"):
        write()
    print("after", file=sys.stderr)
    shown = capfd.readouterr()
    assert shown.out == "shown\n"
    hidden = ["of C++\n", "of a child\n"] if is_verbose else []
    assert sorted(shown.err.splitlines(True)) == sorted(["after\n", *hidden])


def test_logs_and_errors_of_threads_are_hidden(capfd):
    hook = threading.excepthook
    with hidden_messages():
        logging.getLogger("of Python").error("of a log")
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
    # A warning of pytest would be an error.
    assert capfd.readouterr().err == ""
    assert threading.excepthook is hook
    assert logging.getLogger("of Python").isEnabledFor(logging.ERROR)


def test_what_is_meant_to_be_seen_is_written_to_the_visible_stderr(capfd):
    with hidden_messages() as shown:
        os.write(shown, b"seen\n")
    assert capfd.readouterr().err == "seen\n"


def test_an_error_of_an_import_is_shown(capfd):
    with pytest.raises(ImportError), loading("program"):
        raise ImportError
    os.write(2, b"again\n")
    assert capfd.readouterr().err == "again\n"


def test_a_level_that_the_user_has_set_is_kept(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "1")
    set_verbose(False)
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "1"
    assert os.environ["GRPC_VERBOSITY"] == "NONE"
