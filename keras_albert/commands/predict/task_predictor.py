"""Predictions of a task of this package, in Keras."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from keras_albert import tasks
from keras_albert.commands.predict.output_lines import Answer
from keras_albert.commands.predict.predictor import Columns, Predictor
from keras_albert.tasks.classification.exit_rule import read_exit_rule
from keras_albert.tasks.text_embedding.similarities import cosine_scores

_PAIRS = (("text", "text_pair"), ("text",))


def task_predictor(task: Any, batch_size: int, **exits: Any) -> Predictor:
    """Return the predictor of a task, which calls its method with readable answers."""
    if task.preprocessor is None:
        msg = (
            "The model has no preprocessor, and texts are to be read. Save it with one."
        )
        raise ValueError(msg)
    kind = next((kind for kind in _CALLS if isinstance(task, kind)), None)
    if kind is None:
        raise ValueError(f"What to ask of an {type(task).__name__} is not known.")
    inputs, call = _CALLS[kind]
    if exits:
        if kind is not tasks.AlbertClassifier:
            msg = (
                f"An {type(task).__name__} has no exits. Leave out "
                f"{', '.join(sorted(exits))}; `num_layers` runs fewer layers."
            )
            raise ValueError(msg)
        # Before any row is read.
        options = {name: x for name, x in exits.items() if name != "return_depths"}
        read_exit_rule(task, **options)
        call = partial(_classify, **exits)
    return Predictor(inputs, lambda columns: call(task, columns, batch_size))


def _texts(columns: Columns) -> Any:
    pairs = "text_pair" in columns
    return (columns["text"], columns["text_pair"]) if pairs else columns["text"]


def _classify(
    task: Any, columns: Columns, batch_size: int, **exits: Any
) -> list[Answer]:
    answers = task.classify(_texts(columns), batch_size=batch_size, **exits)
    # Multi-label classification returns a list for each text.
    return [row if isinstance(row, dict) else {"labels": row} for row in answers]


def _fill(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    mask = task.preprocessor.tokenizer.mask_token
    if not any(mask in text for texts in columns.values() for text in texts):
        msg = (
            f"No text has a {mask}, and the model fills masks. For labels, train a "
            "head on it first: `keras-albert finetune classification --preset ...`."
        )
        raise ValueError(msg)
    answers = task.fill_mask(_texts(columns), batch_size=batch_size)
    return [{"masks": row} for row in answers]


def _tag(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    answers = task.tag(columns["text"], batch_size=batch_size)
    return [{"entities": row} for row in answers]


def _answer(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    texts = columns["question"], columns["context"]
    answers: list[Answer] = task.answer(*texts, batch_size=batch_size)
    return answers


def _choose(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    texts = columns.get("context"), columns["question"], columns["choices"]
    answers: list[Answer] = task.choose(*texts, batch_size=batch_size)
    return answers


def _embed(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    vectors = task.embed(_texts(columns), batch_size=batch_size)
    if "text_pair" not in columns:
        return [{"embedding": vector} for vector in vectors]
    cosines = keras.ops.convert_to_numpy(cosine_scores(vectors))
    return [{"similarity": cosine} for cosine in cosines[:, 0]]


def _score_order(task: Any, columns: Columns, batch_size: int) -> list[Answer]:
    scores = task.score_order(*_texts(columns), batch_size=batch_size)
    return [{"score": score} for score in scores]


_Call = Callable[[Any, Columns, int], list[Answer]]

_CALLS: dict[type[Any], tuple[tuple[tuple[str, ...], ...], _Call]] = {
    tasks.AlbertClassifier: (_PAIRS, _classify),
    tasks.AlbertMaskedLM: (_PAIRS, _fill),
    tasks.AlbertMultipleChoice: (
        (("context", "question", "choices"), ("question", "choices")),
        _choose,
    ),
    tasks.AlbertPretrainer: ((("text", "text_pair"),), _score_order),
    tasks.AlbertQuestionAnswerer: ((("question", "context"),), _answer),
    tasks.AlbertTextEmbedder: (_PAIRS, _embed),
    tasks.AlbertTokenClassifier: ((("text",),), _tag),
}
