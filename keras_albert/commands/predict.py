"""`keras-albert predict`: writes predictions for the rows of a file."""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import zipfile
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from keras_albert import tasks
from keras_albert.commands.answer_file import (
    FORMATS,
    Answer,
    AnswerFile,
    AnswerLines,
    to_json,
)
from keras_albert.commands.files import FileRows, Row
from keras_albert.commands.report import RESUME, given_options
from keras_albert.commands.tasks import Columns, known_task
from keras_albert.conversion.convert import load_task
from keras_albert.serving.saved_model.export import served_versions
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.classification.early_exit import read_exit_rule
from keras_albert.tasks.distribution.processes import Processes
from keras_albert.tasks.inputs.preprocessed_inputs import ID_NAMES
from keras_albert.tasks.table import TASKS
from keras_albert.text.batching import plan_batches
from keras_albert.text.packing import pack_all
from keras_albert.training.devices import OneDevice, devices_of_processes
from keras_albert.training.recorder import StopSignals
from keras_albert.training.run_folder import content_of
from keras_albert.utils.environment import check_packages, versions
from keras_albert.utils.remote import fetch, is_remote
from keras_albert_cli.loading import hidden_messages


@dataclass(frozen=True)
class Predictor:
    """A model that predicts for rows of texts."""

    # The sets of columns that it can read, best first: "text", "text_pair", "context",
    # "question" and "choices".
    inputs: Sequence[tuple[str, ...]]
    predict: Callable[[Columns], list[Answer]]
    close: Callable[[], None] = lambda: None


def text_predictor(
    inputs: Sequence[tuple[str, ...]],
    run: Callable[[Columns], dict[str, Any]],
    batch_size: int,
    close: Callable[[], None] = lambda: None,
) -> Predictor:
    """Return the predictor of an export that takes texts."""

    def run_batch(columns: Columns) -> list[Answer]:
        if "choices" in columns:
            choices = columns["choices"]
            most = max(map(len, choices), default=0)
            # Padded to equal numbers.
            padded = [row + [""] * (most - len(row)) for row in choices]
            columns = columns | {"choices": padded}
        return rows_of_outputs(run(columns))

    return by_length(inputs, run_batch, batch_size, close)


def by_length(
    inputs: Sequence[tuple[str, ...]],
    run: Callable[[Columns], list[Answer]],
    batch_size: int,
    close: Callable[[], None],
) -> Predictor:
    """Return a predictor in batches of similar length, which need little padding."""

    def predict(columns: Columns) -> list[Answer]:
        rows = list(zip(*columns.values(), strict=True))
        lengths = np.array([sum(map(_length, row)) for row in rows])
        answers: list[Answer] = [{} for _ in rows]
        for batch in plan_batches(lengths, batch_size):
            part = {name: [x[row] for row in batch] for name, x in columns.items()}
            for row, answer in zip(batch, run(part), strict=True):
                answers[row] = answer
        return answers

    return Predictor(inputs, predict, close)


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else max(map(len, text), default=0)


def rows_of_outputs(outputs: dict[str, Any]) -> list[Answer]:
    """Split the outputs of a batch into rows; if there is a `count`, drop padding."""
    rows = [
        dict(zip(outputs, values, strict=True))
        for values in zip(*outputs.values(), strict=True)
    ]
    for row in rows if "count" in outputs else ():
        count = int(row["count"])
        row |= {name: x[:count] for name, x in row.items() if np.ndim(x)}
    return rows


def task_predictor(task: AlbertTask, batch_size: int, **exits: Any) -> Predictor:
    """Return the predictor of a task, which calls its method with readable answers."""
    if task.preprocessor is None:
        raise ValueError(
            "The model has no preprocessor, and texts are to be read. Save it with one."
        )
    known = known_task(task)
    call = known.predict
    if exits:
        if known.cls is not tasks.AlbertClassifier:
            raise ValueError(
                f"An {type(task).__name__} has no exits. Leave out "
                f"{', '.join(sorted(exits))}; `num_layers` runs fewer layers."
            )
        # Before any row is read.
        options = {name: x for name, x in exits.items() if name != "return_depths"}
        read_exit_rule(task, **options)
        call = partial(call, **exits)
    return Predictor(known.row.inputs, lambda columns: call(task, columns, batch_size))


_NAMES = ("context", "question", "text", "text_pair", "choices")
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
    if is_remote(model):
        model = str(fetch(model))
    path = Path(model)
    kinds = {".onnx": _open_onnx, ".tflite": _open_litert}
    is_saved_model = path.is_dir() and (version_of(path) / "saved_model.pb").is_file()
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
        raise ValueError(f"{path} takes {names}. Received: {given or 'neither'}.")
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

        if metadata.get("inputs") == "transformers":
            raise ValueError(
                f"{path} takes ids by transformers' names, and is for other programs. "
                "Ask the preset itself, or export it with `--format onnx`."
            )
        if metadata.get("inputs") == "text":
            return text_predictor((process.columns,), run, batch_size, process.close)
        labels = json.loads(metadata.get("labels", "[]"))
        return _token_predictor(
            lambda ids: run({name: x.tolist() for name, x in ids.items()}),
            metadata.get("task", ""),
            labels,
            path,
            preset,
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
        msg = f"{path} is not a LiteRT model that `export` wrote ({error})."
        raise ValueError(msg) from error
    return _token_predictor(
        lambda ids: run(**ids),
        described["task"],
        described.get("labels", ()),
        path,
        preset,
        described["sequence_length"],
        batch_size,
    )


def _token_predictor(
    run: Callable[[dict[str, Any]], dict[str, Any]],
    task: str,
    labels: Sequence[str],
    path: Path,
    preset: str | None,
    sequence_length: int | None,
    batch_size: int,
    close: Callable[[], None] = lambda: None,
) -> Predictor:
    if preset is None:
        raise ValueError(
            f"{path} takes ids, and has no vocabulary. Name the preset that it was "
            "exported from with --preset."
        )
    inputs = TASKS[task].id_inputs if task in TASKS else ()
    if not inputs:
        raise ValueError(
            f"The ids that a {task or 'model of another program'} takes are not made "
            "here. Ask the preset itself, its SavedModel, or what `keras-albert export "
            "--format onnx --inputs text` wrote."
        )
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

    return by_length(inputs, run_batch, batch_size, close)


def _open_saved_model(
    path: Path, batch_size: int, signature: str | None, exits: dict[str, Any]
) -> Predictor:
    check_packages("A SavedModel", "tensorflow-text", "tensorflow", "tensorflow_text")
    import tensorflow as tf  # noqa: PLC0415  (an extra)
    import tensorflow_text  # noqa: F401, PLC0415  (its operations)

    try:
        model = tf.saved_model.load(str(version_of(path)))
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).partition("\n")[0]
        msg = f"TensorFlow cannot load {path}: {reason}. Copy or export it again."
        raise ValueError(msg) from error
    numbers = {name: x for name, x in exits.items() if name != "return_depths"}
    _read_numbers(path, numbers, exits)
    names: dict[tuple[str, ...], str] = {}
    # Among signatures with the same inputs, the servers' default comes first.
    for name in sorted(model.signatures, key=lambda x: (x != "serving_default", x)):
        specs = model.signatures[name].structured_input_signature[1]
        if signature in (None, name) and specs.keys() - _NAMES == set(numbers):
            columns = tuple(column for column in _NAMES if column in specs)
            names.setdefault(columns, name)
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


def version_of(path: Path) -> Path:
    """Find the directory of the graph: `path`, or its highest version."""
    below = (
        () if (path / "saved_model.pb").is_file() else served_versions(path).values()
    )
    return [path, *(p for p in below if (p / "saved_model.pb").is_file())][-1]


_PROGRAM = Path(__file__).with_name("onnx_program.py")


class OnnxProcess:
    """A process that runs an ONNX model; see `onnx_program`."""

    # `columns` are the inputs with a row for each text, `numbers` the scalars.

    def __init__(self, path: Path) -> None:
        check_packages("An ONNX model", "keras-albert[onnx]", "onnxruntime")
        self._process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Only this process receives Ctrl-C; it ends the other.
            start_new_session=True,
        )
        try:
            described = self._read_line()
        except BaseException:
            self.close()
            raise
        self.columns: tuple[str, ...] = tuple(described["columns"])
        self.numbers: tuple[str, ...] = tuple(described["numbers"])
        self.metadata: dict[str, str] = described["metadata"]

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Run a batch of lists, or numbers, by name."""
        stdin: Any = self._process.stdin
        # If the process has ended, the next read reports it.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(inputs) + "\n")
            stdin.flush()
        outputs = self._read_line()
        return {name: np.array(rows) for name, rows in outputs.items()}

    def _read_line(self) -> dict[str, Any]:
        stdout: Any = self._process.stdout
        line = stdout.readline()
        if not line:
            code = self._process.wait()
            msg = f"The process of ONNX Runtime ended with {code}. Its words are above."
            raise RuntimeError(msg)
        read: dict[str, Any] = json.loads(line)
        if "error" in read:
            raise ValueError(f"ONNX Runtime says: {read['error']}")
        return read

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


_DEPTH = ("num_layers", "patience", "threshold", "tolerance", "return_depths")
# The number of batches that are read at once, to group rows of similar length.
_BATCHES_AT_ONCE = 16


def run(arguments: argparse.Namespace) -> None:
    """Run the command; several processes share the rows, and the first one writes."""
    stop = StopSignals()
    with stop.while_connected(devices_of_processes) as devices:
        _run(arguments, devices, stop)


def _run(arguments: argparse.Namespace, devices: OneDevice, stop: StopSignals) -> None:
    processes, rows = devices.processes, FileRows(arguments.file)
    if processes is None and stop.requested:
        raise KeyboardInterrupt(stop.number)
    if processes is not None:
        settings = _settings(arguments)
        # Copies of files have times of their own.
        same = {k: x for k, x in settings.items() if not k.startswith("change of")}
        facts = {"versions": versions(), "files or options": same}
        for name in ("file", "model", "preset"):
            facts[f"content of {name}"] = content_of(getattr(arguments, name))
        processes.check_same(facts)
    if not devices.is_chief:
        done = int(processes.gather([0.0])[0][0])
        deque(_answers(arguments, rows, done, stop, processes), maxlen=0)
    elif arguments.output is None:
        if processes is not None:
            processes.gather([0.0])
        lines = AnswerLines(arguments.to or FORMATS[0])
        for answers in _answers(arguments, rows, 0, stop, processes):
            sys.stdout.buffer.write(lines.encode(answers))
            sys.stdout.buffer.flush()
    else:
        _write_file(arguments, rows, stop, processes)


def _write_file(
    arguments: argparse.Namespace,
    rows: FileRows,
    stop: StopSignals,
    processes: Processes | None,
) -> None:
    """Write the predictions to a file, and continue an interrupted one."""
    file = AnswerFile(arguments.output, _format(arguments), _settings(arguments))
    with file:
        if file.done:
            print(f"going on after {file.done:,} rows", file=sys.stderr)
        if processes is not None:
            processes.gather([float(file.done)])
        answers = _answers(arguments, rows, file.done, stop, processes)
        try:
            for part in _watched(answers, rows):
                file.write(part)
        except KeyboardInterrupt as stopped:
            stopped.add_note(RESUME)
            raise
        file.finish()
    print(arguments.output, file=sys.stderr)


def _format(arguments: argparse.Namespace) -> str:
    suffix = arguments.output.suffix.lower().removeprefix(".")
    return arguments.to or (suffix if suffix in FORMATS else FORMATS[0])


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what identifies the run: options, and size and time of FILE and MODEL."""
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name not in ("output", "to", "batch_size")
    }
    for name in ("file", "model", "preset"):
        if (given := getattr(arguments, name)) is None:
            continue
        path = Path(given)
        found = [p.stat() for p in (path, *path.rglob("*")) if p.is_file()]
        if found:
            settings[f"bytes of {name}"] = sum(each.st_size for each in found)
            settings[f"change of {name}"] = max(each.st_mtime_ns for each in found)
    return settings | {"format": _format(arguments)}


def _answers(
    arguments: argparse.Namespace,
    rows: FileRows,
    done: int,
    stop: StopSignals,
    processes: Processes | None,
) -> Iterator[list[dict[str, Any]]]:
    """Predict for the rows after those that are done, in parts."""
    count = 1 if processes is None else processes.count
    names = ("model", "batch_size", "task", "preset", "signature")
    given = (getattr(arguments, name) for name in names)
    predictor = open_predictor(*given, **given_options(arguments, _DEPTH))
    asked = {"text": arguments.text_column, "text_pair": arguments.text_pair_column}
    with closing(predictor):
        if not rows.columns:
            return
        found = rows.table([]).find_inputs(predictor.inputs, asked)
        left = ((rows.line, row) for row in islice(rows, done, None))
        size = arguments.batch_size * _BATCHES_AT_ONCE * count
        while part := list(islice(left, size)):
            ask = partial(_ask, predictor, rows, found)
            if processes is None:
                yield ask(part)
                continue
            yield _ask_all(ask, part, processes)
            # All end after the same part, since the others would wait.
            if processes.sum([float(stop.requested)])[0]:
                raise KeyboardInterrupt(stop.number or signal.SIGTERM)


def _ask(
    predictor: Predictor,
    file: FileRows,
    found: dict[str, list[str]],
    rows: list[tuple[int, Row]],
) -> list[dict[str, Any]]:
    inputs = file.table(rows).read_inputs(found)
    try:
        return predictor.predict(inputs)
    except ValueError as error:
        msg = f"{file.path}, in lines {rows[0][0]} to {rows[-1][0]}: {error}"
        raise ValueError(msg) from error


def _ask_all(
    ask: Callable[[list[tuple[int, Row]]], list[dict[str, Any]]],
    rows: list[tuple[int, Row]],
    processes: Processes,
) -> list[dict[str, Any]]:
    """Let each process predict for some rows, and return all predictions."""
    size = -(-len(rows) // processes.count)
    own = rows[processes.index * size :][:size]
    try:
        answers: Any = ask(own) if own else []
    except ValueError as error:
        # All raise it: the others would wait.
        answers = str(error)
    content = json.dumps(to_json(answers)).encode()
    found = [json.loads(each) for each in processes.gather_bytes(content)]
    for each in found:
        if isinstance(each, str):
            raise ValueError(each)
    return [answer for each in found for answer in each]


def _watched(
    parts: Iterator[list[dict[str, Any]]], rows: FileRows
) -> Iterator[list[dict[str, Any]]]:
    """Show a progress bar of the file."""
    console = Console(stderr=True)
    bar = Progress(
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=max(1, rows.path.stat().st_size), rows=0)
        count = 0
        for part in parts:
            yield part
            count += len(part)
            bar.update(task, completed=rows.position, rows=count)
