"""Which graph is whose, in each format."""

from importlib import import_module
from typing import Any

from keras_albert.tasks.classifier import AlbertClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.pretrainer import AlbertPretrainer
from keras_albert.tasks.question_answerer import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedder import AlbertTextEmbedder
from keras_albert.tasks.token_classifier import AlbertTokenClassifier

# A task's name in modules, and in classes.
_TASKS: dict[type[Any], tuple[str, str]] = {
    AlbertClassifier: ("classifier", "Classifier"),
    AlbertMaskedLM: ("masked_lm", "MaskedLM"),
    AlbertMultipleChoice: ("multiple_choice", "MultipleChoice"),
    AlbertPretrainer: ("pretrainer", "Pretrainer"),
    AlbertQuestionAnswerer: ("question_answerer", "QuestionAnswerer"),
    AlbertTextEmbedder: ("text_embedder", "TextEmbedder"),
    AlbertTokenClassifier: ("token_classifier", "TokenClassifier"),
}
# What a format makes of the two. Modules by name: they need TensorFlow or onnx, and
# only who exports has that.
_FORMATS = {
    "tf_saved_model": ("{}_graph", "{}Graph"),
    "onnx": ("onnx_{}", "Onnx{}"),
}


def check_is_served(task: Any) -> None:
    """Refuse a task that no graph is known of.

    Args:
        task: A task.

    Raises:
        ValueError: If its class is none of this package's, a subclass included: what
            it does otherwise would be lost.
    """
    if type(task) not in _TASKS:
        known = ", ".join(sorted(each.__name__ for each in _TASKS))
        msg = (
            f"What {type(task).__name__} should answer in a server is not known. These "
            f"tasks export: {known}. Build one of them with the same weights."
        )
        raise ValueError(msg)


def check_tokenizer(task: Any) -> None:
    """Refuse a tokenizer that cuts texts: graphs tokenize with the vocabulary alone.

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
    """Find the graph of a task.

    Args:
        task: A task that `check_is_served` lets pass.
        format: string. `"tf_saved_model"` or `"onnx"`.

    Returns:
        Its class.
    """
    module, name = (
        pattern.format(part)
        for pattern, part in zip(_FORMATS[format], _TASKS[type(task)], strict=True)
    )
    return getattr(import_module(f"{__package__}.{module}"), name)
