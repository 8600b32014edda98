"""`keras-albert predict`: writes predictions for the rows of a file."""

import contextlib
import json
import signal
import subprocess
import sys
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from keras_albert import tasks
from keras_albert.checkpoints.convert import load_task
from keras_albert.cli.commands import Predict
from keras_albert.cli.console import RESUME
from keras_albert.cli.loading import hidden_messages
from keras_albert.data.tables import ID_NAMES
from keras_albert.devices.processes import Processes
from keras_albert.exports.saved_model.export import served_version
from keras_albert.tasks.classification.early_exit import check_rule
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.packing import pack_all, plan_batches
from keras_albert.tools.answer_file import (
    FORMATS,
    Answer,
    AnswerFile,
    AnswerLines,
    to_json,
)
from keras_albert.tools.data_files import FileRows, Row
from keras_albert.tools.tasks import ANSWERING, Columns, answering
from keras_albert.training.devices import devices_of_processes
from keras_albert.training.recorder import StopSignals
from keras_albert.training.run_folder import content_of
from keras_albert.utils.environment import check_packages, versions
from keras_albert.utils.remote import fetch, is_remote


@dataclass(frozen=True)
class Predictor:
    """A model that predicts for rows of texts."""

    # The sets of columns that it can read, best first: "text", "text_pair", "context",
    # "question" and "choices".
    inputs: Sequence[tuple[str, ...]]
    predict: Callable[[Columns], list[Answer]]
    close: Callable[[], None] = lambda: None


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
            "The model has no preprocessor, so it cannot read texts. Save it with one."
        )
    known = answering(task)
    call = known.answer
    if exits:
        if not isinstance(task, tasks.AlbertClassifier):
            raise ValueError(
                f"An {type(task).__name__} has no exits. Leave out "
                f"{', '.join(sorted(exits))}; `num_layers` runs fewer layers."
            )
        # Before any row is read.
        check_rule(task, exits.get("patience"), exits.get("threshold"))
        call = partial(call, **exits)
    return Predictor(known.inputs, lambda columns: call(task, columns, batch_size))


_NAMES = ("context", "question", "text", "text_pair", "choices")

# The sets of columns that an export can read, and its outputs for the texts of a batch.
_Run = tuple[Sequence[tuple[str, ...]], Callable[[Columns], dict[str, Any]]]


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
    path, close = Path(model), lambda: None
    version = served_version(path)
    if version is None and path.suffix not in (".onnx", ".tflite"):
        depth = {} if num_layers is None else {"num_layers": num_layers}
        return task_predictor(load_task(model, task, **depth), batch_size, **exits)
    if num_layers or exits:
        raise ValueError(
            f"{path} is an export, whose depth is fixed. Predict with the preset "
            "instead, or leave out the options for depth."
        )
    if version is not None:
        inputs, run = _open_saved_model(version, signature)
    elif path.suffix == ".onnx":
        process = OnnxProcess(path)
        close = process.close
        try:
            inputs, run = _open_onnx(process, path, preset)
        except BaseException:
            close()
            raise
    else:
        inputs, run = _open_litert(path, preset)
    return by_length(inputs, lambda x: rows_of_outputs(run(x)), batch_size, close)


def _padded(columns: Columns) -> Columns:
    """Return columns whose rows have equal numbers of choices, for a graph."""
    if "choices" not in columns:
        return columns
    most = max(map(len, columns["choices"]), default=0)
    padded = [row + [""] * (most - len(row)) for row in columns["choices"]]
    return columns | {"choices": padded}


def _open_onnx(process: "OnnxProcess", path: Path, preset: str | None) -> _Run:
    metadata, kind = process.metadata, process.metadata.get("inputs")
    if kind == "transformers":
        raise ValueError(
            f"{path} takes ids under transformers' names and is meant for other "
            "programs. Predict with the preset itself, or export it with `--format "
            "onnx`."
        )
    if kind == "text":
        return (process.columns,), lambda x: process.run(_padded(x))
    labels = json.loads(metadata.get("labels", "[]"))

    def run(ids: dict[str, Any]) -> dict[str, Any]:
        return process.run({name: x.tolist() for name, x in ids.items()})

    return _run_on_texts(run, metadata.get("task", ""), labels, path, preset)


def _open_litert(path: Path, preset: str | None) -> _Run:
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
    how = path, preset, described["sequence_length"]
    labels = described.get("labels", ())
    return _run_on_texts(lambda ids: run(**ids), described["task"], labels, *how)


def _run_on_texts(
    run: Callable[[dict[str, Any]], dict[str, Any]],
    task: str,
    labels: Sequence[str],
    path: Path,
    preset: str | None,
    sequence_length: int | None = None,
) -> _Run:
    """Return how a model of ids is run on texts, with the preprocessor of a preset."""
    if preset is None:
        raise ValueError(
            f"{path} takes ids and contains no vocabulary. Pass the preset that it was "
            "exported from as --preset."
        )
    inputs = ANSWERING[task].id_inputs if task in ANSWERING else ()
    if not inputs:
        raise ValueError(
            f"`predict` cannot prepare ids for a {task or 'model of another program'}. "
            "Predict with the preset itself, its SavedModel, or a file that "
            "`keras-albert export --format onnx --inputs text` wrote."
        )
    length = {} if sequence_length is None else {"sequence_length": sequence_length}
    preprocessor_cls = getattr(tasks, task).preprocessor_cls
    preprocessor = preprocessor_cls.from_preset(preset, **length)

    def run_texts(columns: Columns) -> dict[str, Any]:
        texts: tuple[Any, ...] = tuple(columns.values())
        x = texts if len(texts) > 1 else texts[0]
        examples, _ = preprocessor.encode_for("prediction", x)
        packed = pack_all(examples, preprocessor.padded_length, True)[0]
        outputs = run({name: packed[name] for name in ID_NAMES})
        names = {"label": [labels[n] for n in outputs["index"]]} if labels else {}
        return outputs | names

    return inputs, run_texts


def _open_saved_model(path: Path, signature: str | None) -> _Run:
    check_packages("A SavedModel", "tensorflow-text", "tensorflow", "tensorflow_text")
    import tensorflow as tf  # noqa: PLC0415  (an extra)
    import tensorflow_text  # noqa: F401, PLC0415  (its operations)

    try:
        model = tf.saved_model.load(str(path))
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).partition("\n")[0]
        msg = f"TensorFlow cannot load {path}: {reason}. Copy or export it again."
        raise ValueError(msg) from error
    names: dict[tuple[str, ...], str] = {}
    # Among signatures with the same inputs, the servers' default comes first.
    for name in sorted(model.signatures, key=lambda x: (x != "serving_default", x)):
        specs = model.signatures[name].structured_input_signature[1]
        if signature in (None, name) and specs.keys() <= set(_NAMES):
            columns = tuple(column for column in _NAMES if column in specs)
            names.setdefault(columns, name)
    if not names:
        known = ", ".join(sorted(model.signatures))
        msg = f"{path} has no signature that reads texts. It has: {known}."
        raise ValueError(msg)

    def run(columns: Columns) -> dict[str, Any]:
        texts = _padded(columns).items()
        tensors = {name: tf.constant(x, tf.string) for name, x in texts}
        # A function works only as long as the model exists.
        function = model.signatures[names[tuple(columns)]]
        try:
            outputs = function(**tensors)
        except tf.errors.InvalidArgumentError as error:
            # The message of an assertion is in the middle of the place where it failed.
            _, _, failed = error.message.partition("assertion failed: ")
            reason = (failed or error.message).partition("\n")[0]
            raise ValueError(f"TensorFlow says: {reason}") from error
        return {name: x.numpy() for name, x in outputs.items()}

    return sorted(names, key=len, reverse=True), run


_PROGRAM = Path(__file__).with_name("onnx_program.py")


class OnnxProcess:
    """A process that runs an ONNX model; see `onnx_program`."""

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
        self.metadata: dict[str, str] = described["metadata"]

    def run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Run a batch of lists by name."""
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
            msg = f"ONNX Runtime's process ended with {code}. Its output is above."
            raise RuntimeError(msg)
        read: dict[str, Any] = json.loads(line)
        if "error" in read:
            raise ValueError(f"ONNX Runtime says: {read['error']}")
        return read

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


_DEPTH = ("num_layers", "patience", "threshold", "return_depths")
# The number of batches that are read at once, to group rows of similar length.
_BATCHES_AT_ONCE = 16


def run(options: Predict) -> None:
    """Run `keras-albert predict`: processes share the rows, the first one writes."""
    stop = StopSignals()
    with stop.while_connected(devices_of_processes) as devices:
        _Prediction(options, devices.processes, stop).run(devices.is_chief)


class _Prediction:
    """A run of the command, in one of its processes."""

    def __init__(
        self, options: Predict, processes: Processes | None, stop: StopSignals
    ) -> None:
        self.options, self.processes, self.stop = options, processes, stop
        self.rows = FileRows(options.file)

    def run(self, is_chief: bool) -> None:
        options, processes = self.options, self.processes
        if processes is None and self.stop.requested:
            raise KeyboardInterrupt(self.stop.number)
        if processes is not None:
            settings = _settings(options)
            # Copies of files have other times.
            same = {k: x for k, x in settings.items() if not k.startswith("change of")}
            facts = {"versions": versions(), "files or options": same}
            for name in ("file", "model", "preset"):
                facts[f"content of {name}"] = content_of(getattr(options, name))
            processes.check_same(facts)
        if not is_chief:
            # The first process says how many rows are done.
            deque(self._answers(self._tell_done(0)), maxlen=0)
        elif options.output is not None:
            self._write_file(options.output)
        else:
            lines = AnswerLines(options.to or FORMATS[0])
            for answers in self._answers(self._tell_done(0)):
                sys.stdout.buffer.write(lines.encode(answers))
                sys.stdout.buffer.flush()

    def _tell_done(self, rows: int) -> int:
        """Return how many rows the first process has, which a file may contain."""
        if self.processes is None:
            return rows
        return int(self.processes.gather([float(rows)])[0][0])

    def _write_file(self, output: Path) -> None:
        """Write the predictions to a file, and continue an interrupted one."""
        settings = _settings(self.options)
        with AnswerFile(output, settings["format"], settings) as file:
            if file.done:
                print(f"resuming after {file.done:,} rows", file=sys.stderr)
            try:
                for part in self._watched(self._answers(self._tell_done(file.done))):
                    file.write(part)
            except KeyboardInterrupt as stopped:
                stopped.add_note(RESUME)
                raise
            file.finish()
        print(output, file=sys.stderr)

    def _answers(self, done: int) -> Iterator[list[Answer]]:
        """Predict for the rows after those that are done, in parts."""
        options, rows, stop = self.options, self.rows, self.stop
        count = 1 if self.processes is None else self.processes.count
        names = ("model", "batch_size", "task", "preset", "signature")
        given = (getattr(options, name) for name in names)
        depth = {name: getattr(options, name) for name in _DEPTH}
        predictor = open_predictor(*given, **{k: x for k, x in depth.items() if x})
        with closing(predictor):
            if not rows.columns:
                return
            found = rows.table([]).find_inputs(predictor.inputs, options.columns)

            def ask(part: list[tuple[int, Row]]) -> list[Answer]:
                try:
                    return predictor.predict(rows.table(part).read_inputs(found))
                except ValueError as error:
                    where = f"in lines {part[0][0]} to {part[-1][0]}"
                    raise ValueError(f"{rows.path}, {where}: {error}") from error

            left = ((rows.line, row) for row in islice(rows, done, None))
            size = options.batch_size * _BATCHES_AT_ONCE * count
            while part := list(islice(left, size)):
                if self.processes is None:
                    yield ask(part)
                    continue
                yield _ask_all(ask, part, self.processes)
                # All end after the same part, since the others would wait.
                if self.processes.sum([float(stop.requested)])[0]:
                    raise KeyboardInterrupt(stop.number or signal.SIGTERM)

    def _watched(self, parts: Iterator[list[Answer]]) -> Iterator[list[Answer]]:
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
            total = max(1, self.rows.path.stat().st_size)
            task = bar.add_task("", total=total, rows=0)
            count = 0
            for part in parts:
                yield part
                count += len(part)
                bar.update(task, completed=self.rows.position, rows=count)


def _settings(options: Predict) -> dict[str, Any]:
    """Return what identifies the run: options, and size and time of FILE and MODEL."""
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in asdict(options).items()
        if name not in ("output", "to", "batch_size")
    }
    for name in ("file", "model", "preset"):
        if (given := getattr(options, name)) is None:
            continue
        path = Path(given)
        found = [p.stat() for p in (path, *path.rglob("*")) if p.is_file()]
        if found:
            settings[f"bytes of {name}"] = sum(each.st_size for each in found)
            settings[f"change of {name}"] = max(each.st_mtime_ns for each in found)
    suffix = Path(options.output or "").suffix.lower().removeprefix(".")
    default = suffix if suffix in FORMATS else FORMATS[0]
    return settings | {"format": options.to or default}


def _ask_all(
    ask: Callable[[list[tuple[int, Row]]], list[Answer]],
    rows: list[tuple[int, Row]],
    processes: Processes,
) -> list[Answer]:
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
