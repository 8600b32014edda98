"""Maps tasks to their serving graphs in each format."""

from importlib import import_module
from typing import Any

from keras_albert.tasks.classification.model import AlbertClassifier
from keras_albert.tasks.masked_lm.model import AlbertMaskedLM
from keras_albert.tasks.masked_lm.pretrainer import AlbertPretrainer
from keras_albert.tasks.multiple_choice.model import AlbertMultipleChoice
from keras_albert.tasks.question_answering.model import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedding.model import AlbertTextEmbedder
from keras_albert.tasks.token_classification.model import AlbertTokenClassifier

# The part of module names and of class names for each task.
_TASKS: dict[type[Any], tuple[str, str]] = {
    AlbertClassifier: ("classification", "Classifier"),
    AlbertMaskedLM: ("masked_lm", "MaskedLM"),
    AlbertMultipleChoice: ("multiple_choice", "MultipleChoice"),
    AlbertPretrainer: ("pretrainer", "Pretrainer"),
    AlbertQuestionAnswerer: ("question_answering", "QuestionAnswerer"),
    AlbertTextEmbedder: ("text_embedding", "TextEmbedder"),
    AlbertTokenClassifier: ("token_classification", "TokenClassifier"),
}
# Patterns for modules and classes. Modules are imported by name when needed, because
# they require TensorFlow or onnx.
_FORMATS = {
    "tf_saved_model": ("saved_model.graphs.{}", "{}Graph"),
    "onnx": ("onnx.graphs.{}", "Onnx{}"),
}


def check_is_served(task: Any) -> None:
    """Raise if a task cannot be exported.

    Args:
        task: A task.

    Raises:
        ValueError: If its class is not one of this package's. Subclasses are refused,
            too, because changes in behaviour would be lost.
    """
    if type(task) not in _TASKS:
        known = ", ".join(sorted(each.__name__ for each in _TASKS))
        msg = (
            f"What {type(task).__name__} should answer in a server is not known. These "
            f"tasks export: {known}. Build one of them with the same weights."
        )
        raise ValueError(msg)


def check_tokenizer(task: Any) -> None:
    """Raise if a tokenizer truncates texts, which graphs do not support.

    Args:
        task: A task with a preprocessor.

    Raises:
        ValueError: If its tokenizer has a `sequence_length`.
    """
    length = task.preprocessor.tokenizer.sequence_length
    if length is not None:
        msg = (
            "An exported model tokenizes whole texts, and this tokenizer cuts them to "
            f"{length} tokens. Build it without `sequence_length`; that of the "
            "preprocessor limits the row."
        )
        raise ValueError(msg)


def graph_class(task: Any, format: str) -> Any:  # noqa: A002  (Keras' own name)
    """Return the graph class of a task.

    Args:
        task: A task that passes `check_is_served`.
        format: string. `"tf_saved_model"` or `"onnx"`.

    Returns:
        The class of the graph.
    """
    module, name = (
        pattern.format(part)
        for pattern, part in zip(_FORMATS[format], _TASKS[type(task)], strict=True)
    )
    return getattr(import_module(f"{__package__}.{module}"), name)
