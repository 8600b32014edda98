"""The ONNX export, from any backend."""

import ctypes
import json
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from keras_albert.exports import tasks
from keras_albert.tasks.classification.early_exit import read_exit_rule
from keras_albert.tasks.task import AlbertTask
from keras_albert.utils.atomic_files import atomic_file, check_new_file
from keras_albert.utils.environment import check_packages


def export_onnx(
    task: AlbertTask,
    path: Path,
    inputs: Literal["tokens", "text"] = "tokens",
    pairs: bool = False,
    quantize: Literal["int8"] | None = None,
    overwrite: bool = False,
    early: Literal["patience", "threshold"] | None = None,
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
        early: string. The rule by which texts leave a classifier with exits: each
            layer is an iteration of a loop that ends when all texts have left.
            `"patience"` and `"threshold"` are further inputs, scalars in int32 and
            float32 (of a regression also `tolerance`); `depth` is a further output,
            int32 `(batch,)`. Defaults to `None`, the depth of the model.

    Returns:
        The path.

    Raises:
        ImportError: If onnx or onnxscript is not installed.
        FileExistsError: If the file exists and `overwrite` is `False`.
        IsADirectoryError: If `path` is a directory.
        OSError: If the file cannot be written.
        ValueError: If an argument is invalid, or the task cannot be exported, has an
            activation that ONNX lacks, or has no preprocessor for texts.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"])
        >>> classifier.export(
        ...     "films.onnx", format="onnx", inputs="text", quantize="int8")
        PosixPath('films.onnx')
    """
    _check_arguments(task, inputs, pairs, quantize, early)
    check_new_file(path, overwrite)
    check_onnx()
    options = {} if early is None else {"early": early}
    task = tasks.with_one_head(task) if early is None else task
    # The path is tried first, so that errors appear before any work is done.
    with tasks.explained_errors(path), atomic_file(path) as partial:
        write_onnx(task, partial, inputs, pairs, quantize == "int8", **options)
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
    **options: Any,
) -> None:
    """Write a task with one head, unless it is `early`, to a new file.

    `inputs` as in `export_onnx`, or "transformers".
    """
    build = import_module("keras_albert.exports.onnx.builder").build_onnx_model
    # The only type of metadata in ONNX is string.
    described = {
        name: x if isinstance(x, str) else json.dumps(x, ensure_ascii=False)
        for name, x in tasks.describe_model(task, inputs).items()
    }
    path.write_bytes(build(task, inputs, pairs, quantize, described, **options))


def _check_arguments(
    task: AlbertTask, inputs: str, pairs: bool, quantize: str | None, early: str | None
) -> None:
    row = tasks.row_of(task)
    if inputs not in ("tokens", "text"):
        raise ValueError(
            f"`inputs` must be 'tokens' or 'text'. Received: inputs={inputs!r}"
        )
    if quantize not in (None, "int8"):
        msg = f"`quantize` must be None or 'int8'. Received: quantize={quantize!r}"
        raise ValueError(msg)
    if pairs and inputs != "text":
        raise ValueError(
            "`pairs` applies to inputs of texts; ids contain pairs already. Leave out "
            '`pairs`, or pass inputs="text".'
        )
    if pairs and not row.pairs:
        raise ValueError(
            f"{type(task).__name__} has fixed text inputs, without a choice of pairs. "
            "Leave out `pairs`."
        )
    if inputs == "text":
        tasks.check_tokenizer(
            task,
            "A model that takes texts contains its preprocessor, but this task has "
            'none. Build it with one, or pass format="onnx", inputs="tokens".',
        )
    if early is None:
        return
    if early not in ("patience", "threshold"):
        msg = (
            "`early` must be None, 'patience' or 'threshold'. Received: "
            f"early={early!r}"
        )
        raise ValueError(msg)
    if not getattr(task, "exits", 0):
        raise ValueError(
            f"`early` needs a head after each layer, and this {type(task).__name__} "
            "has none. Train an AlbertClassifier that is built with `exits=True`, or "
            "leave out `early`."
        )
    # The settings of any model that has such exits at all.
    tolerance = 1.0 if task.is_regression and early == "patience" else None
    least: Any = {"patience": 1, "threshold": 0.5}[early]
    read_exit_rule(task, **{early: least}, tolerance=tolerance)
