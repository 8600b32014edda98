"""Measure the memory of a process that calls a method for one text after another.

    KERAS_BACKEND=jax python benchmarks/many_calls.py
    KERAS_BACKEND=torch python benchmarks/many_calls.py --methods classify answer

The texts have all lengths up to `--words` words, in random order; those that are longer
than a row are cut or read in windows. After each tenth of the calls, the resident
memory of the process is printed: if each call kept something, it would grow to the end.
Without `--size` the model is the preset of the package.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from one_text import PRESET
from settings import SEED, mixed_texts, parser, prepare, read_vocabulary

MEGABYTE = 2**20


def resident_memory() -> int:
    """Return the resident memory of this process in bytes."""
    words = Path("/proc/self/status").read_text(encoding="utf-8").split()
    return int(words[words.index("VmRSS:") + 1]) * 1024


def texts_of_all_lengths(data: Path | None, longest: int) -> list[str]:
    """Return a text of each number of words from 1 on, in random order."""
    words: list[str] = []
    count = 1
    while len(words) < longest:
        words = " ".join(mixed_texts(data, count)).split()
        count *= 2
    texts = [" ".join(words[:length]) for length in range(1, longest + 1)]
    random.Random(SEED).shuffle(texts)  # noqa: S311
    return texts


def memory_of_calls(
    call: Callable[[str], object], texts: list[str], calls: int
) -> Iterator[tuple[int, int]]:
    """Call a function of one text, and yield the memory after each tenth.

    Args:
        call: Callable of a text.
        texts: list of string. They are repeated as often as necessary.
        calls: int. The number of calls.

    Yields:
        The number of calls, and the memory in bytes.
    """
    done = 0
    for tenth in range(1, 11):
        for number in range(done, calls * tenth // 10):
            call(texts[number % len(texts)])
        done = calls * tenth // 10
        yield done, resident_memory()


def main() -> None:
    from one_text_methods import METHODS, build

    made = parser(__doc__)
    made.set_defaults(size=PRESET)
    made.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    made.add_argument("--calls", type=int, default=10_000)
    made.add_argument("--words", type=int, default=400, help="of the longest text")
    arguments = made.parse_args()
    prepare(arguments)
    texts = texts_of_all_lengths(arguments.data, arguments.words)
    for name in arguments.methods:
        method = METHODS[name]
        task = build(method, arguments.size, lambda: read_vocabulary(arguments.data))

        def call(text: str, method=method, task=task) -> None:
            method.run(task, *method.read(text))

        for done, memory in memory_of_calls(call, texts, arguments.calls):
            print(f"{name}: {done} calls, {memory / MEGABYTE:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
