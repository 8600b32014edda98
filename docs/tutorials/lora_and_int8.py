"""
Title: LoRA and int8 with ALBERT
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Train a small part of the weights, store it apart, and quantize the rest.
Accelerator: None
"""

"""
## Introduction

A fine-tuned model has as many weights as the pretrained one. For one task this does
not matter. Fifty customers with a classifier each need fifty copies on disk, and in
the memory of the server. This tutorial shows two remedies:

- **LoRA** ([Hu et al., 2021](https://arxiv.org/abs/2106.09685)) leaves the
  pretrained weights unchanged, and trains a small addition to some of the
  matrices. A matrix `W` of 256 x 256 numbers becomes `W + A @ B`, where `A` is
  256 x 8 and `B` is 8 x 256: 4,096 numbers instead of 65,536. `B` starts with
  zeros, so that training starts from the pretrained model.
- **int8** stores each weight in one byte instead of four, with a scale per
  column.

In ALBERT, LoRA is smaller than in other encoders. All layers apply the same
block, so one addition to its matrices changes every layer: a BERT with 12 layers
needs 12 pairs of `A` and `B` for each matrix, an ALBERT one.

The tutorial trains the same classifier three times: all weights, LoRA, and the
head alone, and compares accuracy, trained weights and stored bytes.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or with
`tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the preset `albert_tiny_en_uncased`, one
block in a loop of four layers, is part of the package.
"""

import csv
import pathlib
import tempfile
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_albert

preset = "albert_tiny_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
folder = pathlib.Path(tempfile.mkdtemp())

"""
## The data and two baselines

`transfer_messages.tsv` contains 1,200 messages of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0): 120 of each of its ten
classes about transfers, such as pending, failed and declined ones. The last fifth, 240
messages, is the validation set.

The first baseline is the accuracy of the most frequent class, the second a
bag of words: counts of words and pairs of words (TF-IDF), and logistic regression.
"""

with open(data_path / "transfer_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]
class_names = tuple(sorted(set(labels)))
train_count = len(rows) - len(rows) // 5
validation = texts[train_count:], labels[train_count:]
texts, labels = texts[:train_count], labels[:train_count]

bag_of_words = make_pipeline(
    TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    LogisticRegression(C=10, max_iter=2000),
)
bag_of_words.fit(texts, labels)
baseline = bag_of_words.score(*validation)
largest_class = max(validation[1].count(name) for name in class_names)
print(f"one class: {largest_class / len(validation[1]):.1%}")
print(f"TF-IDF: {baseline:.1%}")

"""
## One function, three ways to train

Each way is a change to the classifier before `compile()`. `compile()` must be
called after it, because the optimizer keeps a list of the weights that it
changes. The rate of LoRA and of the head is higher than in full fine-tuning, since
fewer weights have to change more.
"""

results = {}


def train(name, prepare, learning_rate, epochs=3):
    keras.utils.set_random_seed(0)
    classifier = keras_albert.AlbertClassifier.from_preset(preset, labels=class_names)
    prepare(classifier)
    classifier.compile(learning_rate=learning_rate)
    started = time.perf_counter()
    history = classifier.fit(
        texts,
        labels,
        batch_size=16,
        epochs=epochs,
        validation_data=validation,
        verbose=2,
    )
    scores = classifier.evaluate(*validation, return_dict=True, verbose=0)
    results[name] = {
        "accuracy": scores["accuracy"],
        "trained": sum(int(np.prod(v.shape)) for v in classifier.trainable_weights),
        "seconds": time.perf_counter() - started,
        "history": history.history["val_accuracy"],
    }
    return classifier


"""
Full fine-tuning trains all weights, with the default rate:
"""

full = train("all weights", lambda classifier: None, learning_rate=None)

"""
The head alone: the encoder is frozen, and its outputs are features. This is the least
that can be trained, and usually the least accurate. The input of the head is
`pooled_output`, and how well it represents the subject of a text depends on the
pretraining: the pooler of the released ALBERT models was trained to predict the order
of sentences. Another feature of a frozen encoder is the mean of all tokens, which
`fit(method="linear")` reads ([a tutorial](hundred_labels.py)).
"""


def freeze(classifier):
    classifier.backbone.trainable = False


head = train("head alone", freeze, learning_rate=3e-3)

"""
LoRA: `enable_lora()` freezes the backbone, and adds `A` and `B` to the layers
with these names. Without `target_layer_names` only `query` and `value` are
adapted, as in the paper. Here all matrices of the block and the pooler are adapted,
which is still few numbers, since there is one block. `A` and `B` are all that the
encoder learns, and can be stored alone.
"""

rank = 8
matrices = [
    "query",
    "key",
    "value",
    "attention_output",
    "feedforward_intermediate",
    "feedforward_output",
    "pooler",
]


def add_lora(classifier):
    classifier.backbone.enable_lora(rank, target_layer_names=matrices)


lora = train("LoRA", add_lora, learning_rate=3e-3)
for variable in lora.trainable_variables:
    print(f"{tuple(variable.shape)!s:<12} {variable.path}")

"""
## What LoRA costs
"""

print(f"{'':<12}{'accuracy':>10}{'trained weights':>18}{'seconds':>9}")
for name, row in results.items():
    print(
        f"{name:<12}{row['accuracy']:>10.1%}{row['trained']:>18,}{row['seconds']:>9.0f}"
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, row in results.items():
    left.plot(row["trained"], row["accuracy"], "o", label=name, markersize=9)
    right.plot(range(1, len(row["history"]) + 1), row["history"], label=name)
left.axhline(baseline, color="grey", linestyle=":", label="TF-IDF")
left.set(
    xscale="log", xlabel="trained weights", ylabel="validation accuracy", ylim=(0, 1)
)
left.legend(loc="lower right")
right.set(xlabel="epoch", ylim=(0, 1))
right.xaxis.get_major_locator().set_params(integer=True)
plt.show()

"""
LoRA saves storage, and memory for the optimizer's state. It saves no time here: the
backward pass still runs through all layers. Only the frozen encoder skips it.

## Store the adapter alone

`save_lora_weights()` stores `A` and `B`, and `save_task_weights()` the head.
Together they are what a task adds to the preset.
"""

lora.save_to_preset(folder / "whole")
lora.backbone.save_lora_weights(str(folder / "transfers.lora.h5"))
lora.save_task_weights(str(folder / "transfers.weights.h5"))


def count_bytes(path):
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


for name in ("whole", "transfers.lora.h5", "transfers.weights.h5"):
    print(f"{count_bytes(folder / name):>12,} bytes  {name}")

"""
To use it, add LoRA to a fresh classifier of the same preset, and load the two
files:
"""

loaded = keras_albert.AlbertClassifier.from_preset(preset, labels=class_names)
loaded.backbone.enable_lora(rank, target_layer_names=matrices)
loaded.backbone.load_lora_weights(str(folder / "transfers.lora.h5"))
loaded.load_task_weights(str(folder / "transfers.weights.h5"))
expected = lora.predict(validation[0], verbose=0)
difference = np.abs(loaded.predict(validation[0], verbose=0) - expected).max()
print(f"largest difference: {difference:.1e}")
print(loaded.classify("How long does a transfer from Spain take?"))

"""
`save_to_preset()` of the classifier and all exports work with LoRA as well:
an export contains the sum `W + A @ B`, so a server computes nothing extra.

## int8

`quantize("int8")` replaces the matrices of the backbone by whole numbers from
-127 to 127 and a scale per column. It needs no data and no training. The head,
which is small, stays in float32.
"""

before = full.predict(validation[0], verbose=0)
full.save_to_preset(folder / "float32")
started = time.perf_counter()
full.predict(validation[0], verbose=0)
float_seconds = time.perf_counter() - started

full.quantize("int8")
after = full.predict(validation[0], verbose=0)
full.save_to_preset(folder / "int8")
started = time.perf_counter()
full.predict(validation[0], verbose=0)
int8_seconds = time.perf_counter() - started

truth = np.searchsorted(class_names, validation[1])
print(f"{'':<10}{'bytes on disk':>15}{'accuracy':>10}{'seconds':>9}")
for name, outputs, seconds in (
    ("float32", before, float_seconds),
    ("int8", after, int8_seconds),
):
    accuracy = np.mean(outputs.argmax(axis=-1) == truth)
    size = count_bytes(folder / name / "model.weights.h5")
    print(f"{name:<10}{size:>15,}{accuracy:>10.1%}{seconds:>9.2f}")
same = np.mean(before.argmax(axis=-1) == after.argmax(axis=-1))
change = np.abs(full.probabilities(before) - full.probabilities(after)).max()
print(f"same label: {same:.1%}; largest change of a probability: {change:.3f}")

"""
The file is about a quarter of the size, and most labels are the same. Time is
another matter: Keras multiplies int8 matrices with the operations of the backend,
which are slow for int8 on a CPU in TensorFlow and PyTorch, and fast in JAX on
processors with instructions for it. If time matters, leave the model in float32
and quantize in the export:

```python
classifier.export("model.onnx", format="onnx", inputs="text", quantize="int8")
```

[Serving strings](serving_strings.py) shows how to run such a file.

## Conclusion

LoRA trains 1.2% of the weights here, and finds the class of 88 of 100 messages.
Training all weights finds 90, the head alone 78, and a bag of words 90: this preset is
very small, and 960 short messages are many. With 120 of these labels,
`albert_small_en_uncased` finds 83 and a bag of words 74
([from 100 labels](hundred_labels.py)). On 240 messages, two points may be due to
chance. int8 needs a quarter of the bytes for the same accuracy. At full size LoRA's
share is smaller: in ALBERT xlarge, of 59 million parameters and a width of 2,048, the
same rank has 328 thousand, or 0.6%. Fine-tuning it needs a GPU.

When to use which:

- one task and enough memory: train all weights;
- many tasks on one encoder, or a large encoder on a small GPU: LoRA;
- a limit on memory or download size: int8, for either.

What to try next:

- other ranks: 1, 4 and 32;
- LoRA on a quantized encoder: `quantize("int8")` first, then `enable_lora()`;
- the [KerasHub guide](https://keras.io/keras_hub/) on LoRA for larger models;
- [distillation](distillation.py), which makes the network itself smaller.
"""
