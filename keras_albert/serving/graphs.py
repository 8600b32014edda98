"""Which graph serves which task."""

from importlib import import_module
from typing import Any

from keras_albert.tasks.classifier import AlbertClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.pretrainer import AlbertPretrainer
from keras_albert.tasks.question_answerer import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedder import AlbertTextEmbedder
from keras_albert.tasks.token_classifier import AlbertTokenClassifier

# By name, for their modules need TensorFlow, and only a process that writes has it.
GRAPHS: dict[type[Any], str] = {
    AlbertClassifier: "classifier_graph:ClassifierGraph",
    AlbertMaskedLM: "masked_lm_graph:MaskedLMGraph",
    AlbertMultipleChoice: "multiple_choice_graph:MultipleChoiceGraph",
    AlbertPretrainer: "pretrainer_graph:PretrainerGraph",
    AlbertQuestionAnswerer: "question_answerer_graph:QuestionAnswererGraph",
    AlbertTextEmbedder: "text_embedder_graph:TextEmbedderGraph",
    AlbertTokenClassifier: "token_classifier_graph:TokenClassifierGraph",
}


def graph_name(task_class: type[Any]) -> str:
    """Find the graph of a task.

    Args:
        task_class: The class of the task.

    Returns:
        The module and the class of its graph.

    Raises:
        ValueError: If the task has none.
    """
    if task_class not in GRAPHS:
        known = ", ".join(sorted(cls.__name__ for cls in GRAPHS))
        msg = (
            f"What {task_class.__name__} should answer in a server is not known. These "
            f"tasks export: {known}. Build one of them with the same weights."
        )
        raise ValueError(msg)
    return GRAPHS[task_class]


def build_graph(task: Any) -> Any:
    """Build the graph of a task, in a process that has TensorFlow.

    Args:
        task: The task.

    Returns:
        Its `TaskGraph`.
    """
    module, name = graph_name(type(task)).split(":")
    return getattr(import_module(f"{__package__}.{module}"), name)(task)
