"""The ONNX export, from any backend."""

import ctypes
import json
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from keras_albert.exports import shared
from keras_albert.tasks.classification.early_exit import with_last_head
from keras_albert.tasks.task import AlbertTask
from keras_albert.utils.arguments import check_choice
from keras_albert.utils.atomic_files import atomic_file, check_new_file
from keras_albert.utils.environment import check_packages


def export_onnx(
    task: AlbertTask,
    path: Path,
    inputs: Literal["tokens", "text"] = "tokens",
    pairs: bool = False,
    quantize: Literal["int8"] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a model for ONNX Runtime, OpenVINO and others.

    The graph is built from the weights, so that every backend writes the same one, for
    any number of rows of any length, with unrolled layers and each weight stored once.
    The metadata contains the task, the labels, the vocabulary size, the longest row and
    versions.

    Args:
        task: A task.
        path: Path. The file to write.
        inputs: string. `"tokens"`: int32 ids from the preprocessor, with numeric
            outputs, for any runtime. `"text"`: strings, tokenized in the graph; the
            serving program needs onnxruntime-extensions, and has to import it before
            TensorFlow, whose libraries would replace its own. Long documents are split
            into rows that run in batches. Defaults to `"tokens"`.
        pairs: bool. Whether the model also takes a second text, `text_pair`: for a
            classifier, a masked language model, or an embedder, which then
            returns the similarity. Defaults to `False`.
        quantize: `"int8"` stores matrices in int8 and multiplies in int8: a quarter of
            the size, faster on CPUs. Activations are rounded by the range of the whole
            batch (for documents, of a batch of windows), so that a row's result depends
            slightly on the others. Defaults to `None`, float32.
        overwrite: bool. Whether to replace an existing file. Defaults to `False`.

    Returns:
        The path.

    Raises:
        ImportError: If onnx or onnxscript is not installed.
        FileExistsError: If the file exists and `overwrite` is `False`.
        IsADirectoryError: If `path` is a directory.
        OSError: If the file cannot be written.
        ValueError: If an argument is invalid, or the task cannot be exported, has an
            activation that ONNX does not have, or has no preprocessor for texts.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"])
        >>> classifier.export(
        ...     "films.onnx", format="onnx", inputs="text", quantize="int8")
        PosixPath('films.onnx')
    """
    row = shared.row_of(task)
    check_choice(("tokens", "text"), inputs=inputs)
    check_choice((None, "int8"), quantize=quantize)
    if pairs and not (row.pairs and inputs == "text"):
        raise ValueError(
            "`pairs` is for a classifier, masked language model or embedder with "
            f'inputs="text". Received: {row.name}, {inputs=}'
        )
    if inputs == "text":
        shared.check_tokenizer(task, "A model of texts")
    check_new_file(path, overwrite)
    check_onnx()
    # The path is tried first, so that errors appear before any work is done.
    with atomic_file(path) as partial:
        write_onnx(task, partial, inputs, pairs, quantize == "int8")
    if inputs == "text":
        _load_text_operations()
    return path


def _load_text_operations() -> None:
    """Load onnxruntime-extensions for this process, where KerasHub loads TensorFlow."""
    # Without the flag, names in TensorFlow's libraries would replace its own, and its
    # patterns would match nothing. Where there is no such flag, names are per library.
    found = find_spec("onnxruntime_extensions")
    if found is not None and found.origin and hasattr(os, "RTLD_DEEPBIND"):
        for library in Path(found.origin).parent.glob("*pydll*.so"):
            ctypes.CDLL(str(library), os.RTLD_NOW | os.RTLD_DEEPBIND)


def check_onnx() -> None:
    """Raise if a package that writes ONNX is missing."""
    check_packages("The ONNX export", "keras-albert[onnx]", "onnx", "onnxscript")


def write_onnx(
    task: AlbertTask,
    path: Path,
    inputs: str,
    pairs: bool = False,
    quantize: bool = False,
) -> None:
    """Write a task to a new file; `inputs` as in `export`, or "transformers"."""
    task = with_last_head(task)
    build = import_module("keras_albert.exports.onnx.builder").build_onnx_model
    # The only type of metadata in ONNX is string.
    described = {
        name: x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)
        for name, x in shared.describe_model(task, inputs).items()
    }
    path.write_bytes(build(task, inputs, pairs, quantize, described))
