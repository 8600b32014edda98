"""Training of a small model to do what a larger one does."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert import tasks
from keras_albert.compression import text_spans
from keras_albert.data.batches import LengthBatches, make_batches
from keras_albert.data.tables import read_data, unpack
from keras_albert.devices.processes import refuse_processes
from keras_albert.layers.encoder import masked_mean
from keras_albert.tasks.losses_and_metrics import TokenAccuracy
from keras_albert.tasks.masked_lm import TokenCrossEntropy
from keras_albert.tasks.optimizers import adamw, default_optimizer
from keras_albert.tasks.predict import compile_function
from keras_albert.tasks.task import AlbertTask
from keras_albert.training.devices import OneDevice
from keras_albert.training.recorder import (
    PrefetchedBatches,
    StopSignals,
    TrainingRecorder,
    resumable_fit,
)
from keras_albert.training.run_folder import Row, RunFolder, config_without_name, digest
from keras_albert.types import Batch
from keras_albert.utils.arguments import (
    check_at_least,
    check_at_most,
    check_finite_and_positive,
    check_positive,
)
from keras_albert.utils.keras_internals import all_layers, outputs_of_layer

# How much each error counts. Hidden states and vectors have errors between 0 and 1,
# cosines far smaller ones, and a new masked LM head starts with 10.
LOSS_WEIGHTS = {
    "hidden": 1.0,
    "vector": 5.0,
    "cosines": 20.0,
    "masked_lm": 0.3,
    "output": 1.0,
    "label": 0.5,
}

# Softens probabilities, so that the small ones count.
# Source: [Hinton et al., 2015](https://arxiv.org/abs/1503.02531).
_TEMPERATURE = 2.0

# Rows of the curve, and of the validation set: how many, and how many tokens.
_CURVE_ROWS = 20
_HELD_OUT_ROWS, _HELD_OUT_LENGTH = 256, 48

_EPOCHS = 3
_TIMED_STEPS = 8
_SECONDS_PER_CHECKPOINT = 300.0


def distill(
    student: Any,
    teacher: Any,
    x: Any,
    y: Any = None,
    *,
    validation_data: Any = None,
    hours: float | None = None,
    steps: int | None = None,
    output: str | Path | RunFolder | None = None,
    batch_size: int = 32,
    max_length: int = 128,
    learning_rate: float = 4e-4,
    seed: int = 0,
    workers: int = 1,
    verbose: Any = "auto",
) -> list[Row]:
    """Train a small model to do what a larger one does.

    `student` is usually the result of `compress`. A text embedder and a masked language
    model learn from texts without labels: passages are drawn from them, and the
    student learns the teacher's hidden states, its vectors of the passages, the cosines
    between these and, with a masked LM head, masked tokens. Any other task learns the
    teacher's outputs and hidden states for its examples, and their labels if
    there are any. The training is Keras' `fit`; the outputs of the teacher are computed
    while the student trains.

    Sources: [Hinton et al., 2015](https://arxiv.org/abs/1503.02531);
    [Jiao et al., 2020](https://arxiv.org/abs/1909.10351), for hidden states.

    Args:
        student: A task. It is trained in place.
        teacher: A task of the same class, of the same width.
        x: Sequence of string for an embedder and a masked language model, or what
            `fit` of the task takes.
        y: Targets as in `fit`. Defaults to `None`, the teacher's outputs alone.
        validation_data: `(x, y)`, or texts. Defaults to `None`: for texts, some are
            held out; for examples, there is no validation.
        hours: float. How long to train. The number of steps follows from the time of a
            few steps on this machine. Defaults to `None`.
        steps: int. How long to train, in steps, instead of `hours`. Defaults to
            `None`, for examples three epochs.
        output: string or path. A directory for checkpoints and the curve: the same call
            resumes an interrupted one, with the same result. Defaults to `None`, none.
        batch_size: int. The number of examples in a batch, or of passages of
            `max_length` tokens; shorter passages are more. Defaults to `32`.
        max_length: int. The longest passage in tokens. Defaults to `128`.
        learning_rate: float. The peak; it rises for a tenth of the steps, and falls to
            0. Defaults to `4e-4`, the best for all-MiniLM-L6-v2, whose width is 384.
        seed: int. Seed of the passages, the masks and the order. Defaults to `0`.
        workers: int. Number of processes that draw and tokenize passages; with `1`,
            the current process does. Four to six keep a GPU busy. The result does not
            depend on it. Defaults to `1`.
        verbose: As in `fit`. Defaults to `"auto"`.

    Returns:
        The curve: a list of dicts with the losses of each part of the training.

    Raises:
        TypeError: If a model is no task.
        ValueError: If the models do not fit each other, an argument is invalid or
            missing, or `output` contains another run.
        KeyboardInterrupt: After Ctrl-C or SIGTERM, once a checkpoint is written.

    Example:
        >>> from keras_albert import AlbertTextEmbedder, compress, distill
        >>> texts = ["a fox ran", "the fox ran", "a dog slept", "the sea"] * 8
        >>> teacher = AlbertTextEmbedder.from_preset("albert_tiny_en_uncased")
        >>> student = compress(teacher, num_layers=2)
        >>> curve = distill(
        ...     student, teacher, texts, steps=2, batch_size=16, max_length=16,
        ...     verbose=0)
        >>> sorted(curve[-1])[:3]
        ['cosines_loss', 'epoch', 'hidden_loss']
    """
    refuse_processes("`distill`")
    check_models(student, teacher)
    check_positive(batch_size=batch_size, steps=1 if steps is None else steps)
    hours_or_one = 1 if hours is None else hours
    check_finite_and_positive(learning_rate=learning_rate, hours=hours_or_one)
    reads_texts = isinstance(student, (tasks.AlbertTextEmbedder, tasks.AlbertMaskedLM))
    given = (hours is not None) + (steps is not None)
    if given > 1 or (reads_texts and not given):
        raise ValueError(
            "Pass either `hours` or `steps`: passages are sampled indefinitely."
        )
    if reads_texts:
        if y is not None:
            msg = "`y` is not used with texts. Train on it with `fit` afterwards."
            raise ValueError(msg)
        data = _data_of_texts(
            *(student, teacher, x, validation_data),
            *(batch_size, max_length, seed, workers),
        )
    else:
        data = _data_of_examples(student, teacher, x, y, validation_data, batch_size)
    identity = {
        "student": _digest_of(student),
        "teacher": _digest_of(teacher),
        "data": data.digest,
        "hours": hours,
        "steps": steps,
        "batch": [batch_size, max_length],
        "learning_rate": learning_rate,
        "seed": seed,
        "backend": keras.config.backend(),
    }
    pooler = student.backbone.pooler
    is_trained = pooler.trainable
    # Where no output depends on it, Keras warns.
    pooler.trainable = is_trained and student.uses_pooler
    try:
        with _folder(output) as folder, _dropout_of(student, not reads_texts):
            return _train(student, data, folder, identity, learning_rate, verbose)
    finally:
        if data.workers is not None:
            data.workers.close()
        pooler.trainable = is_trained


@dataclass(frozen=True)
class DistillationData:
    """The batches, outputs and losses that a student learns from."""

    read: Callable[[int], Batch]
    outputs: dict[str, Any]
    losses: dict[str, Any]
    held_out: Any
    epoch: int
    warm_up: int
    digest: str
    workers: text_spans.SpanWorkers | None = None


def squared_error(true: Any, predicted: Any) -> Any:
    """Return the squared error of each vector, relative to its squared length."""
    true = ops.cast(true, "float32")
    error = ops.sum(ops.square(ops.cast(predicted, "float32") - true), axis=-1)
    return error / (ops.sum(ops.square(true), axis=-1) + 1e-6)


def one_minus_cosine(true: Any, predicted: Any) -> Any:
    """Return the distance of two vectors in each row."""
    return 1 - ops.sum(_unit(true) * _unit(predicted), axis=-1)


def error_of_cosines(true: Any, predicted: Any) -> Any:
    """Return the squared error of the cosines of each row and all rows."""
    units = _unit(true), _unit(predicted)
    cosines = [ops.matmul(unit, ops.transpose(unit)) for unit in units]
    return ops.mean(ops.square(cosines[0] - cosines[1]), axis=-1)


def _unit(vectors: Any) -> Any:
    return ops.normalize(ops.cast(vectors, "float32"), axis=-1)


def soft_cross_entropy(true: Any, predicted: Any) -> Any:
    """Return the divergence of softened probabilities, from logits, in each row."""
    log_true, log_predicted = (
        ops.log_softmax(ops.cast(each, "float32") / _TEMPERATURE, axis=-1)
        for each in (true, predicted)
    )
    difference = ops.exp(log_true) * (log_true - log_predicted)
    return _TEMPERATURE**2 * ops.sum(difference, axis=-1)


def check_models(student: Any, teacher: Any) -> None:
    """Check that the student can learn from the teacher."""
    for name, model in (("student", student), ("teacher", teacher)):
        if not isinstance(model, AlbertTask):
            raise TypeError(
                f"`{name}` must be a task, for instance an `AlbertTextEmbedder` on the "
                f"backbone. Received: {type(model).__name__}"
            )
        model.require_preprocessor("distill")
    width, needed = student.backbone.hidden_dim, teacher.backbone.hidden_dim
    if not isinstance(student, type(teacher)) or width != needed:
        raise ValueError(
            "Student and teacher must be of the same class and the same width, as from "
            f"`compress`. Received: student={type(student).__name__} of {width}, "
            f"teacher={type(teacher).__name__} of {needed}"
        )
    if isinstance(student, tasks.AlbertPretrainer) or getattr(student, "exits", False):
        raise ValueError(
            "Pretrainers and classifiers with exits cannot be distilled. Load the "
            "pretrainer as `AlbertMaskedLM`, or build the classifier without `exits`."
        )
    if student is teacher or student.backbone is teacher.backbone:
        raise ValueError(
            "Student and teacher are the same model: use `compress` first."
        )


def _data_of_texts(
    student: Any,
    teacher: Any,
    texts: Any,
    validation: Any,
    batch_size: int,
    max_length: int,
    seed: int,
    workers: int,
) -> DistillationData:
    if isinstance(texts, str) or not hasattr(texts, "__getitem__") or len(texts) < 2:
        raise ValueError(
            "`x` must be a list of at least two texts, since some are held out. "
            f"Received: x={texts!r:.80}"
        )
    check_at_least(8, max_length=max_length)
    for model in (student, teacher):
        check_at_most(model.backbone.max_sequence_length, max_length=max_length)
    tokenizers = [student.preprocessor.tokenizer, teacher.preprocessor.tokenizer]
    is_same = tokenizers[0].proto == tokenizers[1].proto
    if validation is None:
        texts, validation = text_spans.split_texts(texts, seed)
    has_head = isinstance(student, tasks.AlbertMaskedLM)
    how = (tokenizers[: 1 if is_same else 2], batch_size, max_length, has_head, seed)
    spans = text_spans.TextSpans(texts, *how).measured()
    held_out = text_spans.TextSpans(validation, *how, spans.chars_per_token)

    hidden, vector = _reading(student)
    outputs = {"vector": vector, "cosines": vector}
    losses: dict[str, Any] = {"vector": one_minus_cosine, "cosines": error_of_cosines}
    if is_same:
        outputs["hidden"], losses["hidden"] = hidden, squared_error
    if has_head:
        outputs["masked_lm"], losses["masked_lm"] = student.output, TokenCrossEntropy()
    taught = dict(zip(("hidden", "vector"), _reading(teacher), strict=True))
    teacher_outputs = _answers(keras.Model(teacher.backbone.input, taught))

    def make(spans: text_spans.Spans) -> Batch:
        x = dict(spans.inputs[0])
        answers = teacher_outputs(spans.inputs[-1])
        rows = np.ones(len(spans.texts), "float32")
        y = {"vector": answers["vector"], "cosines": answers["vector"]}
        weights = {"vector": rows, "cosines": rows}
        if is_same:
            y["hidden"] = answers["hidden"]
            weights["hidden"] = mean_one(x["padding_mask"])
        if spans.masked is not None:
            x["mask_positions"] = spans.masked.positions
            y["masked_lm"] = spans.masked.labels
            weights["masked_lm"] = mean_one(spans.masked.weights)
        return x, y, weights

    processes = text_spans.SpanWorkers(spans, workers) if workers > 1 else None
    reader = processes or spans
    return DistillationData(
        read=lambda number: make(reader.read(number)),
        outputs=outputs,
        losses=losses,
        held_out=_Batches([make(held_out.held_out(_HELD_OUT_ROWS, _HELD_OUT_LENGTH))]),
        epoch=0,
        warm_up=3 * len(spans.lengths),
        digest=digest([len(texts), *spans.held_out(100, max_length).texts]),
        workers=processes,
    )


def _data_of_examples(
    student: Any, teacher: Any, x: Any, y: Any, validation: Any, batch_size: int
) -> DistillationData:
    if student.preprocessor.tokenizer.proto != teacher.preprocessor.tokenizer.proto:
        raise ValueError(
            "Student and teacher have different vocabularies. Distill an "
            "`AlbertTextEmbedder` or an `AlbertMaskedLM` with the new vocabulary from "
            "texts, and then train the task on its backbone."
        )
    hidden, _ = _reading(student)
    outputs = {"hidden": hidden, **_named("output", student.output)}
    is_logits = student.outputs_are_logits is True
    loss = soft_cross_entropy if is_logits else keras.losses.mean_squared_error
    losses: dict[str, Any] = dict.fromkeys(outputs, loss)
    losses["hidden"] = squared_error
    if y is not None:
        outputs |= _named("label", student.output)
        losses |= _named("label", student.default_loss())
    taught = {"hidden": _reading(teacher)[0], **_named("output", teacher.output)}
    teacher_outputs = _answers(keras.Model(teacher.input, taught))

    def make(batch: Batch) -> Batch:
        x, y, given = keras.utils.unpack_x_y_sample_weight(batch)
        answers = teacher_outputs(x)
        mask = np.reshape(x["padding_mask"], (-1, x["padding_mask"].shape[-1]))
        weights = {"hidden": mean_one(mask)}
        for name in taught.keys() - {"hidden"}:
            shape = answers[name].shape[:-1]
            # A tag for each token, or an answer for each example.
            is_tags = len(shape) == 2 and shape == mask.shape
            weights[name] = mean_one(mask) if is_tags else np.ones(shape, "float32")
        if y is not None:
            answers |= _named("label", y)
            rows = np.ones(len(x["token_ids"]), "float32")
            labels = _named("label", rows if given is None else given)
            whole = labels.get("label", rows)
            weights |= {name: labels.get(name, whole) for name in _named("label", y)}
        return x, answers, weights

    how: dict[str, Any] = {"batch_size": batch_size}
    how["mode"] = "prediction" if y is None else "training"
    columns = student.traits.columns._replace(label=None)
    batches = make_batches(student, read_data(x, y, None, columns), shuffle=True, **how)
    if not isinstance(batches, LengthBatches):
        msg = "Pass lists instead of a data set: examples are read several times."
        raise ValueError(msg)
    # A thread reads ahead, possibly into the next epoch.
    of_epoch = lru_cache(maxsize=2)(batches.of_epoch)

    def read(number: int) -> Batch:
        epoch, index = divmod(number, len(batches))
        return make(of_epoch(epoch)[index])

    held_out = None
    if validation is not None:
        how["mode"] = how["mode"].replace("training", "evaluation")
        dev_x, dev_y, _ = unpack(validation, "`validation_data`")
        dev_y = None if y is None else dev_y
        dev = make_batches(student, read_data(dev_x, dev_y, None, columns), **how)
        held_out = _Batches(dev, make)
    ids = of_epoch(0)[0][0]["token_ids"]
    data = digest([len(batches), ids.tolist(), repr(y)[:2000]])
    return DistillationData(read, outputs, losses, held_out, len(batches), 16, data)


class _Batches(keras.utils.PyDataset):
    """Validation batches, made when they are read."""

    def __init__(self, batches: Any, make: Callable[[Any], Batch] = tuple) -> None:
        super().__init__()
        self._batches, self._make = batches, make

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        return self._make(self._batches[index])


def _reading(task: AlbertTask) -> tuple[Any, Any]:
    """Return the hidden states and the vectors of texts in a task's graph."""
    hidden = outputs_of_layer(task, task.backbone)["sequence_output"]
    if isinstance(task, tasks.AlbertTextEmbedder):
        return hidden, task.output
    mask = task.input["padding_mask"]
    return hidden, masked_mean(hidden, mask) if len(mask.shape) == 2 else None


def _answers(teacher: Any) -> Callable[[Any], dict[str, Any]]:
    """Return a function of inputs that computes a model's outputs, on its device."""
    compute = compile_function(teacher, lambda x: teacher(x, training=False))
    if keras.config.backend() != "tensorflow":
        return compute
    # Batches of a data set are arrays.
    return lambda x: keras.tree.map_structure(ops.convert_to_numpy, compute(x))


def _named(name: str, values: Any) -> dict[str, Any]:
    """Return values as a dict, whose keys start with `name`."""
    if isinstance(values, dict):
        return {f"{name}_{key}": value for key, value in values.items()}
    return {name: values}


def mean_one(weights: Any) -> Any:
    """Scale weights, so that a mean over all cells is that over the used ones."""
    weights = np.asarray(weights, "float32")
    return weights * (weights.size / max(weights.sum(), 1.0))


def _compile(model: Any, data: DistillationData, optimizer: Any) -> None:
    # "output_start_logits" is an "output".
    weights = {
        name: LOSS_WEIGHTS.get(name, LOSS_WEIGHTS.get(name.split("_")[0]))
        for name in data.losses
    }
    # Keras takes the metrics of all outputs or of none.
    metrics: dict[str, list[Any]] = {name: [] for name in data.losses}
    if "masked_lm" in metrics:
        metrics["masked_lm"] = [TokenAccuracy()]
    model.compile(
        optimizer,
        data.losses,
        loss_weights=weights,
        weighted_metrics=metrics,
        auto_scale_loss=False,
    )
    optimizer.build(model.trainable_variables)


def _train(
    student: Any,
    data: DistillationData,
    folder: RunFolder,
    identity: dict[str, Any],
    learning_rate: float,
    verbose: Any,
) -> list[Row]:
    model = keras.Model(student.input, data.outputs)
    devices = OneDevice()
    checkpoint = folder.open(identity, may_change=("num_batches",))
    if checkpoint is not None:
        num_batches = checkpoint.notes["identity"]["num_batches"]
    elif identity["hours"] is not None:
        num_batches = _steps_in(model, data, devices, identity["hours"] * 3600)
    else:
        num_batches = identity["steps"] or _EPOCHS * data.epoch
    _compile(model, data, default_optimizer(learning_rate, num_batches))
    row = data.epoch or -(-num_batches // _CURVE_ROWS)
    with StopSignals() as stop:
        recorder = TrainingRecorder(
            *(folder, devices, stop, identity | {"num_batches": num_batches}),
            seed=identity["seed"],
            num_batches=num_batches,
            batches_per_row=row,
            batches_per_checkpoint=row,
            seconds_per_checkpoint=_SECONDS_PER_CHECKPOINT,
            remedy="Restart with a lower `learning_rate` and a new `output`.",
        )
        devices.prepare(model, data.read(0))
        recorder.start(checkpoint, model)
        how = {"validation_data": data.held_out, "verbose": verbose}
        resumable_fit(model, recorder, data.read, **how)
    return recorder.rows


def _steps_in(
    model: Any, data: DistillationData, devices: OneDevice, seconds: float
) -> int:
    """Return how many steps take some time; the model is the same afterwards."""
    start = time.monotonic()
    optimizer = adamw(1e-6)
    _compile(model, data, optimizer)
    # Some backends return the memory that training modifies.
    before = [np.array(value) for value in devices.values(model.variables)]
    with PrefetchedBatches(data.read, 0) as batches:
        for _ in range(data.warm_up):
            model.train_on_batch(*next(batches))
            if time.monotonic() - start > seconds / 4:
                break
        clock = time.monotonic()
        for _ in range(_TIMED_STEPS):
            model.train_on_batch(*next(batches))
        step = (time.monotonic() - clock) / _TIMED_STEPS
    devices.assign(model.variables, before)
    left = seconds - (time.monotonic() - start)
    return max(1, int(left / step))


@contextmanager
def _folder(output: str | Path | RunFolder | None) -> Iterator[RunFolder]:
    """Lock the directory of a run, or make a temporary one."""
    with ExitStack() as opened:
        if output is None:
            temporary = opened.enter_context(tempfile.TemporaryDirectory())
            output = RunFolder(Path(temporary))
        elif not isinstance(output, RunFolder):  # The command has locked its own.
            output = opened.enter_context(RunFolder.at(output))
            opened.enter_context(output.locked())
        yield output


@contextmanager
def _dropout_of(task: AlbertTask, is_on: bool) -> Iterator[None]:
    """Disable a task's dropout in a block, unless `is_on`."""
    # Passages are hardly ever read twice, so there is nothing to overfit.
    rates = [
        (layer, name, rate)
        for layer in ([] if is_on else all_layers(task))
        for name in ("rate", "dropout", "attention_dropout")
        if isinstance(rate := getattr(layer, name, None), float)
    ]
    for layer, name, _ in rates:
        setattr(layer, name, 0.0)
    try:
        yield
    finally:
        for layer, name, rate in rates:
            setattr(layer, name, rate)


def _digest_of(task: AlbertTask) -> str:
    """Return a digest of a task's configuration and some of its weights."""
    sums = [ops.sum(ops.cast(weight, "float32")) for weight in task.weights]
    numbers = [float(ops.convert_to_numpy(each)) for each in sums]
    return digest([config_without_name(task.backbone), numbers])
