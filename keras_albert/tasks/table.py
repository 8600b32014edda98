"""The tables of tasks, a row for each class, and of the formats of exports."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from keras_albert.utils.arguments import argument_error


class TaskRow(NamedTuple):
    """A class of tasks."""

    name: str
    # Its graph, `module:class`, both in `serving.saved_model` and in `serving.onnx`.
    graph: str
    # The name of the task on hubs, and a line of Python that uses `model`, for cards.
    pipeline_tag: str
    use: str
    # What the output is: numbers, by the name of their export, or scores, of which one
    # is the best. `None` for several outputs, which have names.
    outputs: Literal["logits", "embedding", "classes", "tags", "choices"] | None = None
    # Whether `text_pair` is an option of an export, and what its `top_k` chooses from.
    pairs: bool = False
    ranks: Literal["classes", "tokens"] | None = None


TASKS = {
    row.name: row
    for row in (
        TaskRow(
            "AlbertClassifier",
            "classification:ClassifierGraph",
            "text-classification",
            'model.classify("a text")',
            outputs="classes",
            pairs=True,
            ranks="classes",
        ),
        TaskRow(
            "AlbertMaskedLM",
            "masked_lm:MaskedLMGraph",
            "fill-mask",
            'model.fill_mask("a [MASK] text")',
            outputs="logits",
            pairs=True,
            ranks="tokens",
        ),
        TaskRow(
            "AlbertMultipleChoice",
            "multiple_choice:MultipleChoiceGraph",
            "multiple-choice",
            'model.choose("a context", "a question", ["yes", "no"])',
            outputs="choices",
        ),
        TaskRow(
            "AlbertPretrainer",
            "masked_lm:PretrainerGraph",
            "fill-mask",
            'model.score_order(["a text"], ["the next"])',
            ranks="tokens",
        ),
        TaskRow(
            "AlbertQuestionAnswerer",
            "question_answering:QuestionAnswererGraph",
            "question-answering",
            'model.answer("a question", "a context")',
        ),
        TaskRow(
            "AlbertTextEmbedder",
            "text_embedding:TextEmbedderGraph",
            "sentence-similarity",
            'model.embed(["a text"])',
            outputs="embedding",
            pairs=True,
        ),
        TaskRow(
            "AlbertTokenClassifier",
            "token_classification:TokenClassifierGraph",
            "token-classification",
            'model.tag("a text")',
            outputs="tags",
        ),
    )
}

Writer = Callable[..., Any]

# The functions of `keras_albert.exports` by the argument `format` of `export`. They are
# called with the task, the path and further arguments.
WRITERS = {
    "tf_saved_model": "export_saved_model",
    "onnx": "export_onnx",
    "litert": "export_litert",
    "mediapipe": "export_mediapipe",
    "server": "export_server",
    "transformers_onnx": "export_transformers_onnx",
    "web_page": "export_web_page",
}
_DEFAULT = "tf_saved_model"
# The formats of a suffix, first the default.
_SUFFIXES = {".onnx": ("onnx",), ".tflite": ("litert", "mediapipe")}


def format_of_path(path: Path) -> str:
    """Return the format that the suffix of a path stands for."""
    return _formats_of_path(path)[0]


def _formats_of_path(path: Path) -> tuple[str, ...]:
    return _SUFFIXES.get(path.suffix.lower(), (_DEFAULT,))


def export_writer(name: str) -> Writer:
    """Return the writer of a format, or raise `ValueError` if there is none."""
    if name not in WRITERS:
        raise ValueError(
            f"There is no export format {name!r}. Choose one of: "
            f"{', '.join(sorted(WRITERS))}."
        )
    return resolve_name(f"keras_albert.exports:{WRITERS[name]}")


def check_export_options(name: str, path: Path, options: Iterable[str]) -> None:
    """Check that a format has options, and that a path does not name another one."""
    known = _options(name)
    named = format_of_path(path)
    if named != _DEFAULT and name not in _formats_of_path(path):
        raise argument_error(
            "format",
            f"{path} is named like a file of the format {named!r}, but would be "
            f"written as {name!r}. Pass format={named!r}, or choose another name.",
        )
    for option in options:
        if option in known:
            continue
        others = [each for each in WRITERS if option in _options(each)]
        hint = f" `{option}` is an option of: {', '.join(others)}." if others else ""
        listed = ", ".join(f"`{each}`" for each in known)
        msg = f"{name} has no option `{option}`. It has: {listed}.{hint}"
        raise argument_error(option, msg)


def _options(name: str) -> list[str]:
    """Return the arguments of a writer after the task and the path."""
    return list(inspect.signature(export_writer(name)).parameters)[2:]
