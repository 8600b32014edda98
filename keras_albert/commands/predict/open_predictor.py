"""Opens the model that a user names."""

import json
import zipfile
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from keras_albert import tasks
from keras_albert.commands.predict.onnx_process import OnnxProcess
from keras_albert.commands.predict.output_lines import Answer
from keras_albert.commands.predict.predictor import (
    Columns,
    Predictor,
    by_length,
    rows_of_outputs,
    text_predictor,
)
from keras_albert.commands.predict.task_predictor import task_predictor
from keras_albert.conversion.task_classes import load_task
from keras_albert.serving.saved_model.export import served_versions
from keras_albert.tasks.inputs.preprocessed_inputs import ID_NAMES
from keras_albert.text.packing.examples import pack_all
from keras_albert.utils.packages import check_packages
from keras_albert_cli.loading import hidden_messages

_NAMES = ("context", "question", "text", "text_pair", "choices")
# Tasks whose ids are one row per text; others would have to combine windows of a text.
_ROWS: dict[str, tuple[tuple[str, ...], ...]] = {
    "AlbertClassifier": (("text", "text_pair"), ("text",)),
    "AlbertTextEmbedder": (("text",),),
    "AlbertMultipleChoice": (
        ("context", "question", "choices"),
        ("question", "choices"),
    ),
}


_FIXED = (
    "{} is an export, whose depth is fixed. Predict with the preset instead, or leave "
    "out the options of depth."
)


def open_predictor(
    model: str,
    batch_size: int,
    task: str | None = None,
    preset: str | None = None,
    signature: str | None = None,
    num_layers: int | None = None,
    **exits: Any,
) -> Predictor:
    """Open a model of any kind."""
    path = Path(model)
    kinds = {".onnx": _open_onnx, ".tflite": _open_litert}
    is_saved_model = path.is_dir() and (_version_of(path) / "saved_model.pb").is_file()
    if (is_saved_model or path.suffix in kinds) and num_layers:
        raise ValueError(_FIXED.format(path))
    if path.suffix in kinds:
        return kinds[path.suffix](path, batch_size, preset, exits)
    if is_saved_model:
        return _open_saved_model(path, batch_size, signature, exits)
    depth = {} if num_layers is None else {"num_layers": num_layers}
    return task_predictor(load_task(model, task, **depth), batch_size, **exits)


def _read_numbers(
    path: Path, known: Collection[str], exits: dict[str, Any]
) -> dict[str, Any]:
    """Return the numbers of the rule by which texts leave an export."""
    if exits and not known:
        raise ValueError(_FIXED.format(path))
    numbers = {name: x for name, x in exits.items() if name != "return_depths"}
    if set(numbers) != set(known):
        names, given = (
            ", ".join(f"--{x}" for x in names) for names in (known, numbers)
        )
        msg = f"{path} takes {names}. Received: {given or 'neither'}."
        raise ValueError(msg)
    return numbers


def _asked_for(outputs: dict[str, Any], exits: dict[str, Any]) -> dict[str, Any]:
    """Return outputs without the depth, unless it is asked for."""
    left_out = () if "return_depths" in exits else ("depth",)
    return {name: x for name, x in outputs.items() if name not in left_out}


def _open_onnx(
    path: Path, batch_size: int, preset: str | None, exits: dict[str, Any]
) -> Predictor:
    process = OnnxProcess(path)
    try:
        metadata = process.metadata
        numbers = _read_numbers(path, process.numbers, exits)

        def run(columns: Columns) -> dict[str, Any]:
            return _asked_for(process.run(columns | numbers), exits)

        if metadata.get("inputs") == "text":
            return text_predictor((process.columns,), run, batch_size, process.close)
        return _token_predictor(
            lambda ids: run({name: x.tolist() for name, x in ids.items()}),
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


def _open_litert(
    path: Path, batch_size: int, preset: str | None, exits: dict[str, Any]
) -> Predictor:
    _read_numbers(path, (), exits)
    check_packages("A LiteRT model", "keras-albert[litert]", "ai_edge_litert")
    interpreter = import_module("ai_edge_litert.interpreter").Interpreter
    try:
        with zipfile.ZipFile(path) as archive:
            described = json.loads(archive.read("metadata.json"))
        # It writes to stderr how it will compute.
        with hidden_messages():
            run = interpreter(str(path)).get_signature_runner()
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        msg = f"{path} is no LiteRT model that `export` wrote ({error})."
        raise ValueError(msg) from error
    return _token_predictor(
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


def _token_predictor(
    run: Callable[[dict[str, Any]], dict[str, Any]],
    task: str,
    labels: Sequence[str],
    preset: str,
    sequence_length: int | None,
    batch_size: int,
    close: Callable[[], None] = lambda: None,
) -> Predictor:
    """Return the predictor of a model that takes ids, which a preset prepares."""
    if task not in _ROWS:
        msg = (
            f"The ids that a {task or 'model of another program'} takes are not made "
            "here. Ask the preset itself, its SavedModel, or what `keras-albert export "
            "--format onnx --inputs text` wrote."
        )
        raise ValueError(msg)
    length = {} if sequence_length is None else {"sequence_length": sequence_length}
    preprocessor_cls = getattr(tasks, task).preprocessor_cls
    preprocessor = preprocessor_cls.from_preset(preset, **length)

    def run_batch(columns: Columns) -> list[Answer]:
        texts: tuple[Any, ...] = tuple(columns.values())
        x = texts if len(texts) > 1 else texts[0]
        examples, _ = preprocessor.encode_for("prediction", x)
        packed = pack_all(examples, preprocessor.padded_length, True)[0]
        rows = rows_of_outputs(run({name: packed[name] for name in ID_NAMES}))
        if labels:
            for row in rows:
                row["label"] = labels[int(row["index"])]
        return rows

    return Predictor(
        _ROWS[task], lambda columns: by_length(columns, batch_size, run_batch), close
    )


def _open_saved_model(
    path: Path, batch_size: int, signature: str | None, exits: dict[str, Any]
) -> Predictor:
    check_packages("A SavedModel", "tensorflow-text", "tensorflow", "tensorflow_text")
    import tensorflow as tf  # noqa: PLC0415  (an extra)
    import tensorflow_text  # noqa: F401, PLC0415  (its operations)

    try:
        model = tf.saved_model.load(str(_version_of(path)))
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).partition("\n")[0]
        msg = f"TensorFlow cannot load {path}: {reason}. Copy or export it again."
        raise ValueError(msg) from error
    numbers = {name: x for name, x in exits.items() if name != "return_depths"}
    _read_numbers(path, numbers, exits)
    names = _signatures_by_inputs(model.signatures, signature, numbers)
    if not names:
        known = ", ".join(sorted(model.signatures))
        what = "".join(f" and takes --{name}" for name in numbers)
        msg = f"{path} has no such signature that reads texts{what}. It has: {known}."
        raise ValueError(msg)

    def run(columns: Columns) -> dict[str, Any]:
        tensors = {name: tf.constant(x, tf.string) for name, x in columns.items()}
        # A function works only as long as the model exists.
        function = model.signatures[names[tuple(columns)]]
        specs = function.structured_input_signature[1]
        tensors |= {
            name: tf.constant(x, specs[name].dtype) for name, x in numbers.items()
        }
        try:
            outputs = function(**tensors)
        except tf.errors.InvalidArgumentError as error:
            # The message of an assertion is in the middle of the place where it failed.
            _, _, failed = error.message.partition("assertion failed: ")
            reason = (failed or error.message).partition("\n")[0]
            raise ValueError(f"TensorFlow says: {reason}") from error
        return _asked_for({name: x.numpy() for name, x in outputs.items()}, exits)

    return text_predictor(sorted(names, key=len, reverse=True), run, batch_size)


def _version_of(path: Path) -> Path:
    """Find the directory of the graph: `path`, or its highest version."""
    if (path / "saved_model.pb").is_file():
        return path
    below = served_versions(path).values()
    return [path, *(p for p in below if (p / "saved_model.pb").is_file())][-1]


def _signatures_by_inputs(
    signatures: Any, wanted: str | None, numbers: Collection[str]
) -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    # Among signatures with the same inputs, the servers' default comes first.
    for name in sorted(signatures, key=lambda name: (name != "serving_default", name)):
        specs = signatures[name].structured_input_signature[1]
        if wanted in (None, name) and specs.keys() - _NAMES == set(numbers):
            columns = tuple(column for column in _NAMES if column in specs)
            found.setdefault(columns, name)
    return found
