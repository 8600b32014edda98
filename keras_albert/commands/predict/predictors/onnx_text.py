"""Predictions of an ONNX model that takes texts."""

from keras_albert.commands.predict.output_lines import Answer
from keras_albert.commands.predict.predictors.base import (
    Columns,
    Predictor,
    by_length,
    fill_up,
    rows_of_outputs,
)
from keras_albert.commands.predict.predictors.onnx_process import OnnxProcess


class OnnxTextPredictor(Predictor):
    """An ONNX model that includes the tokenizer.

    Args:
        process: The model.
        batch_size: int. The maximum number of rows in a batch.
    """

    def __init__(self, process: OnnxProcess, batch_size: int) -> None:
        self._process, self._batch_size = process, batch_size
        self.inputs = (process.columns,)

    def predict(self, columns: Columns) -> list[Answer]:
        """Predict for some rows."""
        return by_length(columns, self._batch_size, self._run)

    def _run(self, columns: Columns) -> list[Answer]:
        if "choices" in columns:
            columns = columns | {"choices": fill_up(columns["choices"])}
        return rows_of_outputs(self._process.run(columns))

    def close(self) -> None:
        """End the process of the model."""
        self._process.close()
