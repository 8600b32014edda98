"""Run as a program, by its path: another program, for as long as its parent lives.

    python child_program.py PROGRAM ARGUMENT ...

PROGRAM is a module or the path of a file. Whoever starts this process keeps the other
end of its standard input open. The system closes that with its owner, also where a
signal leaves no time to end children; then this process ends, too.
"""

import os
import runpy
import select
import sys
import threading


def end_with_parent() -> None:
    """End this process as soon as nobody can write to its standard input any more."""
    if not hasattr(select, "poll"):  # Windows
        return
    watched = select.poll()
    # Of no event but the end: what there is to read is for the program.
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
