"""The metadata of exported models."""

from typing import Any

from keras_albert.utils.packages import versions


def describe_model(task: Any, inputs: str) -> dict[str, Any]:
    """Describe a task, for the metadata of an exported file.

    Args:
        task: A task.
        inputs: string. The type of input: `"tokens"` or `"text"`.

    Returns:
        A dict that can be written as JSON.

    Example:
        >>> from keras_albert import AlbertBackbone, AlbertClassifier
        >>> sizes = dict(num_layers=2, num_heads=2, embedding_dim=4, hidden_dim=8)
        >>> backbone = AlbertBackbone(30, intermediate_dim=16, **sizes)
        >>> classifier = AlbertClassifier(backbone, labels=["bad", "good"])
        >>> described = describe_model(classifier, "tokens")
        >>> described["task"], described["labels"], described["max_length"]
        ('AlbertClassifier', ['bad', 'good'], 512)
    """
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
