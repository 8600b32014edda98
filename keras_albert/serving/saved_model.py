"""Writing a TensorFlow SavedModel from any backend."""

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from keras_albert.presets.atomic_directory import atomic_directory


def export_saved_model(task: Any, path: Path) -> Path:
    """Write a SavedModel that takes strings.

    There is one way, whatever backend trained the model: its weights go into a
    model of the TensorFlow backend in a process of its own, which writes the graph.
    It has core and tensorflow-text operations only, each weight once, and works in a
    program that knows neither Keras nor this package.

    Args:
        task: A task with a preprocessor.
        path: Path. The directory to write; a model that is there is replaced.

    Returns:
        The path.

    Raises:
        ImportError: If TensorFlow or tensorflow-text is not installed.
        ValueError: If the task has no preprocessor.
        RuntimeError: If the other process failed; its last words are in the message.
    """
    if task.preprocessor is None:
        msg = (
            "A served model takes strings, and this one has no preprocessor. Build it "
            "with one before you export it."
        )
        raise ValueError(msg)
    missing = [
        package
        for package in ("tensorflow", "tensorflow_text")
        if importlib.util.find_spec(package) is None
    ]
    if missing:
        msg = (
            f"TensorFlow writes the SavedModel, and {' and '.join(missing)} cannot "
            "be imported. Install them: pip install tensorflow-text"
        )
        raise ImportError(msg)
    with tempfile.TemporaryDirectory() as preset, atomic_directory(path) as target:
        task.save_to_preset(preset)
        _run_writer(preset, target)
    return path


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
