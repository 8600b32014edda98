"""An exported classifier in ONNX Runtime, float32 and int8, beside Keras.

All in one process and in turns, round after round, so that what else the machine does
falls on all of them alike; each shows its quickest round, since others only add to it.
Accuracy is that of every sentence of a file in GLUE's format:

    KERAS_BACKEND=torch python benchmarks/onnx_runtime.py PRESET path/to/SST-2/dev.tsv
"""

import argparse
import csv
import os
import platform
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime

import keras_albert
from keras_albert import AlbertClassifier
from keras_albert.text.examples import pack_all


def read_glue(path):
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["sentence"] for row in rows], [int(row["label"]) for row in rows]


def pack(classifier, texts, batch_size):
    """Batches of the texts in their order, padded to one length, as ids."""
    examples, _ = classifier.preprocessor.encode(texts)
    ids = pack_all(examples, classifier.preprocessor.padded_length, True)[0]
    return [
        {name: rows[first : first + batch_size] for name, rows in ids.items()}
        for first in range(0, len(texts), batch_size)
    ]


def open_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("preset", help="an AlbertClassifier")
    parser.add_argument("dev", type=Path, help="sentences and labels, tab-separated")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    classifier = AlbertClassifier.from_preset(arguments.preset)
    texts, labels = read_glue(arguments.dev)
    batches = pack(classifier, texts, arguments.batch_size)

    folder = Path(tempfile.mkdtemp())
    sizes = {f"Keras, {keras.config.backend()}": 4 * classifier.count_params()}
    runners = {next(iter(sizes)): classifier.predict_on_batch}
    for name, quantize in (("ONNX float32", None), ("ONNX int8", "int8")):
        path = folder / f"{quantize}.onnx"
        classifier.export(path, format="onnx", quantize=quantize)
        sizes[name] = path.stat().st_size
        session = open_session(path, arguments.threads)
        runners[name] = lambda ids, run=session.run: run(["logits"], ids)[0]

    logits = {
        name: np.concatenate([keras.ops.convert_to_numpy(run(ids)) for ids in batches])
        for name, run in runners.items()
    }
    seconds = {name: [] for name in runners}
    for _ in range(arguments.rounds):
        for name, run in runners.items():
            start = time.perf_counter()
            for ids in batches:
                run(ids)
            seconds[name].append(time.perf_counter() - start)

    parts = (keras_albert, keras, onnx, onnxruntime)
    versions = ", ".join(f"{part.__name__} {part.__version__}" for part in parts)
    print(f"{versions}, {platform.processor()}, {os.cpu_count()} cores")
    print(f"{len(texts)} texts in batches of {arguments.batch_size}")
    exact = next(iter(logits.values()))
    base = min(seconds["ONNX float32"])
    for name, run_logits in logits.items():
        accuracy = np.mean(run_logits.argmax(axis=-1) == labels)
        difference = np.abs(run_logits - exact).max()
        time_each = 1000 * min(seconds[name]) / len(batches)
        print(
            f"{name:18} {sizes[name] / 1e6:6.2f} MB  {time_each:7.2f} ms a batch  "
            f"{time_each * len(batches) / 1000 / base:5.2f}x  accuracy {accuracy:.2%}  "
            f"logits within {difference:.1e} of Keras"
        )


if __name__ == "__main__":
    main()
