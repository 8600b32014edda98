"""Folders with a model and the program of a server."""

import shutil
from pathlib import Path
from typing import Literal

from keras_albert.exports.onnx.export import export_onnx
from keras_albert.tasks.task import AlbertTask
from keras_albert.utils.atomic_files import atomic_directory

_FILES = Path(__file__).with_name("server_files")
# By the server: the file that it runs, and what it needs.
_SERVERS = {"litserve": ("server.py", "litserve"), "bentoml": ("service.py", "bentoml")}
_PACKAGES = ("onnxruntime>=1.22", "onnxruntime-extensions>=0.14", "numpy")


def export_server(
    task: AlbertTask,
    path: Path,
    server: Literal["litserve", "bentoml"] = "litserve",
    pairs: bool = False,
    quantize: Literal["int8"] | None = None,
) -> Path:
    """Write a folder that LitServe or BentoML serves, from texts to predictions.

    - `model.onnx`: the model with its tokenizer, as `export_onnx` writes it with
      `inputs="text"`.
    - `model.py`: what checks and answers rows, without this package and Keras.
    - `server.py` for `python server.py`, or `service.py` for
      `bentoml serve service:Predictor`.
    - `requirements.txt`: what to install.

    Args:
        task: A task with a preprocessor.
        path: Path. The directory to write. It replaces an earlier export.
        server: string. `"litserve"` or `"bentoml"`. Defaults to `"litserve"`.
        pairs: bool. Whether rows also have `text_pair`, as in `export_onnx`. Defaults
            to `False`.
        quantize: `"int8"`, or `None` for float32. Defaults to `None`.

    Returns:
        The path.

    Raises:
        ImportError: If onnx or onnxscript is not installed.
        NotADirectoryError: If `path` is a file.
        OSError: If the directory cannot be written.
        ValueError: If an argument is invalid, or `export_onnx` refuses the task.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
        >>> classifier.export(
        ...     "films", format="server", server="bentoml", quantize="int8")
        PosixPath('films')
    """
    if server not in _SERVERS:
        known = ", ".join(map(repr, _SERVERS))
        raise ValueError(
            f"`server` must be one of {known}. Received: server={server!r}"
        )
    name, package = _SERVERS[server]
    with atomic_directory(path) as folder:
        model = folder / "model.onnx"
        export_onnx(task, model, inputs="text", pairs=pairs, quantize=quantize)
        shutil.copyfile(_FILES / "model.py.txt", folder / "model.py")
        shutil.copyfile(_FILES / f"{server}.py.txt", folder / name)
        needed = "\n".join((package, *_PACKAGES))
        (folder / "requirements.txt").write_text(f"{needed}\n", encoding="utf-8")
    return path
