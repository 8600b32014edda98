"""The LiteRT export, from any backend."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from keras_albert.exports import shared
from keras_albert.tasks.task import AlbertTask
from keras_albert.utils import atomic_files
from keras_albert.utils.arguments import check_at_most, check_choice, check_positive
from keras_albert.utils.child_process import run_in_tensorflow
from keras_albert.utils.environment import check_packages
from keras_albert.utils.temporary import temporary_directory


def export_litert(
    task: AlbertTask,
    path: Path,
    sequence_length: int | None = None,
    quantize: Literal["dynamic_int8", "fp16"] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a model for LiteRT (TensorFlow Lite), for phones and small devices.

    It takes int32 ids from the preprocessor and returns numbers, under the same names
    as the ONNX export. Every backend writes the same file, in a process with the
    TensorFlow backend: LiteRT's built-in operations only, each weight stored once, the
    layers as a loop.

    The file is also a zip archive, as LiteRT's tools expect: `metadata.json` contains
    the task, its labels, the longest row and versions, and `labels.txt` the classes,
    one per line. `zipfile` and `unzip` read both.

    Args:
        task: A task.
        path: Path. The file to write.
        sequence_length: int. Tokens in a row, for devices that need fixed shapes;
            shorter rows are padded. Defaults to `None`, rows of any length. The number
            of rows is variable in any case.
        quantize: `"dynamic_int8"` stores matrices in int8, a quarter of the size, and
            rounds activations for each multiplication, row by row. `"fp16"` stores
            weights in float16, half the size, and computes in float32. Defaults to
            `None`.
        overwrite: bool. Whether to replace an existing file. Defaults to `False`.

    Returns:
        The path.

    Raises:
        ImportError: If TensorFlow is not installed.
        FileExistsError: If the file exists and `overwrite` is `False`.
        IsADirectoryError: If `path` is a directory.
        OSError: If the file cannot be written.
        ValueError: If an argument is invalid, or the task cannot be exported or is
            quantized to a type other than int8.
        RuntimeError: If the other process failed; the message contains the end of its
            error output.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"])
        >>> classifier.export("films.tflite", format="litert")
        PosixPath('films.tflite')
    """
    return write_model(task, path, sequence_length, quantize, overwrite)


def write_model(
    task: AlbertTask,
    path: Path,
    sequence_length: int | None,
    quantize: str | None,
    overwrite: bool,
    bundle: Mapping[str, Any] | None = None,
    files: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Write a LiteRT model with files, for MediaPipe if `bundle` has its options."""
    check_choice((None, "dynamic_int8", "fp16"), quantize=quantize)
    if sequence_length is not None:
        check_positive(sequence_length=sequence_length)
        longest = task.backbone.max_sequence_length
        check_at_most(longest, sequence_length=sequence_length)
    shared.row_of(task)
    shared.check_activations(task)
    atomic_files.check_new_file(path, overwrite)
    check_packages("The LiteRT export", "tensorflow", "tensorflow")
    if bundle is not None:
        check_packages("The MediaPipe export", "mediapipe", "mediapipe")
    task = shared.with_one_head(task)
    options = {"sequence_length": sequence_length, "quantize": quantize}
    described = shared.describe_model(task, "tokens") | options
    with atomic_files.atomic_file(path) as partial, temporary_directory(path) as preset:
        shared.float_task(task).save_to_preset(preset)
        program = "keras_albert.exports.write_litert"
        labels = described.get("labels", ())
        extra = bundle and {**bundle, "has_labels": bool(labels)}
        arguments = str(preset), str(partial), json.dumps(options | {"bundle": extra})
        run_in_tensorflow("LiteRT model", program, *arguments)
        # Appended after the model, where runtimes ignore it.
        with zipfile.ZipFile(partial, "a") as archive:
            text = json.dumps(described, indent=2, ensure_ascii=False)
            archive.writestr("metadata.json", text + "\n")
            if labels:
                archive.writestr("labels.txt", "".join(f"{name}\n" for name in labels))
            for name, text in files.items():
                archive.writestr(name, text)
    return path
