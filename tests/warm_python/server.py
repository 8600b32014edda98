"""Imports the libraries, then forks a child for each program it is asked for."""

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import traceback
import types

# The length of a request, and the child's standard input, output and errors.
_REQUEST, _FILES = 1 << 20, 3


def serve(path):
    """Run the requests of clients until standard input is closed."""
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen()
        os.rename(f"{path}.new", path)
        selector.register(listener, selectors.EVENT_READ, None)
        while True:
            # One at a time: the end of a client and of its program may come together,
            # and the first of them is the end of both.
            key, _ = selector.select()[0]
            if key.fileobj is sys.stdin:
                return None
            if key.fileobj is not listener:
                _end(key, selector)
                continue
            request = _start(listener, selector)
            if request:
                listener.close()
                selector.close()
                return request


def _start(listener, selector):
    connection, _ = listener.accept()
    data, files, _, _ = socket.recv_fds(connection, _REQUEST, _FILES)
    if not data:
        connection.close()
        return None
    request = json.loads(data)
    pid = os.fork()
    if not pid:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return request
    for file in files:
        os.close(file)
    child = os.pidfd_open(pid)
    connection.sendall(f"{pid}\n".encode())
    selector.register(child, selectors.EVENT_READ, (pid, connection))
    # Closed when the client ends; then its program ends as well.
    selector.register(connection, selectors.EVENT_READ, (pid, child))
    return None


def _end(key, selector):
    pid, other = key.data
    child, connection = (other, key.fileobj)
    if isinstance(other, socket.socket):
        child, connection = key.fileobj, other
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    selector.unregister(child)
    selector.unregister(connection)
    os.close(child)
    connection.close()


def _run(request):
    """Run a program as Python's command line does."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    kind, program, *arguments = request["arguments"]
    places = [place for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    sys.path[:] = places + [place for place in sys.path if place not in places]
    # Another environment may name another place.
    tempfile.tempdir = None
    # Keras draws seeds with `random`, which a fork seeds again; NumPy it does not.
    sys.modules["numpy"].random.seed()
    if kind == "-c":
        sys.path.insert(0, "")
        sys.argv = ["-c", *arguments]
        module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(program, "<string>", "exec"), module.__dict__)  # noqa: S102
    elif kind == "-m":
        sys.path.insert(0, os.getcwd())
        sys.argv = [program, *arguments]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


def end(program):
    """Run the program, and end this process without taking the libraries down."""
    status = 0
    try:
        program()
    except SystemExit as stop:
        status = stop.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except Exception:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    with contextlib.suppress(ImportError):
        import tensorflow_text  # noqa: F401
    import keras_hub  # noqa: F401

    gc.collect()
    gc.freeze()
    asked = serve(sys.argv[1])
    if asked:
        end(functools.partial(_run, asked))
