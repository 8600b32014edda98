"""
Title: Serve strings with SavedModel, ONNX and LiteRT
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Export one classifier in three formats, serve it and compare the answers.
Accelerator: None
"""

"""
## Introduction

A model that is trained on tokens has to be served with its tokenizer. With
another version of the tokenizer, or without lowercasing, the ids differ and the
predictions are worse, without any error. The usual solution is to rewrite the
preprocessing for each server.

An exported ALBERT takes strings. ALBERT's text rules (lower case, accents,
spaces) are part of the vocabulary, and the vocabulary is part of the graph.
This tutorial exports a classifier as

| format | for | inputs |
|---|---|---|
| SavedModel | TensorFlow Serving, any program with TensorFlow | strings |
| ONNX | ONNX Runtime, without TensorFlow | strings, or ids |
| LiteRT | phones and small devices | ids |

and runs each of them outside Keras: the SavedModel in an HTTP server
with TensorFlow Serving's interface, the ONNX model in a program that imports
neither Keras nor `keras_albert`, and the LiteRT file in its interpreter. All
answers are compared with Keras'.
"""

"""
## Setup

The package is installed with
`pip install "keras-albert[tensorflow,onnx,litert,serve,examples]"`. The model
may be trained on any backend. SavedModels and LiteRT files are written by
TensorFlow, in a separate process. No network is needed: the preset
`albert_tiny_en_uncased` is part of the package.
"""

import csv
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile

import keras
import matplotlib.pyplot as plt
import numpy as np
from ai_edge_litert.interpreter import Interpreter
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_albert
from keras_albert import exports

keras.utils.set_random_seed(0)
preset = "albert_tiny_en_uncased"
epochs = 3
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
folder = pathlib.Path(tempfile.mkdtemp())

"""
## A model to serve

The classifier finds the subject of messages to the support desk of a shop: six
classes, 960 messages to train and 240 to validate, written for this project until
TF-IDF reached about 85%.

A bag of words (TF-IDF) with logistic regression is the baseline. It is also easy to
serve, so serve ALBERT only if it is more accurate.
"""

with open(data_path / "support_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]
train_count = len(rows) - len(rows) // 5
train_texts, validation_texts = texts[:train_count], texts[train_count:]
train_labels, validation_labels = labels[:train_count], labels[train_count:]

classifier = keras_albert.AlbertClassifier.from_preset(
    preset, labels=sorted(set(labels))
)
classifier.compile(learning_rate=5e-4)
history = classifier.fit(
    train_texts,
    train_labels,
    batch_size=32,
    epochs=epochs,
    validation_data=(validation_texts, validation_labels),
    verbose=2,
)
bag_of_words = make_pipeline(
    TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    LogisticRegression(C=10, max_iter=2000),
)
bag_of_words.fit(train_texts, train_labels)
accuracy = bag_of_words.score(validation_texts, validation_labels)
print(f"TF-IDF: {accuracy:.1%}, ALBERT: {history.history['val_accuracy'][-1]:.1%}")

"""
Compare both before you serve the larger one. On these messages a bag of words is
accurate, since each subject has its own words; with 100 labels instead of 960, an
encoder is far ahead ([few labels](../tasks/few_labels.md)). The rest of this tutorial
does not depend on the result.

These messages test the exports. They have capitals, accents, an emoji, several
spaces, and one is empty. The answers to the first two are equal: the text rules
convert both to the same text.
"""

requests = [
    "Where is my parcel?",
    "WHERE  IS  MY  PARCEL?",
    "The café app crashes since the update 😡",
    "Thank you, Zoë was wonderful!",
    "I want to return the shoes, they don't fit.",
    "",
]
expected = keras.ops.softmax(classifier.predict(requests, verbose=0))
expected = keras.ops.convert_to_numpy(expected)
for text, answer in zip(requests, classifier.classify(requests)):
    print(f"{answer['label']:>10} {answer['score']:.4f}  {text}")

"""
## A SavedModel for TensorFlow Serving

`export()` writes version 1, 2, and so on, each in a directory with its number.
A server that watches the parent directory loads the highest version. The graph
has only operations that a standard TensorFlow Serving contains.
"""

path = classifier.export(folder / "served" / "messages")
print(path.relative_to(folder))

"""
`verify()` loads the export as a server does, in a process without Keras,
replays the requests that the export stores for warming up, and compares the
answers. It also returns the signatures, and an example request for each.
"""

verified = exports.verify(path)
print(f"{len(verified.operations)} operations, {verified.requests} requests replayed")
for name, signature in verified.signatures.items():
    print(f"{name:16} {', '.join(signature.inputs)} -> {', '.join(signature.outputs)}")

"""
## A REST request

TensorFlow Serving itself is started with Docker:

```shell
docker run --rm -p 8501:8501 -v "$PWD/served/messages:/models/messages" \
    -e MODEL_NAME=messages tensorflow/serving
```

`keras-albert serve` has the same interface, and needs no Docker. The next cell
starts it on a free port, sends a request, and stops it. The request and the
answer are the same with TensorFlow Serving.
"""

body = json.dumps({"instances": requests})
print(f"curl -d '{json.dumps({'instances': requests[:1]})}' \\")
print("    http://localhost:8501/v1/models/messages:predict\n")


def ask_server(model, body):
    command = [sys.executable, "-m", "keras_albert", "serve", str(model)]
    command += ["--port", "0", "--name", "messages"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **streams) as server:
        try:
            started = next(line for line in server.stdout if "serving on" in line)
            host = started.split()[2].rstrip(";").removeprefix("http://")
            connection = http.client.HTTPConnection(host, timeout=60)
            connection.request("POST", "/v1/models/messages:predict", body)
            answer = json.load(connection.getresponse())
        finally:
            server.terminate()
    return answer["predictions"]


predictions = ask_server(path, body)
print(json.dumps(predictions[0], indent=2))
probabilities = {
    "SavedModel, over HTTP": [prediction["probabilities"] for prediction in predictions]
}

"""
## ONNX, without TensorFlow

With `inputs="text"` the ONNX graph contains the tokenizer, as an operation of
onnxruntime-extensions. `quantize="int8"` stores the matrices in one byte per
number, and the file has a quarter of the size.
"""

for name, settings in (
    ("messages.onnx", {}),
    ("messages_int8.onnx", {"quantize": "int8"}),
):
    classifier.export(folder / name, format="onnx", inputs="text", **settings)

"""
This is a complete client. It runs in a separate process, because the
tokenizers of onnxruntime-extensions and of TensorFlow must not be loaded into
the same one.
"""

client = """
import json, sys
import numpy as np
import onnxruntime
from onnxruntime_extensions import get_library_path

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
session = onnxruntime.InferenceSession(sys.argv[1], options)
texts = np.array(json.load(sys.stdin))
labels, probabilities = session.run(["label", "probabilities"], {"text": texts})
print(json.dumps([labels.tolist(), probabilities.tolist()]))
print([name for name in ("keras", "tensorflow") if name in sys.modules])"""

for name in ("messages.onnx", "messages_int8.onnx"):
    finished = subprocess.run(
        [sys.executable, "-c", client, str(folder / name)],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=True,
    )
    answer, imported = finished.stdout.splitlines()
    print(f"{name}: {json.loads(answer)[0]}, imported: {imported}")
    format_name = "ONNX int8" if "int8" in name else "ONNX"
    probabilities[format_name] = json.loads(answer)[1]

"""
## LiteRT

A LiteRT file takes ids, because its runtime has no operations for strings. The
program on the device tokenizes with SentencePiece, and with the vocabulary of
the preset; here the preprocessor does it. The text rules are in the vocabulary,
so the ids are the same.
"""

classifier.export(folder / "messages.tflite", format="litert")
inputs = classifier.preprocessor(requests)
run_litert = Interpreter(str(folder / "messages.tflite")).get_signature_runner()
inputs = {name: np.asarray(value, "int32") for name, value in inputs.items()}
probabilities["LiteRT"] = run_litert(**inputs)["probabilities"]

"""
## Compare the answers

The float32 formats differ only because they add in another order.
int8 has rounded weights, so its probabilities differ in the second or third
decimal place.
"""

print(f"{'':24}{'largest difference':>20}{'same labels':>14}")
for name, found in probabilities.items():
    difference = np.abs(np.array(found) - expected).max()
    same = np.mean(np.argmax(found, -1) == expected.argmax(-1))
    print(f"{name:24}{difference:20.1e}{same:14.0%}")

"""
## Size

Each weight is stored once, at any depth: the layers of ALBERT share their
weights. In the SavedModel and the LiteRT file they are a loop; the ONNX graph
repeats the operations of a layer, which refer to the same weights.
"""


def megabytes(path):
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


sizes = {
    "SavedModel": megabytes(path),
    "ONNX": megabytes(folder / "messages.onnx"),
    "ONNX int8": megabytes(folder / "messages_int8.onnx"),
    "LiteRT": megabytes(folder / "messages.tflite"),
}
figure, axes = plt.subplots(figsize=(5, 2.2))
bars = axes.barh(list(sizes), list(sizes.values()))
axes.bar_label(bars, fmt="%.1f", padding=3)
weights = classifier.count_params() * 4 / 1e6
axes.axvline(weights, color="gray", linestyle=":")
axes.set_xlabel("megabytes; dotted: the weights in float32")
axes.set_xlim(0, 1.2 * max(sizes.values()))
axes.invert_yaxis()
figure.tight_layout()
plt.show()

"""
The speed of the formats depends on the processor. The page on
[serving](../serving.md) has a table for one, with the command that measures it on
yours.

At full size, the calls are the same: the 12 million parameters of ALBERT base are
47 megabytes in float32, and a quarter of it in int8. Exporting needs no GPU.

## Conclusion

One line exports a fine-tuned model to each format. The labels stay the same, and the
probabilities too: up to rounding in float32, and to three thousandths in int8.

What to try next:

- The other tasks: a question answerer takes `question` and `context` of any
  length, a token classifier returns entities with their offsets. Their exports
  contain the windows.
- `classifier.export(..., top_k=3)`, and `serve_document`, the signature for
  texts of any length.
- gRPC requests: `verified.grpc` has an example for each signature.
- The command line: `keras-albert export`, `keras-albert verify`, and
  `keras-albert predict`, which applies a preset or an export to a file.
- `format="litert", quantize="dynamic_int8"`, for a quarter of the size.
"""
