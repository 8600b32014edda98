"""`keras-albert finetune`: fine-tunes a model on a user's files."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from keras_albert.backbone import AlbertBackbone
from keras_albert.cli.commands import Finetune
from keras_albert.cli.console import (
    plain_console,
    print_results,
    resumable_run,
    show_report,
)
from keras_albert.data.batches import make_batches
from keras_albert.data.tables import RawData
from keras_albert.devices.batch_sharding import as_dataset, take_rows
from keras_albert.layers.base_layer import DENSE_LAYERS
from keras_albert.preprocessors import AlbertTokenizer
from keras_albert.presets.checkpoint import Checkpoint, open_checkpoint
from keras_albert.presets.handles import local_directory
from keras_albert.tasks import AlbertClassifier
from keras_albert.tasks.classification.linear import SOLVED, is_advised, missing_targets
from keras_albert.tasks.optimizers import default_learning_rate, default_optimizer
from keras_albert.tasks.recipes import recipe
from keras_albert.tasks.task import AlbertTask
from keras_albert.text import train_vocabulary
from keras_albert.tools.datasets import Dataset, check_files
from keras_albert.tools.evaluation import is_explained, worst_rows
from keras_albert.tools.report import Report, draw, model_card
from keras_albert.tools.tasks import TASKS
from keras_albert.training.devices import OneDevice, devices_of_processes
from keras_albert.training.model_card import ON_CARD
from keras_albert.training.recorder import StopSignals, TrainingRecorder, resumable_fit
from keras_albert.training.run_folder import (
    Row,
    RunFolder,
    TrainingCheckpoint,
    config_without_name,
    content_of,
    digest,
)
from keras_albert.types import Batch
from keras_albert.utils.arguments import argument_error
from keras_albert.utils.environment import check_packages, versions

# The model without a preset; trains in minutes on a CPU.
SMALL: dict[str, Any] = {
    "num_layers": 3,
    "num_heads": 4,
    "embedding_dim": 64,
    "hidden_dim": 128,
    "intermediate_dim": 512,
    "dropout": 0.2,
}

_MAX_LENGTH = 128
_BATCH_SIZE = 32
_EPOCHS = 3

# LoRA learns best at about ten times the rate of full fine-tuning if its product is
# scaled by 32 / rank ([Schulman, 2025](https://thinkingmachines.ai/blog/lora)). Keras
# does not scale it, and starts with values 2.4 times as large. SST-2 with a rank of 64
# reached 85.9% after one epoch at twice the rate, and 75.9% at 6.4 times.
_MAX_LORA_FACTOR, _RATE_TIMES_RANK = 10, 10 * 32 / 2.4

# Epochs may last hours.
_SECONDS_PER_CHECKPOINT = 300.0

# Options of training, with which all weights are trained unless a method is named.
_OF_STEPS = ("batch_size", "recipe", "epochs", "learning_rate", "lora", "exits")

_SAME_FILES = (
    "Start the same command on copies of the same files, with an output directory that "
    "all of them see."
)

# The locations of files and the card do not affect the result.
_NOT_COMPARED = ("output", "train", "dev", *ON_CARD)

# How many answers the report explains, those that are most certain and wrong.
_NUM_ERRORS = 5


def run(options: Finetune) -> None:
    """Run `keras-albert finetune`."""
    if options.method in SOLVED:
        check_packages("A linear head", "scikit-learn", "sklearn")
    stop = StopSignals()
    # Before anything runs on the backend.
    with stop.while_connected(devices_of_processes) as devices:
        console = plain_console(quiet=not devices.is_chief)
        with resumable_run(options.output, devices.is_chief) as folder:
            _Finetuning(options, folder, console, devices, stop).run()


class _Finetuning:
    """A run of the command, in one of its processes."""

    def __init__(
        self,
        options: Finetune,
        folder: RunFolder,
        console: Console,
        devices: OneDevice,
        stop: StopSignals,
    ) -> None:
        self.options, self.folder, self.console = options, folder, console
        self.devices, self.stop = devices, stop
        self.known = TASKS[options.task]

    def run(self) -> None:
        """Train, and write the results."""
        options, folder, devices = self.options, self.folder, self.devices
        known, console = self.known, self.console
        if devices.processes is not None:
            same = {"versions": versions(), "files or options": _given(options)}
            same["preset"] = content_of(options.preset)
            devices.check_same(same, _SAME_FILES)
        if not folder.last.is_file():
            folder.check_unfinished()
        paths = [options.train, options.dev]
        train, dev = known.read_all(paths, options.columns, options.limit)
        check_files(train, dev)
        for data in (train, dev):
            console.print(data.description, highlight=False)
        keras.utils.set_random_seed(options.seed)
        with devices.scope():
            task = devices.on_all(lambda: self.build_task(train))
            # Backends differ in the last bits of results.
            identity = _given(options) | {
                "vocabulary": digest(task.preprocessor.tokenizer.proto),
                "backbone": digest(config_without_name(task.backbone)),
                "backend": keras.config.backend(),
            }
            devices.check_same({"model": identity}, _SAME_FILES)
            checkpoint = folder.open(identity)
            is_finished = folder.preset.exists()
            # The first process writes once all have looked.
            step = None if checkpoint is None else checkpoint.step
            devices.check_same({"output": [step, is_finished]}, _SAME_FILES)
            solves = (
                not is_finished and checkpoint is None and self.is_linear(task, train)
            )
            if solves:
                rows = [self.solve_task(task, train, dev)]
                evaluation = known.evaluate_tuned(task, dev)
                # For the report.
                self.options = replace(options, method=options.method or "linear")
            elif not is_finished:
                recorder = self.train_task(task, train, dev, identity, checkpoint)
                recorder.load_best(task)
                evaluation, rows = known.evaluate_tuned(task, dev), recorder.rows

        def write() -> None:
            if is_finished:
                # The run was interrupted during cleanup.
                folder.tidy_up()
                console.print(f"model: {folder.shown(folder.preset)}", soft_wrap=True)
            else:
                errors: list[str] = []
                found = evaluation.rows if devices.processes is None else None
                if found is not None and is_explained(task):
                    errors = worst_rows(task, dev, found, _NUM_ERRORS, explain=True)
                plots = self._finish(task, evaluation.report, rows, errors)
                show_report(console, evaluation.report)
                for error in errors:
                    console.print(error, highlight=False, soft_wrap=True)
                print_results(folder, plots)

        devices.on_chief(write)

    def build_task(self, train: Dataset) -> Any:
        """Build the task on a preset, or on a small model with random weights."""
        try:
            task = self._build_task(train)
        except ValueError as error:
            if "max_sequence_length" in str(error):
                # The option has another name.
                raise argument_error("max_length", str(error)) from error
            raise
        if (rank := self.options.lora) is not None:
            task.backbone.enable_lora(rank, DENSE_LAYERS, train_vectors=True)
        return task

    def _build_task(self, train: Dataset) -> Any:
        options, cls = self.options, self.known.cls
        head = train.head | ({"exits": True} if options.exits else {})
        dtype = options.precision
        if options.recipe is not None and options.preset is not None:
            how = recipe(options.recipe)
            if options.max_length:
                how = replace(how, max_sequence_length=options.max_length)
            return how.build(cls, options.preset, dtype=dtype, **head)
        if options.preset is not None:
            directory = local_directory(options.preset)
            source: Any = options.preset
            if directory is not None:
                source = open_checkpoint(directory)
            load = cls.preprocessor_cls.from_preset
            length = options.max_length or min(
                _MAX_LENGTH, load(source).max_sequence_length
            )
            preprocessor = load(source, max_sequence_length=length)
            keeps_task = _has_task(source, cls, head)
            if keeps_task:
                self.console.print(f"continuing with the head of {options.preset}")
            if keeps_task or cls.traits.shared_head_layers:
                # The pretrained head was trained for the same task.
                return cls.from_preset(source, preprocessor=preprocessor, dtype=dtype)
            backbone = AlbertBackbone.from_preset(source, dtype=dtype)
        else:
            length = options.max_length or _MAX_LENGTH
            proto = train_vocabulary(
                train.texts(), vocabulary_size=8000, hard_vocab_limit=False
            )
            tokenizer = AlbertTokenizer(proto)
            backbone = AlbertBackbone(
                vocabulary_size=tokenizer.vocabulary_size(),
                max_sequence_length=length,
                **SMALL,
                dtype=dtype,
            )
            preprocessor = cls.preprocessor_cls(tokenizer, max_sequence_length=length)
        return cls(backbone, preprocessor=preprocessor, **head)

    def is_linear(self, task: Any, train: Dataset) -> bool:
        """Return whether to solve the head: as asked for, or by the rule of `fit`."""
        if self.options.method is not None:
            return self.options.method in SOLVED
        settings = asdict(self.options)
        is_open = not any(settings[name] for name in _OF_STEPS)
        if not (is_open and isinstance(task, AlbertClassifier)):
            return False
        if not is_advised(task, train.x, len(train.y)):
            return False
        return missing_targets(task, task.encode_targets(train.y)) is None

    def solve_task(self, task: Any, train: Dataset, dev: Dataset) -> Row:
        """Solve the head, and return the only row of the curve."""
        size = self.options.batch_size
        method = self.options.method or "linear"
        if self.options.method is None:
            self.console.print("method='linear', since labels are few", highlight=False)
        history = task.fit(train.x, train.y, size, method=method)
        found = task.evaluate(dev.x, dev.y, size, verbose=0, return_dict=True)
        row = {name: values[0] for name, values in history.history.items()}
        return {"epoch": 0} | row | {f"val_{name}": x for name, x in found.items()}

    def train_task(
        self,
        task: AlbertTask,
        train: Dataset,
        dev: Dataset,
        identity: dict[str, Any],
        checkpoint: TrainingCheckpoint | None,
    ) -> TrainingRecorder:
        """Train to the end, from the checkpoint if there is one."""
        options, devices = self.options, self.devices
        # Each takes its rows of all batches.
        task.processes = devices.processes
        width = task.backbone.hidden_dim
        how = None if options.recipe is None else recipe(options.recipe)
        batch_size = options.batch_size or (how.batch_size if how else _BATCH_SIZE)
        batches = make_batches(
            task, RawData(train.x, train.y), batch_size, "training", shuffle=True
        )
        held_out = as_dataset(
            task, make_batches(task, RawData(dev.x, dev.y), batch_size)
        )
        epochs = options.epochs
        if epochs is None:
            epochs = how.epochs(len(batches.examples)) if how else _EPOCHS
        steps = epochs * len(batches)
        if how is not None:
            rate = options.learning_rate or how.for_width(width).learning_rate
            optimizer = replace(how, learning_rate=rate).optimizer(steps)
        else:
            scale = 1.0
            if options.lora is not None:
                scale = min(_MAX_LORA_FACTOR, _RATE_TIMES_RANK / options.lora)
            rate = options.learning_rate or scale * default_learning_rate(
                width, task.backbone.pretrained
            )
            optimizer = default_optimizer(rate, steps)
        task.compile(optimizer=optimizer)
        optimizer.build(task.trainable_variables)
        # A thread reads ahead, possibly into the next epoch.
        of_epoch = lru_cache(maxsize=2)(batches.of_epoch)

        def read(number: int) -> Batch:
            """Return this process' rows of a batch, by its number in the run."""
            epoch, index = divmod(number, len(batches))
            return take_rows(task, of_epoch(epoch)[index])

        with self.stop:
            recorder = TrainingRecorder(
                *(self.folder, devices, self.stop, identity),
                seed=options.seed,
                num_batches=steps,
                batches_per_row=len(batches),
                batches_per_checkpoint=len(batches),
                seconds_per_checkpoint=_SECONDS_PER_CHECKPOINT,
                monitor=self.known.monitor,
                remedy=f"Start again with a lower --learning-rate than {rate:g}, in "
                "another --output.",
            )
            recorder.devices.prepare(task, read(0))
            recorder.start(checkpoint, task)
            if checkpoint is not None:
                self.console.print(
                    f"resuming after epoch {len(recorder.rows)} (step "
                    f"{recorder.done:,} of {steps:,})"
                )
            quiet = {} if devices.is_chief else {"verbose": 0}
            resumable_fit(task, recorder, read, validation_data=held_out, **quiet)
        return recorder

    def _finish(
        self, task: AlbertTask, report: Report, rows: list[Row], errors: list[str]
    ) -> list[Path]:
        """Write the results, in one process, and return the plots."""
        options, folder = self.options, self.folder
        settings = {name: x for name, x in asdict(options).items() if name != "output"}
        contents = report.to_dict() | {"epochs": rows, "settings": settings}
        if errors:
            contents["errors"] = errors
        plots = draw(folder.path, report, rows)
        card = model_card(options.task, report, settings, task, plots)
        folder.finish(contents, rows, task.save_to_preset, card, plots)
        folder.tidy_up()
        return plots


def _has_task(source: Any, cls: type, head: Mapping[str, Any]) -> bool:
    """Return whether a preset has the task, with the outputs of the new head."""
    if not isinstance(source, Checkpoint) or source.task_name() != cls.__name__:
        return False
    return _outputs(source.task_arguments(cls)) == _outputs(head)


def _outputs(arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the outputs of a head depend on."""
    names = arguments.get("labels")
    return (
        arguments.get("num_classes") if names is None else sorted(names),
        arguments.get("activation") == "sigmoid",
        arguments.get("head", "independent"),
        arguments.get("objective", "cosine"),
        bool(arguments.get("exits")),
    )


def _given(options: Finetune) -> dict[str, Any]:
    """Return what determines the result of a run."""
    given = asdict(options).items()
    compared = {name: value for name, value in given if name not in _NOT_COMPARED}
    files = {"training file": options.train, "dev file": options.dev}
    return compared | {name: digest(path) for name, path in files.items()}
