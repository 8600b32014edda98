"""Reports how much of the input has been read, also by other processes."""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from keras_albert.pretraining.prepare.input_parts import InputPart

# Called with the number of bytes that have been read, and of all bytes.
Progress = Callable[[int, int], None]
_SECONDS = 0.2


@contextmanager
def reported_progress(
    parts: Sequence[InputPart], progress: Progress | None
) -> Iterator[str]:
    """Report the progress of the processes of this machine during a block."""
    if progress is None:
        yield ""
        return
    total = sum(part.num_bytes for part in parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "positions")
        positions = np.memmap(path, np.int64, "w+", shape=(len(parts),))
        is_over = threading.Event()

        def report() -> None:
            while not is_over.wait(_SECONDS):
                progress(int(positions.sum()), total)

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield str(path)
        finally:
            is_over.set()
            thread.join()
        progress(int(positions.sum()), total)


def progress_of_part(file: str, number: int) -> Callable[[int], None]:
    """Return a function that stores how much of a part has been read."""
    if not file or not Path(file).is_file():
        return lambda _: None
    positions = np.memmap(file, np.int64, "r+")

    def store(count: int) -> None:
        positions[number] = count

    return store
