"""A program that runs an ONNX model on JSON lines.

    python onnx_program.py MODEL

It is run by its path, not as a module of the package: onnxruntime-extensions and
tensorflow-text both include SentencePiece, and one of them crashes in a process that
has loaded the other. The first output line describes the model; each input line
contains inputs by name, and is answered by a line of outputs by name or an `error`.
"""

import json
import sys
from importlib.util import find_spec

import numpy as np
import onnxruntime

_DTYPES = {"tensor(string)": object, "tensor(float)": np.float32}


def open_session(path: str) -> onnxruntime.InferenceSession:
    """Load a model, with the text operations if they are installed."""
    options = onnxruntime.SessionOptions()
    # Log only fatal errors (4); others are returned as an `error`.
    options.log_severity_level = 4
    if find_spec("onnxruntime_extensions") is not None:
        from onnxruntime_extensions import get_library_path  # noqa: PLC0415

        options.register_custom_ops_library(get_library_path())
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def answer(session: onnxruntime.InferenceSession, line: str) -> str:
    """Run one request."""
    kinds = {
        value.name: _DTYPES.get(value.type, np.int32) for value in session.get_inputs()
    }
    names = [value.name for value in session.get_outputs()]
    try:
        inputs = {
            name: np.array(rows, kinds[name]) for name, rows in json.loads(line).items()
        }
        outputs = session.run(names, inputs)
    except Exception as error:
        return json.dumps({"error": str(error)})
    return json.dumps({n: x.tolist() for n, x in zip(names, outputs, strict=True)})


def main() -> None:
    """Answer each line of the standard input."""
    try:
        session = open_session(sys.argv[1])
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    metadata = session.get_modelmeta().custom_metadata_map
    columns = [value.name for value in session.get_inputs()]
    print(json.dumps({"metadata": metadata, "columns": columns}), flush=True)
    for line in sys.stdin:
        print(answer(session, line), flush=True)


if __name__ == "__main__":
    main()
