"""Predictions of a SavedModel, in TensorFlow."""

from pathlib import Path
from typing import Any

from keras_albert.commands.predict.output_lines import Answer
from keras_albert.commands.predict.predictors.base import (
    Columns,
    Predictor,
    by_length,
    fill_up,
    rows_of_outputs,
)
from keras_albert.serving.saved_model.export import served_versions
from keras_albert.utils.packages import check_packages

_NAMES = {"text", "text_pair", "context", "question", "choices"}


class SavedModelPredictor(Predictor):
    """An export for TensorFlow Serving.

    Args:
        path: Path. The directory of a version, or of versions: the highest is used.
        batch_size: int. The maximum number of rows in a batch.
        signature: string. The signature to run. Defaults to `None`, the one that reads
            most of the file's columns.

    Raises:
        ImportError: If tensorflow-text is not installed.
        ValueError: If TensorFlow cannot load it, there is no such signature, or none
            reads texts.
    """

    def __init__(
        self, path: Path, batch_size: int, signature: str | None = None
    ) -> None:
        check_packages(
            "A SavedModel", "tensorflow-text", "tensorflow", "tensorflow_text"
        )
        import tensorflow as tf  # noqa: PLC0415  (an extra)
        import tensorflow_text  # noqa: F401, PLC0415  (its operations)

        try:
            # Its functions work only as long as this object exists.
            self._model = tf.saved_model.load(str(version_of(path)))
        except (tf.errors.OpError, OSError) as error:
            reason = str(error).partition("\n")[0]
            msg = f"TensorFlow cannot load {path}: {reason}. Copy or export it again."
            raise ValueError(msg) from error
        self._functions = _functions_by_inputs(self._model.signatures, signature)
        if not self._functions:
            known = ", ".join(sorted(self._model.signatures))
            msg = f"{path} has no such signature that reads texts. It has: {known}."
            raise ValueError(msg)
        self.inputs = sorted(self._functions, key=len, reverse=True)
        self._batch_size = batch_size

    def predict(self, columns: Columns) -> list[Answer]:
        """Predict for some rows."""
        return by_length(columns, self._batch_size, self._run)

    def _run(self, columns: Columns) -> list[Answer]:
        import tensorflow as tf  # noqa: PLC0415  (an extra)

        function = self._functions[tuple(columns)]
        tensors = {
            name: tf.constant(
                fill_up(texts) if name == "choices" else texts, dtype=tf.string
            )
            for name, texts in columns.items()
        }
        outputs = function(**tensors)
        return rows_of_outputs({name: x.numpy() for name, x in outputs.items()})


def version_of(path: Path) -> Path:
    """Find the directory of the graph: `path`, or its highest version.

    Args:
        path: Path. A directory.

    Returns:
        The directory of the version; `path` itself if there is none.
    """
    if (path / "saved_model.pb").is_file():
        return path
    below = served_versions(path).values()
    return [path, *(p for p in below if (p / "saved_model.pb").is_file())][-1]


def _functions_by_inputs(
    signatures: Any, wanted: str | None
) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    # Among signatures with the same inputs, the servers' default comes first.
    for name in sorted(signatures, key=lambda name: (name != "serving_default", name)):
        function = signatures[name]
        specs = function.structured_input_signature[1]
        if wanted in (None, name) and set(specs) <= _NAMES:
            order = tuple(sorted(specs, key="context question text choices".find))
            found.setdefault(order, function)
    return found
