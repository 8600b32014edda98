"""Programs end with one line and an exit status after any error or signal."""

import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from keras_albert.cli import program as module
from keras_albert.cli.program import describe_error, run_program
from keras_albert.utils.arguments import argument_error

_MAIN = "import sys; from keras_albert.cli import main; sys.exit(main())"


signals = pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)


def raising(error):
    def run():
        raise error

    return run


_REPORT = "--debug shows where; please report it"
_FULL = "No space left on device"
_ROOM = f"{_FULL}. Free some space, or write elsewhere"
_NONE = "nothing was written to a.onnx"


class SafetensorError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("a\nb"), "a b"),
        (TypeError("no text"), "no text"),
        (FloatingPointError("the loss is no number"), "the loss is no number"),
        (MemoryError(), "MemoryError"),
        (KeyError("x"), f"unexpected KeyError: 'x'. {_REPORT}"),
        (AssertionError(), f"unexpected AssertionError. {_REPORT}"),
        (SafetensorError(f"I/O error: {_FULL} (os error 28)"), _ROOM),
        (OSError(28, f"{_FULL}: {_NONE}"), f"[Errno 28] {_FULL}: {_NONE}"),
    ],
)
def test_an_error_is_one_line(error, line, capsys):
    assert run_program("program", raising(error)) == 1
    assert capsys.readouterr().err == f"program: {line}\n"


def test_a_very_long_message_is_cut():
    assert len(describe_error(ValueError("word " * 10**6), {})) < 2000


def test_debug_shows_where(capsys):
    assert run_program("program", raising(KeyError("x")), debug=True) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.endswith("please report it\n")


def test_an_error_names_the_option():
    error = argument_error("top_k", "`top_k` must be at least 1. Received: top_k=0")
    assert describe_error(error, {"top_k": "--top-k"}) == f"--top-k: {error}"
    assert describe_error(error, {"other": "--other"}) == str(error)


@pytest.mark.usefixtures("_hears_ctrl_c")
@signals
def test_a_signal_stops_it_in_good_order(number, status, capsys, tmp_path):
    before = signal.getsignal(signal.SIGTERM)

    def run():
        try:
            signal.raise_signal(number)
        finally:
            if number == signal.SIGTERM:
                # A second signal does not interrupt the cleanup.
                signal.raise_signal(signal.SIGTERM)
            (tmp_path / "cleaned").touch()

    assert run_program("program", run) == status
    assert (tmp_path / "cleaned").exists()
    assert capsys.readouterr().err == "program: stopped\n"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.usefixtures("_hears_ctrl_c")
@signals
def test_a_signal_while_garbage_is_collected_is_not_lost(number, status, capsys):
    hook = sys.unraisablehook
    lost = []

    def fall(phase, info):
        # The exception of one that is sent again is lost once more.
        if phase == "start" and len(lost) < 2:
            lost.append(phase)
            signal.raise_signal(number)

    def run():
        while True:
            gc.collect()
            time.sleep(0.01)

    gc.callbacks.append(fall)
    try:
        assert run_program("program", run) == status
    finally:
        gc.callbacks.remove(fall)
    assert len(lost) == 2
    assert capsys.readouterr().err == "program: stopped\n"
    assert sys.unraisablehook is hook


def test_a_later_sigterm_interrupts_what_the_first_did_not(monkeypatch):
    monkeypatch.setattr(module, "_CLEANUP_SECONDS", 0.0)

    def run():
        # As code that catches everything.
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    assert run_program("program", run) == 143


def test_what_goes_on_later_says_so(capsys):
    stop = KeyboardInterrupt(signal.SIGTERM)
    stop.add_note("run it again")
    assert run_program("program", raising(stop)) == 143
    assert capsys.readouterr().err == "program: stopped; run it again\n"


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_reader_that_has_seen_enough_is_no_error():
    program = (
        "import runpy, sys\n"
        "run_program = runpy.run_path(sys.argv[1])['run_program']\n"
        "def run():\n"
        "    while True:\n"
        "        print('x' * 1000, flush=True)\n"
        "sys.exit(run_program('program', run))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, module.__file__],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("argument", ["--version", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_may_be_cut_too(argument, unbuffered):

    reading, writing = os.pipe()
    # As of a reader that has ended before the first line.
    os.close(reading)
    finished = subprocess.run(
        [sys.executable, "-c", _MAIN, argument],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert finished.stderr == b""
    # argparse ignores what it cannot write at once.
    assert finished.returncode in ((0, 141) if unbuffered else (141,))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_finds_no_room_is_one_line(unbuffered):

    with open("/dev/full", "wb") as full:
        finished = subprocess.run(
            [sys.executable, "-c", _MAIN, "--version"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert finished.returncode == 1
    assert finished.stderr == f"keras-albert: {_ROOM}\n"
