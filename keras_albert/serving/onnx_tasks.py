"""Which ONNX graph is whose."""

from typing import Any

from keras_albert.tasks.classifier import AlbertClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.pretrainer import AlbertPretrainer
from keras_albert.tasks.question_answerer import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedder import AlbertTextEmbedder
from keras_albert.tasks.token_classifier import AlbertTokenClassifier

# By name, for their modules need onnx, and only who exports has it.
ONNX_TASKS: dict[type[Any], str] = {
    AlbertClassifier: "onnx_classifier:OnnxClassifier",
    AlbertMaskedLM: "onnx_masked_lm:OnnxMaskedLM",
    AlbertMultipleChoice: "onnx_multiple_choice:OnnxMultipleChoice",
    AlbertPretrainer: "onnx_pretrainer:OnnxPretrainer",
    AlbertQuestionAnswerer: "onnx_question_answerer:OnnxQuestionAnswerer",
    AlbertTextEmbedder: "onnx_text_embedder:OnnxTextEmbedder",
    AlbertTokenClassifier: "onnx_token_classifier:OnnxTokenClassifier",
}


def onnx_task_name(task_class: type[Any]) -> str:
    """Find the graph of a task.

    Args:
        task_class: The class of the task.

    Returns:
        The module and the class of its graph.

    Raises:
        ValueError: If the task has none.
    """
    if task_class not in ONNX_TASKS:
        known = ", ".join(sorted(cls.__name__ for cls in ONNX_TASKS))
        msg = (
            f"What {task_class.__name__} should answer in ONNX is not known. These "
            f"tasks export: {known}. Build one of them with the same weights."
        )
        raise ValueError(msg)
    return ONNX_TASKS[task_class]
