"""Run as a program: an ONNX model that reads and writes JSON lines.

    python onnx_program.py MODEL

By its path, not as a module of the package: onnxruntime-extensions and tensorflow-text
both bring SentencePiece along, and one of them crashes in a process that has loaded the
other. The first line that it writes says what the model is; each line that it reads
holds inputs by name, and is answered with outputs by name or an `error`.
"""

import json
import sys
from importlib.util import find_spec

import numpy as np
import onnxruntime


def open_session(path: str) -> onnxruntime.InferenceSession:
    """Load a model, with the operations on texts where they are installed."""
    options = onnxruntime.SessionOptions()
    # 4: what is fatal. All else is told as an `error`.
    options.log_severity_level = 4
    if find_spec("onnxruntime_extensions") is not None:
        from onnxruntime_extensions import get_library_path  # noqa: PLC0415

        options.register_custom_ops_library(get_library_path())
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def answer(session: onnxruntime.InferenceSession, line: str) -> str:
    """Run a request."""
    kinds = {value.name: value.type for value in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    try:
        inputs = {
            name: np.array(rows, object if "string" in kinds[name] else np.int32)
            for name, rows in json.loads(line).items()
        }
        outputs = session.run(names, inputs)
    except Exception as error:
        return json.dumps({"error": str(error)})
    return json.dumps({n: x.tolist() for n, x in zip(names, outputs, strict=True)})


def main() -> None:
    """Answer lines until there are no more."""
    try:
        session = open_session(sys.argv[1])
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    metadata = session.get_modelmeta().custom_metadata_map
    columns = [value.name for value in session.get_inputs()]
    print(json.dumps({"columns": columns, "metadata": metadata}), flush=True)
    for line in sys.stdin:
        print(answer(session, line), flush=True)


if __name__ == "__main__":
    main()
