"""The TensorFlow SavedModel export, from any backend."""

import json
from pathlib import Path
from typing import Any

import keras

from keras_albert.exports.shared import (
    check_activations,
    check_tokenizer,
    describe_model,
    row_of,
)
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.windows import window_stride
from keras_albert.utils.arguments import check_at_least, check_at_most, check_positive
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.child_process import run_in_tensorflow
from keras_albert.utils.environment import check_packages
from keras_albert.utils.remote import is_remote, list_files
from keras_albert.utils.temporary import temporary_directory


def export_saved_model(
    task: AlbertTask,
    path: Path,
    version: int | None = None,
    max_length: int | None = None,
    top_k: int | None = None,
) -> Path:
    """Write a SavedModel that takes strings, as a version for TensorFlow Serving.

    The export is the same for every backend: a separate process with the TensorFlow
    backend loads the weights and writes the graph. The graph contains only core and
    tensorflow-text operations, stores each weight once, and runs in programs without
    Keras or this package.

    A version is a directory whose name is a number. It appears in one step, when it is
    complete, so that a server watching `path` can load it. Its `assets.extra` contains
    the signatures and the origin of the model (`manifest.json`), the class names
    (`labels.txt`), and the server's warm-up requests.

    Args:
        task: A task with a preprocessor.
        path: Path. The directory of the model's versions.
        version: int. The version to write, 0 or higher; it must be new. Defaults to
            `None`, the highest existing version plus one.
        max_length: int. Maximum number of tokens in a row: a batch is padded to its
            longest text, up to this length. Defaults to `None`, the preprocessor's
            value.
        top_k: int. For a classifier: also return `top_k_labels` and `top_k_scores` of
            this many classes. For a masked language model: the number of tokens for
            each mask. Defaults to `None`: no such outputs, and 5 tokens.

    Returns:
        The directory of the version, `path/1` for the first.

    Raises:
        ImportError: If TensorFlow or tensorflow-text is not installed.
        FileExistsError: If the version exists.
        NotADirectoryError: If `path` is a file.
        OSError: If the version cannot be written.
        ValueError: If the task has no preprocessor or cannot be exported, an option
            does not fit it, or the version is not valid for a server.
        RuntimeError: If the other process failed; the message contains the end of its
            error output.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"])
        >>> classifier.export("served/films")
        PosixPath('served/films/1')
    """
    check_activations(task)
    check_tokenizer(task, "A SavedModel")
    options: dict[str, Any] = _check_options(task, max_length, top_k)
    check_packages(
        "The SavedModel export", "tensorflow-text", "tensorflow", "tensorflow_text"
    )
    trained = {"trained": _describe_training(task)}
    options["manifest"] = describe_model(task, "text") | options | trained
    target = path / str(_choose_version(path, version))
    with atomic_directory(target) as directory, temporary_directory(target) as preset:
        task.save_to_preset(preset)
        arguments = str(preset), str(directory), json.dumps(options)
        run_in_tensorflow("SavedModel", f"{__package__}.write", *arguments)
        # Another process may have written this version; files of both must not mix.
        _check_new_version(target)
    return target


def _describe_training(task: AlbertTask) -> dict[str, Any]:
    """Describe a task's training; a loaded task has a different optimizer."""
    described = {
        "backend": keras.config.backend(),
        "dtype": task.backbone.dtype_policy.name,
        "from_loaded_weights": task.backbone.pretrained,
    }
    optimizer = getattr(task, "optimizer", None)
    if optimizer is not None and (steps := int(optimizer.iterations)):
        described |= {"optimizer": optimizer.name, "steps": steps}
    return described


def _choose_version(path: Path, version: int | None) -> int:
    if path.is_file():
        raise NotADirectoryError(f"{path} is a file. Choose another path.")
    versions = served_versions(path)
    if version is None:
        return max(versions, default=0) + 1
    check_at_least(0, version=version)
    check_at_most(2**63 - 1, version=version)
    _check_new_version(versions.get(version, path / str(version)))
    return version


def _check_new_version(target: Path) -> None:
    if target.exists():
        raise FileExistsError(
            f"{target} exists, and a server may be using it. Leave out `version` to "
            "write the next one."
        )


def served_versions(path: Path) -> dict[int, Path]:
    """Return the versions in a directory, which need not exist, in ascending order."""
    if is_remote(path):
        entries = {path / name.partition("/")[0] for name in list_files(path)}
    else:
        entries = set(path.iterdir() if path.is_dir() else ())
    versions = [p for p in entries if p.name.isascii() and p.name.isdigit()]
    return {int(p.name): p for p in sorted(versions, key=lambda p: int(p.name))}


def served_version(path: Path) -> Path | None:
    """Return a SavedModel, or the highest version below, as a server does."""
    if (path / "saved_model.pb").is_file():
        return path
    return [None, *served_versions(path).values()][-1]


def _check_options(
    task: AlbertTask, max_length: int | None, top_k: int | None
) -> dict[str, int | None]:
    preprocessor = task.preprocessor
    if max_length is None:
        max_length = preprocessor.max_length
    check_at_least(preprocessor.shortest_length, max_length=max_length)
    check_at_most(task.backbone.max_sequence_length, max_length=max_length)
    # The token classifier's stride must fit its windows, which may now be shorter.
    window_stride(getattr(preprocessor, "stride", None), max_length - 2)
    if top_k is not None:
        ranks = row_of(task).ranks
        if ranks is None or getattr(task, "is_regression", False):
            raise ValueError(
                "`top_k` is for models that rank classes or tokens, not for this "
                f"{type(task).__name__}. Leave it out."
            )
        is_of_classes = ranks == "classes"
        most = task.num_classes if is_of_classes else task.backbone.vocabulary_size
        check_positive(top_k=top_k)
        check_at_most(most, top_k=top_k)
    return {"max_length": max_length, "top_k": top_k}
