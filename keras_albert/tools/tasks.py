"""How the files of each task are read, and a model evaluated and asked on them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_albert import tasks
from keras_albert.tasks.text_embedding.objectives import cosine_scores
from keras_albert.tools import datasets, metrics
from keras_albert.tools.answer_file import Answer
from keras_albert.tools.datasets import Asked, Dataset
from keras_albert.tools.metrics import Evaluation
from keras_albert.utils.arguments import check_choice

Columns = dict[str, list[Any]]
Inputs = tuple[tuple[str, ...], ...]


class FileTask(NamedTuple):
    """How files are read for a task, and how a model is evaluated on them."""

    cls: Any
    # From a path, columns and a limit.
    read: Callable[..., Dataset]
    evaluate: Callable[[Any, Dataset], Evaluation]
    # The metric that determines the best epoch, and "max" or "min".
    monitor: tuple[str, str] = ("val_loss", "min")
    # Chooses a setting by a part of the dev file, and returns the rest.
    tune: Callable[[Any, Dataset], Dataset] = lambda _, data: data

    def read_all(
        self, paths: list[Path], asked: Asked, limit: int | None = None
    ) -> list[Dataset]:
        """Read files, with scores on one scale."""
        found = [self.read(path, asked, limit) for path in paths]
        return datasets.on_one_scale(found)

    def evaluate_tuned(self, task: Any, data: Dataset) -> Evaluation:
        """Evaluate a trained model, after what is chosen by a part of the file."""
        return self.evaluate(task, self.tune(task, data))


TASKS: Mapping[str, FileTask] = {
    "classification": FileTask(
        tasks.AlbertClassifier,
        datasets.read_labels,
        metrics.evaluate_classes,
        ("val_accuracy", "max"),
    ),
    "regression": FileTask(
        tasks.AlbertClassifier,
        datasets.read_scores,
        metrics.evaluate_regression,
        ("val_rmse", "min"),
    ),
    "masked-lm": FileTask(
        tasks.AlbertMaskedLM, datasets.read_texts, metrics.evaluate_masks
    ),
    "multiple-choice": FileTask(
        tasks.AlbertMultipleChoice,
        datasets.read_multiple_choice,
        metrics.evaluate_choices,
        ("val_accuracy", "max"),
    ),
    "question-answering": FileTask(
        tasks.AlbertQuestionAnswerer,
        datasets.read_questions,
        metrics.evaluate_answers,
        tune=metrics.tune_answers,
    ),
    "similarity": FileTask(
        tasks.AlbertTextEmbedder, datasets.read_similarity, metrics.evaluate_similarity
    ),
    "token-classification": FileTask(
        tasks.AlbertTokenClassifier, datasets.read_tags, metrics.evaluate_entities
    ),
}


def read_examples(
    path: str | Path,
    task: str = "classification",
    *,
    text: str | None = None,
    text_pair: str | None = None,
    label: str | None = None,
    limit: int | None = None,
) -> Dataset:
    r"""Read a file of examples for a task.

    Tables are TSV, CSV or JSON lines, also compressed (`.gz`), whose columns are found
    by their usual names. Question answering reads SQuAD's JSON, token classification
    also CoNLL, masked language models also plain text.

    Args:
        path: path. The file; its suffix says what it contains.
        task: string. "classification", "regression", "masked-lm", "multiple-choice",
            "question-answering", "similarity" or "token-classification". Defaults to
            `"classification"`.
        text: string or `None`. The column of the text. Defaults to `None`, by its name.
        text_pair: string or `None`. The column of the second text. Defaults to `None`.
        label: string or `None`. The column of the label. Defaults to `None`.
        limit: int or `None`. The maximum number of examples. Defaults to `None`.

    Returns:
        A `Dataset`, with `x` and `y` as `fit` takes them.

    Raises:
        ValueError: If a row or a column is wrong; the message names the line.

    Example:
        >>> import pathlib
        >>> from keras_albert.tools import read_examples
        >>> _ = pathlib.Path("messages.tsv").write_text(
        ...     "text\tlabel\nThanks!\tother\n")
        >>> data = read_examples("messages.tsv")
        >>> data.x, data.y
        (['Thanks!'], ['other'])
    """
    check_choice(tuple(TASKS), task=task)
    asked = {"text": text, "text_pair": text_pair, "label": label}
    (data,) = TASKS[task].read_all([Path(path)], asked, limit)
    return data


def file_task(task: Any) -> FileTask:
    """Return how files are read for a model."""
    is_score = getattr(task, "is_regression", None) is True
    ways = [each for each in TASKS.values() if isinstance(task, each.cls)]
    if not ways:
        raise ValueError(
            f"An {type(task).__name__} is not trained on labelled files. Pass a model "
            "of another task."
        )
    return ways[is_score]


def _texts(columns: Columns) -> Any:
    pairs = "text_pair" in columns
    return (columns["text"], columns["text_pair"]) if pairs else columns["text"]


def classify(
    task: Any, columns: Columns, batch_size: int, **exits: Any
) -> list[Answer]:
    """Predict classes."""
    answers = task.classify(_texts(columns), batch_size=batch_size, **exits)
    # Multi-label classification returns a list for each text.
    return [row if isinstance(row, dict) else {"labels": row} for row in answers]


def fill_masks(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    """Predict the tokens of masks."""
    mask = task.preprocessor.tokenizer.mask_token
    if not any(mask in text for texts in columns.values() for text in texts):
        raise ValueError(
            f"No text has a {mask} for the model to fill. To predict labels, train a "
            "head first: `keras-albert finetune classification --preset ...`."
        )
    answers = task.fill_mask(_texts(columns), batch_size=batch_size)
    return [{"masks": row} for row in answers]


def tag(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    """Find entities."""
    answers = task.tag(columns["text"], batch_size=batch_size)
    return [{"entities": row} for row in answers]


def answer(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    """Find answers."""
    texts = columns["question"], columns["context"]
    return list(task.answer(*texts, batch_size=batch_size))


def choose(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    """Choose among choices."""
    texts = columns.get("context"), columns["question"], columns["choices"]
    return list(task.choose(*texts, batch_size=batch_size))


def embed(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    """Return vectors, or the similarities of pairs."""
    vectors = task.embed(_texts(columns), batch_size=batch_size)
    if "text_pair" not in columns:
        return [{"embedding": vector} for vector in vectors]
    cosines = keras.ops.convert_to_numpy(cosine_scores(vectors))
    return [{"similarity": cosine} for cosine in cosines[:, 0]]


def score_order(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    """Return the probability that the second text follows the first."""
    scores = task.score_order(*_texts(columns), batch_size=batch_size)
    return [{"score": score} for score in scores]


_TEXTS = (("text", "text_pair"), ("text",))
_CHOICES = (("context", "question", "choices"), ("question", "choices"))


class Answering(NamedTuple):
    """How a class of models answers columns of texts."""

    # From the model, the columns and the batch size.
    answer: Callable[..., list[Answer]]
    # The sets of columns that it reads, best first.
    inputs: Inputs
    # Those of an export that takes ids; none where a text may have several rows.
    id_inputs: Inputs = ()


# By the names of classes.
ANSWERING: Mapping[str, Answering] = {
    "AlbertClassifier": Answering(classify, _TEXTS, _TEXTS),
    "AlbertMaskedLM": Answering(fill_masks, _TEXTS),
    "AlbertMultipleChoice": Answering(choose, _CHOICES, _CHOICES),
    "AlbertPretrainer": Answering(score_order, _TEXTS[:1]),
    "AlbertQuestionAnswerer": Answering(answer, (("question", "context"),)),
    "AlbertTextEmbedder": Answering(embed, _TEXTS, _TEXTS[1:]),
    "AlbertTokenClassifier": Answering(tag, _TEXTS[1:]),
}


def answering(task: Any) -> Answering:
    """Return how a model answers columns, also one of a subclass."""
    for cls in type(task).__mro__:
        if found := ANSWERING.get(cls.__name__):
            return found
    raise ValueError(f"There is no command for an {type(task).__name__}.")
