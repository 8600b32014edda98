"""The tables of tasks, a row for each class, and of the formats of `export`."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from keras_albert.utils.arguments import argument_error


class TaskRow(NamedTuple):
    """A class of tasks."""

    name: str
    # Its graph, `module:class`, both in `exports.saved_model` and in `exports.onnx`.
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
            "tasks:ClassifierGraph",
            "text-classification",
            'model.classify("a text")',
            outputs="classes",
            pairs=True,
            ranks="classes",
        ),
        TaskRow(
            "AlbertMaskedLM",
            "tasks:MaskedLMGraph",
            "fill-mask",
            'model.fill_mask("a [MASK] text")',
            outputs="logits",
            pairs=True,
            ranks="tokens",
        ),
        TaskRow(
            "AlbertMultipleChoice",
            "tasks:MultipleChoiceGraph",
            "multiple-choice",
            'model.choose("a context", "a question", ["yes", "no"])',
            outputs="choices",
        ),
        TaskRow(
            "AlbertPretrainer",
            "tasks:PretrainerGraph",
            "fill-mask",
            'model.score_order(["a text"], ["the next"])',
            ranks="tokens",
        ),
        TaskRow(
            "AlbertQuestionAnswerer",
            "documents:QuestionAnswererGraph",
            "question-answering",
            'model.answer("a question", "a context")',
        ),
        TaskRow(
            "AlbertTextEmbedder",
            "tasks:TextEmbedderGraph",
            "sentence-similarity",
            'model.embed(["a text"])',
            outputs="embedding",
            pairs=True,
        ),
        TaskRow(
            "AlbertTokenClassifier",
            "documents:TokenClassifierGraph",
            "token-classification",
            'model.tag("a text")',
            outputs="tags",
        ),
    )
}

Writer = Callable[..., Any]

# The functions that write a model to run it elsewhere, `module:function` of this
# package, by the argument `format` of `export`. They are called with the task, the path
# and options.
WRITERS = {
    "tf_saved_model": "exports.saved_model.export:export_saved_model",
    "onnx": "exports.onnx.export:export_onnx",
    "litert": "exports.litert:export_litert",
    "mediapipe": "exports.litert:export_mediapipe",
    "transformers_onnx": "exports.transformers_onnx:export_transformers_onnx",
    "web_page": "exports.web_page:export_web_page",
}
# The formats of a suffix, first the default.
_SUFFIXES = {".onnx": ("onnx",), ".tflite": ("litert", "mediapipe")}


def format_of_path(path: Path) -> str:
    """Return the format that the suffix of a path stands for."""
    return _SUFFIXES.get(path.suffix.lower(), ("tf_saved_model",))[0]


def export_writer(name: str) -> Writer:
    """Return the writer of a format."""
    return resolve_name(f"keras_albert.{WRITERS[name]}")


def check_export_options(name: str, path: Path, options: Iterable[str]) -> None:
    """Check that a format has options, and that a path does not name another one."""
    named = _SUFFIXES.get(path.suffix.lower(), (name,))
    if name not in named:
        raise argument_error(
            "format",
            f"{path} is named like a file of the format {named[0]!r}, but would be "
            f"written as {name!r}. Pass format={named[0]!r}, or choose another name.",
        )
    # Without the task and the path.
    known = list(inspect.signature(export_writer(name)).parameters)[2:]
    for option in options:
        if option not in known:
            listed = ", ".join(f"`{each}`" for each in known) or "none"
            msg = f"{name} has no option `{option}`. It has: {listed}."
            raise argument_error(option, msg)
