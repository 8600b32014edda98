"""The tables of tasks, a row for each class, and of the formats of `export`.

It imports nothing of the package: the help of the command line reads it without Keras.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

Columns = tuple[str, ...]


class Finetuning(NamedTuple):
    """How `keras-albert finetune` trains a task and evaluates it."""

    # The files that it reads, as the help says.
    files: str
    # Functions of `commands.datasets` and `commands.metrics`.
    read: str
    evaluate: str
    # The metric that determines the best epoch, and "max" or "min".
    monitor: tuple[str, str] = ("val_loss", "min")
    # A function of `metrics` that chooses a setting by a part of the dev file.
    tune: str = ""


class TaskRow(NamedTuple):
    """A class of tasks."""

    name: str
    # Its graph, `module:class`, both in `exports.saved_model` and in `exports.onnx`.
    graph: str
    # The name of the task on hubs, and a line of Python that uses `model`, for cards.
    pipeline_tag: str
    use: str
    # A function of `keras_albert.commands.tasks` that predicts for columns of texts,
    # and the sets of columns that it reads, best first.
    predict: str
    inputs: tuple[Columns, ...]
    # Those of an export that takes ids; none where a text may have several rows.
    id_inputs: tuple[Columns, ...] = ()
    # What the output is: numbers, by the name of their export, or scores, of which one
    # is the best. `None` for several outputs, which have names.
    outputs: Literal["logits", "embedding", "classes", "tags", "choices"] | None = None
    # Whether `text_pair` is an option of an export, and what its `top_k` chooses from.
    pairs: bool = False
    ranks: Literal["classes", "tokens"] | None = None
    # By the names on the command line; if there are two, the second is a regression's.
    finetuning: Mapping[str, Finetuning] = {}


_TEXTS = (("text", "text_pair"), ("text",))
_CHOICES = (("context", "question", "choices"), ("question", "choices"))
_TABLE = "TSV, CSV or JSON lines:"

TASKS = {
    row.name: row
    for row in (
        TaskRow(
            "AlbertClassifier",
            "classification:ClassifierGraph",
            "text-classification",
            'model.classify("a text")',
            "classify",
            _TEXTS,
            _TEXTS,
            outputs="classes",
            pairs=True,
            ranks="classes",
            finetuning={
                "classification": Finetuning(
                    f"{_TABLE} text, optionally text_pair, label",
                    *("read_labels", "evaluate_classes", ("val_accuracy", "max")),
                ),
                "regression": Finetuning(
                    f"{_TABLE} text, optionally text_pair, score",
                    *("read_scores", "evaluate_regression", ("val_rmse", "min")),
                ),
            },
        ),
        TaskRow(
            "AlbertMaskedLM",
            "masked_lm:MaskedLMGraph",
            "fill-mask",
            'model.fill_mask("a [MASK] text")',
            "fill_masks",
            _TEXTS,
            outputs="logits",
            pairs=True,
            ranks="tokens",
            finetuning={
                "masked-lm": Finetuning(
                    "plain text, one paragraph per line; or TSV, CSV, JSON lines: text",
                    *("read_texts", "evaluate_masks"),
                )
            },
        ),
        TaskRow(
            "AlbertMultipleChoice",
            "multiple_choice:MultipleChoiceGraph",
            "multiple-choice",
            'model.choose("a context", "a question", ["yes", "no"])',
            "choose",
            _CHOICES,
            _CHOICES,
            outputs="choices",
            finetuning={
                "multiple-choice": Finetuning(
                    "JSON lines: optionally context, question, choices, answer (number "
                    "or letter)",
                    "read_multiple_choice",
                    "evaluate_choices",
                    ("val_accuracy", "max"),
                )
            },
        ),
        TaskRow(
            "AlbertPretrainer",
            "masked_lm:PretrainerGraph",
            "fill-mask",
            'model.score_order(["a text"], ["the next"])',
            "score_order",
            _TEXTS[:1],
            ranks="tokens",
        ),
        TaskRow(
            "AlbertQuestionAnswerer",
            "question_answering:QuestionAnswererGraph",
            "question-answering",
            'model.answer("a question", "a context")',
            "answer",
            (("question", "context"),),
            finetuning={
                "question-answering": Finetuning(
                    "SQuAD's JSON, 1.1 or 2.0",
                    *("read_questions", "evaluate_answers"),
                    tune="tune_answers",
                )
            },
        ),
        TaskRow(
            "AlbertTextEmbedder",
            "text_embedding:TextEmbedderGraph",
            "sentence-similarity",
            'model.embed(["a text"])',
            "embed",
            _TEXTS,
            _TEXTS[1:],
            outputs="embedding",
            pairs=True,
            finetuning={
                "similarity": Finetuning(
                    f"{_TABLE} text, text_pair, score",
                    *("read_similarity", "evaluate_similarity"),
                )
            },
        ),
        TaskRow(
            "AlbertTokenClassifier",
            "token_classification:TokenClassifierGraph",
            "token-classification",
            'model.tag("a text")',
            "tag",
            _TEXTS[1:],
            outputs="tags",
            finetuning={
                "token-classification": Finetuning(
                    "CoNLL: one word and its tag per line; or JSON lines: words, tags",
                    *("read_tags", "evaluate_entities"),
                )
            },
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
    "mediapipe": "exports.mediapipe:export_mediapipe",
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


def check_export_options(
    name: str, path: Path, options: Iterable[str], spell: Callable[[str], str] = repr
) -> None:
    """Check that a format has options, and that a path does not name another one."""
    named = _SUFFIXES.get(path.suffix.lower(), (name,))
    if name not in named:
        raise ValueError(
            f"{path} is named like a file of the format {named[0]!r}, but would be "
            f"written as {name!r}. Pass format={named[0]!r}, or choose another name."
        )
    # Without the task and the path.
    known = list(inspect.signature(export_writer(name)).parameters)[2:]
    for option in options:
        if option not in known:
            raise ValueError(
                f"{name} has no option {spell(option)}. It has: "
                f"{', '.join(map(spell, known)) or 'none'}."
            )
