"""Child processes that answer line by line, and are started anew when they die."""

import json
import os
import selectors
import subprocess
import sys
from pathlib import Path

# Many times what the slowest answer takes on an idle core.
SECONDS = 60
SECONDS_TO_START = 300
_ROOT = Path(__file__).parents[2]


class Program:
    """A module of this folder, run by itself; see `answer_lines`."""

    def __init__(self, name, folder):
        self.name = name
        self.log = folder / f"{name}.log"
        self.process = None

    def ask(self, question):
        """Give the answer, or `{"died": ...}` with the end of the log."""
        if self.process is None:
            self._start()
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        return self._answer(SECONDS)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _start(self):
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", f"tests.property.{self.name}"],
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=os.environ | {"CUDA_VISIBLE_DEVICES": "-1"},
            )
        answer = self._answer(SECONDS_TO_START)
        assert answer == "ready", answer

    def _answer(self, seconds):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(seconds) else None
        if line:
            return json.loads(line)
        why = f"no answer in {seconds} s"
        if line is not None:
            why = f"exit code {self.process.wait()}"
        self.stop()
        end = self.log.read_text(encoding="utf-8", errors="replace")[-3000:]
        return {"died": f"{why}\n{end}"}


def answer_lines(answer):
    """Answer the questions of a `Program`, until there are no more."""
    questions = os.fdopen(os.dup(0), "r")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print('"ready"', file=answers, flush=True)
    for line in questions:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
