"""Compare checkpoints of a run: ours, Orbax's, and those of torch.distributed.

    pip install orbax-checkpoint
    python benchmarks/checkpoints.py --size base

Writes what a run of pretraining keeps, which is the weights and both moments of Lamb,
several times into one directory, and prints the bytes, and the median, the least and
the most of the seconds to write and to read. Then a process that writes without pause
is killed, again and again, and the newest checkpoint is read: printed is how often one
could be.
"""

import argparse
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

CALLBACK = "keras.callbacks.OrbaxCheckpoint"
NAMES = ("ours", "orbax", CALLBACK, "torch.distributed.checkpoint")


def values(size: str) -> list[np.ndarray]:
    """Random values of the shapes of a model, three of each."""
    from keras_albert import AlbertBackbone, AlbertPretrainer
    from keras_albert.backbone import MODEL_SIZES

    backbone = AlbertBackbone(vocabulary_size=30000, **MODEL_SIZES[size])
    shapes = [tuple(each.shape) for each in AlbertPretrainer(backbone).weights]
    random = np.random.default_rng(0)
    return [random.random(shape, np.float32) for shape in shapes * 3]


def write(name: str, folder: Path, step: int, arrays: list[np.ndarray]) -> None:
    """Write a checkpoint so that a reader never finds a part of one."""
    if name == "ours":
        from keras_albert.training.run_folder import TrainingCheckpoint

        path = folder / "last.safetensors"
        TrainingCheckpoint(step, {"model": arrays}).write(path)
    elif name == "orbax":
        import orbax.checkpoint as ocp

        options = ocp.CheckpointManagerOptions(
            max_to_keep=1, enable_async_checkpointing=False
        )
        with ocp.CheckpointManager(folder, options=options) as manager:
            manager.save(step, args=ocp.args.StandardSave(_named(arrays)))
    elif name == CALLBACK:
        callback = _callback(folder, arrays)
        callback.on_epoch_end(step)
        callback.on_train_end()
    else:
        import torch
        import torch.distributed.checkpoint as dcp

        tensors = {k: torch.from_numpy(x) for k, x in _named(arrays).items()}
        # A directory for each step, as it has no name for the newest one.
        dcp.save(tensors, checkpoint_id=folder / str(step), no_dist=True)
        for old in folder.iterdir():
            if old.name != str(step):
                shutil.rmtree(old)


def read(name: str, folder: Path, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Read the newest checkpoint."""
    if name == "ours":
        from keras_albert.training.run_folder import TrainingCheckpoint

        path = folder / "last.safetensors"
        return list(TrainingCheckpoint.read(path).groups["model"])
    if name == "orbax":
        import orbax.checkpoint as ocp

        with ocp.CheckpointManager(folder) as manager:
            args = ocp.args.StandardRestore(_named(arrays))
            found = manager.restore(manager.latest_step(), args=args)
        return [np.asarray(found[key]) for key in sorted(found)]
    if name == CALLBACK:
        callback = _callback(folder, arrays)
        found = callback.checkpointer.load_checkpointables()["pytree"]
        callback.model.set_weights([0 * array for array in arrays])
        callback.model.set_state_tree(found)
        return [np.asarray(each) for each in callback.model.get_weights()]
    import torch
    import torch.distributed.checkpoint as dcp

    newest = max(folder.iterdir(), key=lambda path: int(path.name))
    tensors = {k: torch.zeros(x.shape) for k, x in _named(arrays).items()}
    dcp.load(tensors, checkpoint_id=newest, no_dist=True)
    return [tensors[key].numpy() for key in sorted(tensors)]


@lru_cache(maxsize=1)
def _model(shapes: tuple[tuple[int, ...], ...]) -> Any:
    import keras

    model = keras.Model()
    for number, shape in enumerate(shapes):
        model.add_weight(name=f"v{number}", shape=shape)
    model.built = True
    model.compile("sgd")
    return model


def _callback(folder: Path, arrays: list[np.ndarray]) -> Any:
    """The callback of a model with these values as weights."""
    import keras

    callback = keras.callbacks.OrbaxCheckpoint(folder, save_on_background=False)
    callback.set_model(_model(tuple(array.shape for array in arrays)))
    callback.model.set_weights(arrays)
    return callback


def _named(arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{number:05d}": array for number, array in enumerate(arrays)}


def write_on(name: str, folder: Path, arrays: list[np.ndarray], first: int) -> None:
    """Write checkpoints until the process is killed."""
    while True:
        write(name, folder, first, arrays)
        first += 1


def survives(name: str, arrays: list[np.ndarray], kills: int) -> int:
    """Return after how many of the kills a checkpoint could be read."""
    random = np.random.default_rng(0)
    context = multiprocessing.get_context("spawn")
    good = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(name, folder, 0, arrays)
        for kill in range(kills):
            first = 1000 * (kill + 1)
            process = context.Process(
                target=write_on, args=(name, folder, arrays, first)
            )
            process.start()
            # Once it has written, which is after seconds of imports.
            newest = {path.name for path in folder.rglob("*")}, time.monotonic()
            while {path.name for path in folder.rglob("*")} == newest[0]:
                time.sleep(0.01)
            time.sleep(random.random())
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            try:
                read(name, folder, arrays)
            except BaseException as error:
                # That of torch.distributed is no `Exception`.
                if isinstance(error, KeyboardInterrupt):
                    raise
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            else:
                good += 1
    return good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    arrays = values(arguments.size)
    print(f"{sum(array.nbytes for array in arrays) / 1e6:.0f} MB of values")
    for name in NAMES:
        seconds = []
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for step in range(arguments.repeats):
                start = time.perf_counter()
                write(name, folder, step, arrays)
                middle = time.perf_counter()
                found = read(name, folder, arrays)
                seconds.append((middle - start, time.perf_counter() - middle))
            for array, other in zip(found, arrays, strict=True):
                np.testing.assert_array_equal(array, other)
            files = [path for path in folder.rglob("*") if path.is_file()]
            size = sum(path.stat().st_size for path in files)
        written, taken = (
            f"{np.median(each):.2f} s ({min(each):.2f} to {max(each):.2f})"
            for each in zip(*seconds, strict=True)
        )
        print(
            f"{name}: {written} to write, {taken} to read, "
            f"{size / 1e6:.0f} MB in {len(files)} files"
        )
        good = survives(name, arrays, arguments.kills)
        print(f"{name}: read after {good} of {arguments.kills} kills")


if __name__ == "__main__":
    main()
