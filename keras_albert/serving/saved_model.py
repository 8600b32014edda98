"""Writing a TensorFlow SavedModel from any backend."""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from keras_albert.presets.atomic_directory import atomic_directory
from keras_albert.presets.needed_packages import check_packages
from keras_albert.serving.served_tasks import check_is_served


def export_saved_model(task: Any, path: Path, version: int | None = None) -> Path:
    """Write a SavedModel that takes strings, as a version for TensorFlow Serving.

    There is one way, whatever backend trained the model: its weights go into a
    model of the TensorFlow backend in a process of its own, which writes the graph.
    It has core and tensorflow-text operations only, each weight once, and works in a
    program that knows neither Keras nor this package.

    A version is a folder with a number for a name. It appears in one step, when it is
    whole: a server that watches `path` takes it from there. What it takes and gives
    stands in its `assets.extra/manifest.json`, and the names of classes in
    `assets.extra/labels.txt`.

    Args:
        task: A task with a preprocessor.
        path: Path. The directory of the model's versions.
        version: int. Which version to write; it must be new. Defaults to `None`, the
            highest that is there and one more.

    Returns:
        The directory of the version, `path/1` for the first.

    Raises:
        ImportError: If TensorFlow or tensorflow-text is not installed.
        FileExistsError: If there is such a version.
        NotADirectoryError: If `path` is a file.
        ValueError: If the task has no preprocessor, or is none of those that export,
            or the version is below 1.
        RuntimeError: If the other process failed; its last words are in the message.
    """
    if task.preprocessor is None:
        msg = (
            "A served model takes strings, and this one has no preprocessor. Build it "
            "with one before you export it."
        )
        raise ValueError(msg)
    check_packages(
        "The SavedModel export", "tensorflow-text", "tensorflow", "tensorflow_text"
    )
    check_is_served(task)
    is_new = not path.exists()
    target = path / str(_choose_version(path, version))
    try:
        with (
            tempfile.TemporaryDirectory() as preset,
            atomic_directory(target) as directory,
        ):
            task.save_to_preset(preset)
            _run_writer(preset, directory)
    except BaseException:
        if is_new:
            with suppress(OSError):
                path.rmdir()
        raise
    return target


def _choose_version(path: Path, version: int | None) -> int:
    if path.exists() and not path.is_dir():
        msg = f"{path} is a file, and a directory is to be written. Name another path."
        raise NotADirectoryError(msg)
    folders = path.iterdir() if path.exists() else ()
    versions = [int(p.name) for p in folders if _is_version(p.name)]
    if version is None:
        return max(versions, default=0) + 1
    if version < 1:
        raise ValueError(f"Versions count from 1. Received: version={version}")
    if version in versions:
        msg = (
            f"{path / str(version)} is there, and a server may be using it. Leave out "
            "`version` to write the next one."
        )
        raise FileExistsError(msg)
    return version


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _run_writer(preset: str, target: Path) -> None:
    package_parent = Path(__file__).resolve().parents[2]
    search_path = [str(package_parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        # The graph is the same; the GPU stays with whoever trains.
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join(filter(None, search_path)),
    }
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "keras_albert.serving.write_saved_model",
            preset,
            str(target),
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode:
        msg = (
            f"The process that writes the SavedModel ended with {finished.returncode}. "
            f"Nothing was written. It said:\n{finished.stderr[-2000:]}"
        )
        raise RuntimeError(msg)
