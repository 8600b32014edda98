"""Options of the SavedModel export, checked before the export begins."""

from typing import Any

from keras_albert.tasks.classification.model import AlbertClassifier
from keras_albert.tasks.masked_lm.model import AlbertMaskedLM
from keras_albert.tasks.masked_lm.pretrainer import AlbertPretrainer
from keras_albert.text.packing.windows import window_stride


def saved_model_options(
    task: Any, max_length: int | None, top_k: int | None
) -> dict[str, int | None]:
    """Check options and fill in defaults that depend on the task.

    Args:
        task: A task with a preprocessor.
        max_length: int or `None`. See `export_saved_model`.
        top_k: int or `None`. See `export_saved_model`.

    Returns:
        `max_length` and `top_k`, in a form for JSON.

    Raises:
        ValueError: If an option does not fit the task.
    """
    preprocessor = task.preprocessor
    if max_length is None:
        max_length = preprocessor.max_length
    shortest = preprocessor.shortest_length
    longest = task.backbone.max_sequence_length
    if not _is_between(max_length, shortest, longest):
        msg = (
            f"`max_length` is a whole number from {shortest} to {longest}, the longest "
            f"row that the model reads. Received: max_length={max_length!r}"
        )
        raise ValueError(msg)
    # The token classifier's stride must fit its windows, which may now be shorter.
    window_stride(getattr(preprocessor, "stride", None), max_length - 2)
    if top_k is not None:
        most = _most_answers(task)
        if not _is_between(top_k, 1, most):
            msg = (
                f"`top_k` is a whole number from 1 to {most}: the model has no more to "
                f"choose from. Received: top_k={top_k!r}"
            )
            raise ValueError(msg)
    return {"max_length": max_length, "top_k": top_k}


def _is_between(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _most_answers(task: Any) -> int:
    if isinstance(task, AlbertMaskedLM | AlbertPretrainer):
        return int(task.backbone.vocabulary_size)
    if isinstance(task, AlbertClassifier) and not task.is_regression:
        return len(task.class_names)
    what = "A regression" if isinstance(task, AlbertClassifier) else type(task).__name__
    msg = (
        f"{what} has no list of likeliest answers. Leave out `top_k`, which is for "
        "classifiers and masked language models."
    )
    raise ValueError(msg)
