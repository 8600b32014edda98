"""Opens the model that a user names."""

import json
import zipfile
from importlib import import_module
from pathlib import Path

from keras_albert.commands.predict.predictors.base import Predictor
from keras_albert.commands.predict.predictors.keras_task import TaskPredictor
from keras_albert.commands.predict.predictors.onnx_process import OnnxProcess
from keras_albert.commands.predict.predictors.onnx_text import OnnxTextPredictor
from keras_albert.commands.predict.predictors.saved_model import (
    SavedModelPredictor,
    version_of,
)
from keras_albert.commands.predict.predictors.token_ids import TokenPredictor
from keras_albert.conversion.task_classes import load_task
from keras_albert.utils.packages import check_packages


def open_predictor(
    model: str,
    batch_size: int,
    task: str | None = None,
    preset: str | None = None,
    signature: str | None = None,
) -> Predictor:
    """Open a model of any kind.

    Args:
        model: string. An `.onnx` or `.tflite` file, a directory of a SavedModel or of
            its versions, or anything that `from_preset` takes.
        batch_size: int. The maximum number of rows in a batch.
        task: string. The class to load a preset as. Defaults to `None`, the task that
            it has a head for.
        preset: string. The preset with the preprocessor of a model that takes token
            ids. Defaults to `None`.
        signature: string. The signature of a SavedModel. Defaults to `None`, the one
            that reads most of the file's columns.

    Returns:
        The predictor.

    Raises:
        FileNotFoundError: If the file does not exist.
        ImportError: If the package that runs the model is not installed.
        ValueError: If the model cannot be read, or it takes token ids and `preset` is
            `None`.
    """
    path = Path(model)
    kinds = {".onnx": _open_onnx, ".tflite": _open_litert}
    if path.suffix in kinds:
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}. Correct the name.")
        return kinds[path.suffix](path, batch_size, preset)
    if path.is_dir() and (version_of(path) / "saved_model.pb").is_file():
        return SavedModelPredictor(path, batch_size, signature)
    return TaskPredictor(load_task(model, task), batch_size)


def _open_onnx(path: Path, batch_size: int, preset: str | None) -> Predictor:
    process = OnnxProcess(path)
    try:
        metadata = process.metadata
        if metadata.get("inputs") == "text":
            return OnnxTextPredictor(process, batch_size)
        return TokenPredictor(
            lambda ids: process.run(
                {name: rows.tolist() for name, rows in ids.items()}
            ),
            metadata.get("task", ""),
            json.loads(metadata.get("labels", "[]")),
            _named(path, preset),
            None,
            batch_size,
            process.close,
        )
    except BaseException:
        process.close()
        raise


def _open_litert(path: Path, batch_size: int, preset: str | None) -> Predictor:
    check_packages("A LiteRT model", "keras-albert[litert]", "ai_edge_litert")
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter
    try:
        with zipfile.ZipFile(path) as archive:
            described = json.loads(archive.read("metadata.json"))
        run = interpreter(str(path)).get_signature_runner()
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        msg = f"{path} is no LiteRT model that `export` wrote ({error})."
        raise ValueError(msg) from error
    return TokenPredictor(
        lambda ids: run(**ids),
        described["task"],
        described.get("labels", ()),
        _named(path, preset),
        described["sequence_length"],
        batch_size,
    )


def _named(path: Path, preset: str | None) -> str:
    if preset is None:
        msg = (
            f"{path} takes ids, and has no vocabulary. Name the preset that it was "
            "exported from with --preset."
        )
        raise ValueError(msg)
    return preset
