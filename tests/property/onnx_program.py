"""Runs an ONNX model on texts, in a process that loads no other SentencePiece."""

import sys
from functools import cache

import numpy as np

from tests.property.programs import answer_lines


@cache
def _session(path):
    # Not imported in the tests' own process, which collects this file: the extensions
    # crash beside tensorflow-text.
    import onnxruntime
    import onnxruntime_extensions

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def answer(question):
    """Return the outputs of a model, `(path, inputs)`, by their names."""
    path, inputs = question
    session = _session(path)
    names = [output.name for output in session.get_outputs()]
    texts = {name: np.array(rows, object) for name, rows in inputs.items()}
    outputs = session.run(names, texts)
    assert not {"keras_albert", "tensorflow"} & set(sys.modules)
    return {name: x.tolist() for name, x in zip(names, outputs, strict=True)}


if __name__ == "__main__":
    answer_lines(answer)
