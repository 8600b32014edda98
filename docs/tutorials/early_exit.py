"""
Title: Early exits, fewer layers for easy texts
Author: keras_albert authors
Date created: 2026/11/24
Last modified: 2026/11/28
Description: Train a classifier with a head after each layer, and choose when texts exit.
Accelerator: GPU
"""

"""
## Introduction

ALBERT applies one block of weights again and again, so its depth is not a property of
the weights. A model can run the block four times or eight, and it need not run it as
often for an easy text as for a hard one.

This requires a head, a layer that predicts the classes, after each layer, and a rule
that decides when a text leaves. There are three simple rules:

- **a fixed depth**, the same for all texts;
- **confidence**: a text leaves as soon as an answer has a high probability;
- **patience** ([Zhou et al., 2020](https://arxiv.org/abs/2006.04152)): a text leaves as
  soon as several heads in a row agree. The authors found it to be more reliable, since
  networks are often confident and wrong.

With ALBERT base they measured 1.57 times the speed, with equal or better accuracy on
all tasks of GLUE. This tutorial trains such a classifier, measures some rules, and
chooses one.
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
import time

import keras
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_tiny_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
num_layers, epochs = 8, 8

"""
## The data

1,200 support messages in six classes, written for this project until TF-IDF reached
about 85%: 720 to train on, 240 to choose a rule with, and the others to test the
choice. A rule that was chosen on a set looks better there than it is.
"""

with open(data_path / "support_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]
class_names = sorted(set(labels))
train_end, test_start = len(rows) * 3 // 5, len(rows) * 4 // 5
train, validation = slice(train_end), slice(train_end, test_start)
test = slice(test_start, None)

"""
## The baselines

The most frequent class, and a bag of words (TF-IDF and logistic regression).
"""

bag_of_words = make_pipeline(
    TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10)
)
bag_of_words.fit(texts[train], labels[train])
largest_class = max(labels[test].count(name) for name in class_names)
print(f"one class: {largest_class / len(labels[test]):.1%}")
print(f"TF-IDF: {bag_of_words.score(texts[test], labels[test]):.1%}")

"""
## A head after each layer

`exits=True` adds the heads. Each is one matrix, so eight of them are hardly more
weights than one. The loss in training is the mean of the losses of all heads, and those
of deeper layers count more; all are computed in one pass. The metric is for the
last.

The preset has four layers. With `num_layers=8` it is a deeper model of the same
weights, which has to learn to use the other four; a warning states this.
"""

classifier = keras_albert.AlbertClassifier.from_preset(
    preset, labels=class_names, num_layers=num_layers, exits=True
)
history = classifier.fit(
    texts[train],
    labels[train],
    validation_data=(texts[validation], labels[validation]),
    batch_size=16,
    epochs=epochs,
    verbose=2,
)

"""
## A text leaves

`predict()` and `classify()` take a rule: `patience`, `threshold` or `num_layers`.
Without one, all layers run.
"""

easy, hard = "thank you so much, you are wonderful", "it is not what I expected"
for text in (easy, hard):
    for rule in ({}, {"patience": 1}, {"threshold": 0.8}):
        answer = classifier.classify(text, return_depths=True, **rule)
        print(f"{text!r} {rule}: {answer}")

"""
Texts that have exited leave the batch, so that the other layers compute less.
Where a text leaves depends on itself alone, never on the others in its batch.

## Rules, measured

Each rule runs the validation set four times, in turns, since a computer is seldom idle.
The first round compiles; of the others the median counts.
"""

rules = [{"num_layers": n} for n in range(1, num_layers + 1)]
rules += [{"patience": n} for n in (1, 2, 3)] + [
    {"threshold": p} for p in (0.5, 0.7, 0.9)
]


def measure(rule, part):
    """Return the accuracy, the mean depth and the seconds of a rule."""
    start = time.perf_counter()
    outputs, depths = classifier.predict(
        texts[part], return_depths=True, verbose=0, **rule
    )
    seconds = time.perf_counter() - start
    answers = [classifier.labels[i] for i in outputs.argmax(axis=-1)]
    return np.mean(np.array(answers) == labels[part]), depths.mean(), seconds


rounds = np.array([[measure(rule, validation) for rule in rules] for _ in range(4)])
measured = np.median(rounds[1:], axis=0)
for rule, (accuracy, depth, seconds) in zip(rules, measured):
    print(f"{rule!s:20} {accuracy:.1%}, {depth:.1f} layers, {seconds:.3f} s")

"""
The first rows are fixed depths: what a model that ends there has learned. Below them
are the rules. A rule is useful if no fixed depth is both as accurate and as fast.
Removing texts from a batch takes time as well, so half of the layers may take more than
half of the time.

Look at the fixed depths first. Whole messages of one subject are easy, and the preset
has only four layers, so the first layers may be nearly as good as the last. Then a
small fixed depth does as well as any rule, and is simpler.

## Choosing

One way to choose: the fastest setting that loses at most one point of accuracy on the
validation set. The test set then shows its accuracy on other texts.
"""

accuracies, depths, seconds = measured.T
all_layers = num_layers - 1
good = np.flatnonzero(accuracies >= accuracies[all_layers] - 0.01)
chosen = good[seconds[good].argmin()]
share = seconds[chosen] / seconds[all_layers]
print("chosen:", rules[chosen], f"{share:.0%} of the time")

for name, rule in (("all layers", {}), ("the chosen rule", rules[chosen])):
    accuracy, depth, _ = measure(rule, test)
    print(f"{name}: accuracy {accuracy:.1%}, {depth:.1f} layers")

"""
## Which texts are easy?

Patience makes the depth of a text a measurement of how hard it is.
"""

outputs, depths = classifier.predict(
    texts[test], patience=2, return_depths=True, verbose=0
)
is_right = outputs.argmax(axis=-1) == [classifier.labels.index(x) for x in labels[test]]
for depth in np.unique(depths):
    here = depths == depth
    print(f"left after layer {depth}: {here.sum()} texts, {is_right[here].mean():.0%}")

"""
## Another depth

A preset with exits loads at any depth, with the head of its last layer. So it is saved,
exported or trained further as other models are.
"""

classifier.save_to_preset("exits")
shallow = keras_albert.AlbertClassifier.from_preset("exits", num_layers=4)
print(f"{shallow.backbone.num_layers} layers: {shallow.classify(easy)}")

"""
## Conclusion

A classifier with exits is trained once, and the depth of its answers is chosen later:
per model, per machine or per text. Here the chosen rule takes a quarter of the time of
all layers, and both find the class of 87 to 89 of 100 test messages, a bag of words 86.
These messages are easy: two layers for all of them do as well. On the command line,
`keras-albert finetune classification --exits` trains one from files, and `keras-albert
predict --patience 1` uses it.

At full size: the paper's figure is for ALBERT base with a patience of 6 of its 12
layers. Training it needs a GPU. The deeper the model and the larger the batches, the
more there is to gain.

What to try next:

- a regression, where two scores agree if they differ by at most the `threshold`;
- `keras-albert pretrain --min-layers 3`, which trains all depths in pretraining;
- [distillation](distillation.py), to make a shallow model better;
- [serving](serving_strings.py) strings.
"""
