"""What all exports share: checks, graphs and metadata of tasks, and error messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from keras_albert.tasks.classification.model import AlbertClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM, AlbertPretrainer
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.question_answering.model import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedding import AlbertTextEmbedder
from keras_albert.tasks.token_classification.model import AlbertTokenClassifier
from keras_albert.utils.environment import versions

# The module of each task's graph in `saved_model.graphs` and `onnx.graphs`.
_GRAPHS: dict[type[Any], str] = {
    AlbertClassifier: "classification",
    AlbertMaskedLM: "masked_lm",
    AlbertMultipleChoice: "multiple_choice",
    AlbertPretrainer: "pretrainer",
    AlbertQuestionAnswerer: "question_answering",
    AlbertTextEmbedder: "text_embedding",
    AlbertTokenClassifier: "token_classification",
}


def check_is_served(task: Any) -> None:
    """Raise if a task cannot be exported; changes of a subclass would be lost."""
    if type(task) not in _GRAPHS:
        known = ", ".join(sorted(each.__name__ for each in _GRAPHS))
        msg = (
            f"{type(task).__name__} cannot be exported. These tasks can, without their "
            f"subclasses: {known}. Build one of them with the same weights."
        )
        raise ValueError(msg)


def with_one_head(task: Any) -> Any:
    """Return a task without the heads that a model of its depth does not run."""
    return task.without_exits() if getattr(task, "exits", 0) else task


def check_tokenizer(task: Any) -> None:
    """Raise if a tokenizer truncates texts, which graphs do not support."""
    length = task.preprocessor.tokenizer.sequence_length
    if length is not None:
        msg = (
            "An exported model tokenizes whole texts, but this tokenizer truncates "
            f"them to {length} tokens. Build it without `sequence_length`; the "
            "preprocessor truncates rows."
        )
        raise ValueError(msg)


def graph_class(task: Any, package: str) -> Any:
    """Return the graph class of a task in `"saved_model"` or `"onnx"`."""
    # Imported when needed, because graphs require TensorFlow or onnx.
    module = import_module(f"{__package__}.{package}.graphs.{_GRAPHS[type(task)]}")
    return getattr(module, f"{type(task).__name__.removeprefix('Albert')}Graph")


def describe_model(task: Any, inputs: str) -> dict[str, Any]:
    """Describe a task, with `"tokens"` or `"text"` as inputs, for an exported file."""
    described: dict[str, Any] = {
        "task": type(task).__name__,
        "inputs": inputs,
        "vocabulary_size": task.backbone.vocabulary_size,
        "max_length": task.backbone.max_sequence_length,
        "parameters": task.count_params(),
        "versions": versions(),
    }
    if task.preprocessor is not None:
        described["max_length"] = task.preprocessor.max_length
    if getattr(task, "class_names", None):
        described["labels"] = list(task.class_names)
    return described


@contextmanager
def explained_errors(target: Path) -> Iterator[None]:
    """Re-raise an `OSError` with the export that failed and how to fix it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        msg = (
            f"{error.strerror}: nothing was written to {target}. Name a place that you "
            "may write to, with room for the model twice"
        )
        raise OSError(error.errno, msg, error.filename) from error
