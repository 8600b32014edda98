"""A program that writes the SavedModel of a preset.

KERAS_BACKEND=tensorflow python -m keras_albert.exports.saved_model.write \
    FROM TO OPTIONS
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_albert.exports.replay_program import (
    WARM_UP_FILE,
    PredictionLog,
    describe,
    input_specs,
)
from keras_albert.exports.shared import graph_class
from keras_albert.tasks.presets import load_saved_task
from keras_albert.text.packing import SpecialIds
from keras_albert.utils.environment import versions
from keras_albert.utils.reading import write_json

_SHORT = b"A short text, with a [MASK] in it."
_WORDS = len(_SHORT.split())


def write_saved_model(
    preset: str,
    target: str,
    max_length: int | None = None,
    top_k: int | None = None,
    manifest: dict[str, Any] | None = None,
) -> None:
    """Write the SavedModel of a preset."""
    task = load_saved_task(preset)
    if max_length is not None:
        task.preprocessor.sequence_length = None
        task.preprocessor.max_sequence_length = max_length
    graph = graph_class(task, "saved_model")(task, top_k)
    # Each is traced once: for a function, saving would trace it again.
    signatures = {
        name: function.get_concrete_function()
        for name, function in graph.signatures().items()
    }
    # Nothing is trained on a server, and tracing gradients takes half the time or more.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(graph.module, target, signatures, options)
    folder = Path(target, "assets.extra")
    folder.mkdir()
    described = (manifest or {}) | {
        "signatures": describe(signatures),
        "written_with": versions("tensorflow", "tensorflow-text"),
    }
    write_json(folder / "manifest.json", described)
    if hasattr(task, "class_names"):
        lines = "".join(f"{name}\n" for name in task.class_names)
        (folder / "labels.txt").write_text(lines, encoding="utf-8")
    longest = task.preprocessor.max_length
    _write_warm_up(folder / WARM_UP_FILE, signatures, longest, graph.special)


def _write_warm_up(
    path: Path, signatures: Mapping[str, Any], max_length: int, special: SpecialIds
) -> None:
    """Run each signature on two short texts and a long one, and write the requests."""
    # Source: [SavedModel
    # warm-up](https://www.tensorflow.org/tfx/serving/saved_model_warmup).
    with tf.io.TFRecordWriter(str(path)) as writer:
        for name, function in signatures.items():
            for rows, length in ((2, 8), (1, max_length)):
                inputs = {
                    key: _make_input(spec, rows, min(length, max_length), special)
                    for key, spec in input_specs(function).items()
                }
                log = PredictionLog()
                request, response = log.predict_log.request, log.predict_log.response
                request.model_spec.signature_name = name
                for key, array in inputs.items():
                    request.inputs.add(key=key, value=tf.make_tensor_proto(array))
                for key, tensor in function(**inputs).items():
                    response.outputs.add(key=key, value=tf.make_tensor_proto(tensor))
                writer.write(log.SerializeToString())


def _make_input(spec: Any, rows: int, length: int, special: SpecialIds) -> Any:
    rank = spec.shape.rank
    if spec.dtype.name == "string":
        # A word has at least one token, so that the long text fills a row.
        text = _SHORT if rows > 1 else b" ".join([_SHORT] * (1 + length // _WORDS))
        return np.full((rows, 2)[:rank], text, object)
    row = np.ones(length, np.int32)
    if spec.name == "token_ids":
        row[0], row[-1] = special.cls, special.sep
    elif spec.name == "segment_ids":
        row[:] = 0
    return np.tile(row, (rows, *[2] * (rank - 2), 1))


if __name__ == "__main__":
    source, destination, options = sys.argv[1:]
    write_saved_model(source, destination, **json.loads(options))
