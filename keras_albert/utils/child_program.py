"""A program, run by its path, that runs another until its parent process ends.

    python child_program.py PROGRAM ARGUMENT ...

PROGRAM is a module or the path of a file. The parent process keeps the other end of
this process's standard input open. The system closes it when the parent ends, even if
a signal leaves the parent no time to end its children; then this process ends, too.
"""

import os
import runpy
import select
import sys
import threading


def end_with_parent() -> None:
    """End this process when the other end of its standard input is closed."""
    if not hasattr(select, "poll"):  # Windows
        return
    watched = select.poll()
    # Only hang-up is polled: the input itself is for the program.
    watched.register(sys.stdin.fileno(), 0)

    def watch() -> None:
        watched.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Run the program."""
    end_with_parent()
    program = sys.argv[1]
    del sys.argv[0]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        if not sys.flags.isolated:
            del sys.path[0]
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
