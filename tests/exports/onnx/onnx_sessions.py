"""Running exported models in ONNX Runtime."""

import json
import subprocess
import sys

import numpy as np
import onnxruntime


def export(task, folder, **kwargs):
    """Export a task that takes ids, and load the model, on one thread."""
    path = folder / "model.onnx"
    task.export(path, format="onnx", overwrite=True, **kwargs)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # 3: errors only.
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def run(session, inputs):
    """Return the outputs by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def ask(task, folder, *calls, **kwargs):
    """Export a task that takes texts, and return the outputs or error of each call.

    It runs in a separate process, because onnxruntime-extensions and tensorflow-text
    both contain SentencePiece, and one crashes in a process that has loaded the other.
    """
    path = folder / "model.onnx"
    task.export(path, format="onnx", inputs="text", overwrite=True, **kwargs)
    (folder / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
    subprocess.run([sys.executable, "-c", _PROGRAM, str(folder)], check=True)
    with np.load(folder / "answers.npz", allow_pickle=False) as arrays:
        return [
            {
                key.removeprefix(f"{number}/"): array
                for key, array in arrays.items()
                if key.startswith(f"{number}/")
            }
            for number in range(len(calls))
        ]


_PROGRAM = """
import json, sys
import numpy as np
import onnxruntime
import onnxruntime_extensions
folder = sys.argv[1]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.log_severity_level = 4
options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
session = onnxruntime.InferenceSession(
    folder + "/model.onnx", options, ["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]
ranks = {value.name: len(value.shape) for value in session.get_inputs()}

def read(rows, rank):
    if rows and not isinstance(rows[0], (str, list)):
        return np.array(rows)
    if rank == 2:
        width = len(rows[0]) if rows else 0
        return np.array(rows, object).reshape(len(rows), width)
    if not any("\\udc80" <= sign <= "\\udcff" for text in rows for sign in text):
        return np.array(rows, object)
    # Bytes that are not UTF-8.
    return np.array([text.encode("utf-8", "surrogateescape") for text in rows])

answers = {}
with open(folder + "/calls.json", encoding="utf-8") as file:
    calls = json.load(file)
for number, inputs in enumerate(calls):
    feed = {name: read(rows, ranks[name]) for name, rows in inputs.items()}
    try:
        outputs = dict(zip(names, session.run(names, feed)))
    except Exception as error:
        outputs = {"error": np.array(str(error))}
    for name, array in outputs.items():
        if array.dtype == object:
            array = array.astype(str)
        answers[f"{number}/{name}"] = array
assert not {"keras", "keras_albert", "tensorflow"} & set(sys.modules)
np.savez(folder + "/answers.npz", **answers)
"""
