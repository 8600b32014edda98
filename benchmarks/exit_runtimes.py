"""Run a classifier with exits in one runtime, on the terms of its benchmark.

    python benchmarks/exit_runtimes.py FOLDER RUNTIME

`early_exits.py` starts it, in a process for each runtime: onnxruntime-extensions and
tensorflow-text contain the same libraries. Each line of the standard input, a batch
size and the number of a rule, is answered by the seconds of all batches.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from side_by_side import CLOCKS

RUNTIMES = ("Keras", "SavedModel", "ONNX")
# The rules of early exits, and their signatures in a SavedModel.
EARLY = {"patience": "serve_early", "threshold": "serve_confident"}


def predict(classifier, columns, **arguments):
    """Return the outputs and depths of texts or pairs, given as one or two columns."""
    x = columns[0] if len(columns) == 1 else tuple(columns)
    return classifier.predict(x, **arguments, return_depths=True, verbose=0)


def model_file(folder, runtime, rule):
    """Return where the model for a rule is; a SavedModel has all but other depths."""
    kind = next(iter(rule), "whole")
    if kind == "num_layers":
        kind = f"layers_{rule[kind]}"
    elif runtime == "SavedModel":
        kind = "whole"
    return folder / (f"{kind}.onnx" if runtime == "ONNX" else kind)


def export(classifier, folder, runtime, rules, is_pair):
    """Write the models that a runtime needs for the rules."""
    for rule in rules if runtime != "Keras" else ():
        path, task = model_file(folder, runtime, rule), classifier
        if path.exists():
            continue
        if "num_layers" in rule:
            task = classifier.without_exits(rule["num_layers"])
        options = {}
        if runtime == "ONNX":
            options = {"format": "onnx", "inputs": "text", "pairs": is_pair}
            if path.stem in EARLY:
                options["early"] = path.stem
        task.export(path, **options)


def load_keras(folder, rules, settings):
    from keras_albert import AlbertClassifier

    classifier = AlbertClassifier.from_preset(settings["preset"])

    def run(rule, columns):
        return predict(classifier, columns, batch_size=len(columns[0]), **rule)

    return run


def load_saved_model(folder, rules, settings):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations)

    paths = {model_file(folder, "SavedModel", rule) for rule in rules}
    models = {path: tf.saved_model.load(str(path / "1")) for path in paths}

    def run(rule, columns):
        inputs = name_inputs(rule, columns)
        name = EARLY.get(next(iter(rule), None), "serve")
        name += "_pair" if "text_pair" in inputs else ""
        name = "serving_default" if name == "serve" else name
        serve = models[model_file(folder, "SavedModel", rule)].signatures[name]
        found = serve(**{key: tf.constant(value) for key, value in inputs.items()})
        outputs = found[settings["output"]].numpy()
        return outputs, found["depth"].numpy() if "depth" in found else None

    return run


def load_onnx(folder, rules, settings):
    import onnxruntime
    import onnxruntime_extensions

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = settings["threads"] or 0
    library = onnxruntime_extensions.get_library_path()
    options.register_custom_ops_library(library)
    paths = {model_file(folder, "ONNX", rule) for rule in rules}
    sessions = {
        path: onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        for path in paths
    }
    dtypes = {"patience": np.int32, "threshold": np.float32, "tolerance": np.float32}

    def run(rule, columns):
        inputs = name_inputs(rule, columns).items()
        inputs = {
            key: np.array(value, dtypes.get(key, object)) for key, value in inputs
        }
        session = sessions[model_file(folder, "ONNX", rule)]
        names = [settings["output"]]
        is_early = not EARLY.keys().isdisjoint(rule)
        found = session.run(names + ["depth"] * is_early, inputs)
        return found[0], found[1] if is_early else None

    return run


def name_inputs(rule, columns):
    """Return the inputs of an exported model for a rule."""
    texts = dict(zip(("text", "text_pair"), columns, strict=False))
    return texts | {key: rule[key] for key in rule if key != "num_layers"}


def work(folder, runtime):
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    loaders = {"Keras": load_keras, "SavedModel": load_saved_model, "ONNX": load_onnx}
    rules, clock = settings["rules"], CLOCKS[settings["clock"]]
    run = loaders[runtime](folder, rules, settings)
    print("ready", flush=True)
    for line in sys.stdin:
        size, number = line.split()
        rule, batches = rules[int(number)], settings["batches"][size]
        start = clock()
        answers = [run(rule, columns) for columns in batches]
        seconds = clock() - start
        path = folder / f"{runtime}_{size}_{number}.npz"
        if not path.exists():
            save_answers(path, answers, rule.get("num_layers", settings["num_layers"]))
        print(seconds, flush=True)


def save_answers(path, answers, num_layers):
    """Write what all batches returned; without depths, all are `num_layers`."""
    outputs = [np.reshape(found, (len(found), -1)) for found, _ in answers]
    depths = [
        np.full(len(found), num_layers) if depth is None else depth
        for found, depth in answers
    ]
    np.savez(path, outputs=np.concatenate(outputs), depths=np.concatenate(depths))


def read_answers(folder, runtime, size, number):
    """Return the outputs and depths of the first run."""
    with np.load(folder / f"{runtime}_{size}_{number}.npz") as arrays:
        return arrays["outputs"], arrays["depths"]


class Worker:
    """A process of one runtime, as a context that ends it."""

    def __init__(self, folder, runtime):
        self.log = folder / f"{runtime}.log"
        with self.log.open("w") as words:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(folder), runtime],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=words,
                text=True,
            )

    def __enter__(self):
        self.process.__enter__()
        # It is ready.
        self._read()
        return self

    def __exit__(self, *error):
        self.process.__exit__(*error)

    def time(self, size, number):
        """Return the seconds of a rule on all batches of a size."""
        self.process.stdin.write(f"{size} {number}\n")
        self.process.stdin.flush()
        return float(self._read())

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"A runtime fails: {self.log.read_text()[-2000:]}")
        return line


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2])
