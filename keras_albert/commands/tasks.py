"""What the commands do with each task: the table of tasks with its functions."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from keras_albert import tasks
from keras_albert.commands import datasets, metrics
from keras_albert.commands.answer_file import Answer
from keras_albert.commands.datasets import Dataset
from keras_albert.tasks.table import TASKS as ROWS
from keras_albert.tasks.table import Finetuning, TaskRow
from keras_albert.tasks.task import AlbertTask
from keras_albert.tasks.text_embedding.objectives import cosine_scores

Columns = dict[str, list[Any]]


class CommandTask:
    """A row of the table of tasks with its class and the functions that it names."""

    def __init__(self, row: TaskRow, finetuning: Finetuning | None = None) -> None:
        self.row = row
        self.cls: Any = getattr(tasks, row.name)
        self.predict: Callable[..., list[Answer]] = globals()[row.predict]
        self._finetuning = finetuning

    @property
    def finetuning(self) -> Finetuning:
        """How it is trained."""
        if self._finetuning is None:
            raise ValueError("This task is trained by `keras-albert pretrain`.")
        return self._finetuning

    def read(self, path: Path, arguments: argparse.Namespace) -> Dataset:
        """Read a file of examples."""
        return getattr(datasets, self.finetuning.read)(path, arguments)

    def read_both(self, arguments: argparse.Namespace) -> list[Dataset]:
        """Read the training and the dev file, with scores on one scale."""
        paths = arguments.train, arguments.dev
        return datasets.on_one_scale([self.read(path, arguments) for path in paths])

    def evaluate(self, task: AlbertTask, data: Dataset) -> metrics.Evaluation:
        """Evaluate a model on a file."""
        run: Callable[..., metrics.Evaluation]
        run = getattr(metrics, self.finetuning.evaluate)
        return run(task, data)

    def evaluate_tuned(self, task: AlbertTask, data: Dataset) -> metrics.Evaluation:
        """Evaluate a trained model on a file, after what is chosen by a part of it."""
        if self.finetuning.tune:
            data = getattr(metrics, self.finetuning.tune)(task, data)
        return self.evaluate(task, data)


def _texts(columns: Columns) -> Any:
    pairs = "text_pair" in columns
    return (columns["text"], columns["text_pair"]) if pairs else columns["text"]


def classify(
    task: AlbertTask, columns: Columns, batch_size: int, **exits: Any
) -> list[Answer]:
    """Predict classes."""
    answers = task.classify(_texts(columns), batch_size=batch_size, **exits)
    # Multi-label classification returns a list for each text.
    return [row if isinstance(row, dict) else {"labels": row} for row in answers]


def fill_masks(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Predict the tokens of masks."""
    mask = task.preprocessor.tokenizer.mask_token
    if not any(mask in text for texts in columns.values() for text in texts):
        raise ValueError(
            f"No text has a {mask} for the model to fill. To predict labels, train a "
            "head first: `keras-albert finetune classification --preset ...`."
        )
    answers = task.fill_mask(_texts(columns), batch_size=batch_size)
    return [{"masks": row} for row in answers]


def tag(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Find entities."""
    answers = task.tag(columns["text"], batch_size=batch_size)
    return [{"entities": row} for row in answers]


def answer(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Find answers."""
    texts = columns["question"], columns["context"]
    return list(task.answer(*texts, batch_size=batch_size))


def choose(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Choose among choices."""
    texts = columns.get("context"), columns["question"], columns["choices"]
    return list(task.choose(*texts, batch_size=batch_size))


def embed(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Return vectors, or the similarities of pairs."""
    vectors = task.embed(_texts(columns), batch_size=batch_size)
    if "text_pair" not in columns:
        return [{"embedding": vector} for vector in vectors]
    cosines = keras.ops.convert_to_numpy(cosine_scores(vectors))
    return [{"similarity": cosine} for cosine in cosines[:, 0]]


def score_order(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Return the probability that the second text follows the first."""
    scores = task.score_order(*_texts(columns), batch_size=batch_size)
    return [{"score": score} for score in scores]


TASKS = {
    name: CommandTask(row, how)
    for row in ROWS.values()
    for name, how in row.finetuning.items()
}


def known_task(task: AlbertTask) -> CommandTask:
    """Return what is known of a task, also of a subclass."""
    for cls in type(task).__mro__:
        if row := ROWS.get(cls.__name__):
            ways: list[Finetuning | None] = [*row.finetuning.values()] or [None]
            return CommandTask(row, ways[getattr(task, "is_regression", None) is True])
    raise ValueError(f"There is no command for an {type(task).__name__}.")
