"""Runs an ONNX model on texts, where no other SentencePiece is loaded."""

import sys

import numpy as np
import onnxruntime
import onnxruntime_extensions

from tests.property.programs import answer_lines

_SESSIONS = {}


def answer(question):
    """Give the outputs of a model, `(path, inputs)`, by their names."""
    path, inputs = question
    if path not in _SESSIONS:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        _SESSIONS[path] = onnxruntime.InferenceSession(
            path, options, ["CPUExecutionProvider"]
        )
    session = _SESSIONS[path]
    names = [output.name for output in session.get_outputs()]
    texts = {name: np.array(rows, object) for name, rows in inputs.items()}
    outputs = session.run(names, texts)
    return {name: x.tolist() for name, x in zip(names, outputs, strict=True)}


if __name__ == "__main__":
    answer_lines(answer)
    assert not {"keras_albert", "tensorflow"} & set(sys.modules)
