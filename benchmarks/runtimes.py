"""Compare a classifier's size, latency and accuracy in all runtimes.

Keras on three backends, float32 and int8, the SavedModel, ONNX Runtime and LiteRT,
float32 and int8, each in a separate process, whose CPU time is measured. They take
turns: in each round each runs all batches once, so that other load on the machine
affects all of them alike. The fastest round counts, because other load only adds to it.
All get the same ids, in
batches of similar length. Accuracy is measured on all sentences of a file in GLUE's
format:

    python benchmarks/runtimes.py --preset PRESET path/to/SST-2/dev.tsv
"""

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

IDS = ("token_ids", "segment_ids", "padding_mask")
BACKENDS = ("tensorflow", "jax", "torch")
# The exported files and the arguments of `export`.
EXPORTS = {
    "SavedModel": ("saved_model", {}),
    "ONNX float32": ("float32.onnx", {"format": "onnx"}),
    "ONNX int8": ("int8.onnx", {"format": "onnx", "quantize": "int8"}),
    "LiteRT float32": ("float32.tflite", {"format": "litert"}),
    "LiteRT float16": ("float16.tflite", {"format": "litert", "quantize": "fp16"}),
    "LiteRT int8": ("int8.tflite", {"format": "litert", "quantize": "dynamic_int8"}),
}
PACKAGES = (
    *("keras", "tensorflow", "jax", "torch", "onnxruntime", "ai-edge-litert"),
    "keras-albert",
)


def read_glue(path, limit):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = rows[:limit]
    return [row["sentence"] for row in rows], [int(row["label"]) for row in rows]


def load_keras(preset, quantize):
    from keras_albert import AlbertClassifier

    classifier = AlbertClassifier.from_preset(preset)
    if quantize:
        classifier.quantize("int8")
    sizes = (np.prod(v.shape) * np.dtype(v.dtype).itemsize for v in classifier.weights)
    return classifier.predict_on_batch, int(sum(sizes))


def load_saved_model(path, threads):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations)

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    model = tf.saved_model.load(str(path / "1"))

    def run(ids):
        tensors = {name: tf.constant(rows) for name, rows in ids.items()}
        return model.signatures["serve_tokens"](**tensors)["logits"].numpy()

    return run


def load_onnx(path, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return lambda ids: session.run(["logits"], ids)[0]


def load_litert(path, threads):
    from ai_edge_litert.interpreter import Interpreter

    run = Interpreter(str(path), num_threads=threads).get_signature_runner()
    return lambda ids: run(**ids)["logits"]


def work(folder, name, threads):
    """Run one runtime: for each input line, run all batches and print the seconds."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    words = name.split()
    if words[0] == "Keras":
        run, size = load_keras(folder / "preset", words[-1] == "int8")
    else:
        load = {"SavedModel": load_saved_model, "ONNX": load_onnx}
        path = folder / EXPORTS[name][0]
        run = load.get(words[0], load_litert)(path, threads)
        files = (path, *path.rglob("*"))
        size = sum(file.stat().st_size for file in files if file.is_file())
    with np.load(folder / "batches.npz") as arrays:
        flat = dict(arrays)
    count = len(flat) // len(IDS)
    batches = [{key: flat[f"{n}/{key}"] for key in IDS} for n in range(count)]
    logits = [np.asarray(run(ids)) for ids in batches]
    np.save(folder / f"{name}.npy", np.concatenate(logits))
    print(f"bytes {size}", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        for ids in batches:
            run(ids)
        print(time.process_time() - start, flush=True)


def start_worker(folder, name, threads):
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
    }
    if name.startswith("Keras"):
        environment["KERAS_BACKEND"] = name.split()[1]
    with (folder / f"{name}.log").open("w") as words:
        worker = subprocess.Popen(
            [
                *(sys.executable, __file__, "--worker", name),
                *("--threads", str(threads), "--folder", str(folder)),
            ],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
        )
    for line in worker.stdout:
        if line.startswith("bytes "):
            return worker, int(line.split()[1])
    print(f"{name} does not run; its last words:")
    print((folder / f"{name}.log").read_text()[-300:])
    worker.communicate()
    return None


def take_turn(worker):
    worker.stdin.write("\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def prepare(folder, preset, texts, batch_size):
    """Write the exports and batches; return the order of texts, and parameters."""
    from keras_albert import AlbertClassifier
    from keras_albert.text.packing import pack_all

    classifier = AlbertClassifier.from_preset(preset)
    classifier.save_to_preset(folder / "preset")
    for path, options in EXPORTS.values():
        classifier.export(folder / path, **options)
    preprocessor = classifier.preprocessor
    order = np.argsort([len(text) for text in texts], kind="stable")
    arrays = {}
    for number, first in enumerate(range(0, len(texts), batch_size)):
        batch = [texts[row] for row in order[first : first + batch_size]]
        ids, _, _ = pack_all(
            preprocessor.encode(batch)[0], preprocessor.padded_length, True
        )
        arrays |= {f"{number}/{key}": ids[key] for key in IDS}
    np.savez(folder / "batches.npz", **arrays)
    return order, classifier.count_params()


def show(rows):
    """Print a Markdown table."""
    print("| runtime | MB | CPU ms a batch | ratio | accuracy | logits within |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dev", type=Path, nargs="?", help="sentences and labels, TSV")
    parser.add_argument("--preset", help="an AlbertClassifier")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=int, help="only so many sentences")
    parser.add_argument("--json", type=Path, help="write the seconds here as well")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        work(arguments.folder, arguments.worker, arguments.threads)
        return
    if arguments.dev is None or arguments.preset is None:
        parser.error("name the dev file, and a --preset")
    texts, labels = read_glue(arguments.dev, arguments.limit)
    with tempfile.TemporaryDirectory() as name:
        compare(Path(name), texts, np.array(labels), arguments)


def compare(folder, texts, labels, arguments):
    order, parameters = prepare(folder, arguments.preset, texts, arguments.batch_size)
    names = [f"Keras {backend}" for backend in BACKENDS]
    names += [f"Keras {backend} int8" for backend in BACKENDS]
    names += EXPORTS
    started = {n: start_worker(folder, n, arguments.threads) for n in names}
    workers = {name: each[0] for name, each in started.items() if each is not None}
    seconds = {name: [] for name in workers}
    for _ in range(arguments.rounds):
        for name, worker in workers.items():
            seconds[name].append(take_turn(worker))
    for worker in workers.values():
        worker.communicate()

    installed = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    print(f"{installed}; {platform.machine()}, {arguments.threads} thread(s)")
    batches = -(-len(texts) // arguments.batch_size)
    print(f"{len(texts)} texts in {batches} batches, {parameters:,} parameters\n")
    logits = {name: np.load(folder / f"{name}.npy") for name in workers}
    exact = next(iter(logits.values()))
    base = min(seconds.get("ONNX float32", next(iter(seconds.values()))))
    rows = []
    for name in workers:
        quickest = min(seconds[name])
        right = logits[name].argmax(axis=-1) == labels[order]
        rows.append(
            (
                name,
                f"{started[name][1] / 1e6:.2f}",
                f"{1000 * quickest / batches:.2f}",
                f"{quickest / base:.2f}",
                f"{right.mean():.2%}",
                f"{np.abs(logits[name] - exact).max():.1e}",
            )
        )
    show(rows)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(seconds) + "\n")


if __name__ == "__main__":
    main()
