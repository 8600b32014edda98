"""Predictions of an ONNX or LiteRT model that takes token ids."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_albert import tasks
from keras_albert.commands.predict.output_lines import Answer
from keras_albert.commands.predict.predictors.base import (
    Columns,
    Predictor,
    by_length,
    rows_of_outputs,
)
from keras_albert.tasks.inputs.preprocessed_inputs import ID_NAMES
from keras_albert.text.packing.examples import pack_all

Run = Callable[[dict[str, Any]], dict[str, Any]]

# Tasks with one row per text; others would have to combine windows of a text.
_ROWS: dict[str, tuple[tuple[str, ...], ...]] = {
    "AlbertClassifier": (("text", "text_pair"), ("text",)),
    "AlbertTextEmbedder": (("text",),),
    "AlbertMultipleChoice": (
        ("context", "question", "choices"),
        ("question", "choices"),
    ),
}


class TokenPredictor(Predictor):
    """A model that takes token ids, with the preprocessor of a preset.

    Args:
        run: Callable from ids to outputs, arrays by name.
        task: string. The name of the task's class.
        labels: The names of its classes; may be empty.
        preset: string. The preset with the preprocessor, as `from_preset` takes it.
        sequence_length: int or `None`. The length of rows, if the model has a fixed
            one.
        batch_size: int. The maximum number of rows in a batch.
        close: Callable. Ends the model. Defaults to a function that does nothing.

    Raises:
        ValueError: If the task is not supported.
    """

    def __init__(
        self,
        run: Run,
        task: str,
        labels: Sequence[str],
        preset: str,
        sequence_length: int | None,
        batch_size: int,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        if task not in _ROWS:
            msg = (
                f"The ids that a {task or 'model of another program'} takes are not "
                "made here. Ask the preset itself, its SavedModel, or what "
                "`keras-albert export --format onnx --inputs text` wrote."
            )
            raise ValueError(msg)
        self.inputs = _ROWS[task]
        self._preprocessor = getattr(tasks, task).preprocessor_cls.from_preset(
            preset,
            **({} if sequence_length is None else {"sequence_length": sequence_length}),
        )
        self._run_ids, self._labels = run, labels
        self._batch_size, self._close = batch_size, close

    def predict(self, columns: Columns) -> list[Answer]:
        """Predict for some rows."""
        return by_length(columns, self._batch_size, self._run)

    def _run(self, columns: Columns) -> list[Answer]:
        texts: tuple[Any, ...] = tuple(columns.values())
        x = texts if len(texts) > 1 else texts[0]
        examples, _ = self._preprocessor.encode_for("prediction", x)
        packed = pack_all(examples, self._preprocessor.padded_length, True)[0]
        rows = rows_of_outputs(self._run_ids({name: packed[name] for name in ID_NAMES}))
        if self._labels:
            for row in rows:
                row["label"] = self._labels[int(row["index"])]
        return rows

    def close(self) -> None:
        """End the model."""
        self._close()
