"""
Title: From 100 labels to a served model
Author: keras_albert authors
Date created: 2026/11/27
Last modified: 2026/11/27
Description: Check, label, fit in seconds, explain, calibrate and serve.
Accelerator: None
"""

"""
## Introduction

A project begins with texts and few labels. This tutorial goes the whole way with 240
labels, on questions that customers of a bank asked:

1. mistakes in the file, found before any training;
2. 120 labels: a bag of words, the baseline, and a linear head on a pretrained ALBERT;
3. 120 more labels, chosen by a model, and what a curve says about still more;
4. fine-tuning, and the words behind its worst errors;
5. sets of labels that contain the right one nine times of ten;
6. an ONNX file, run by a program without Keras.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,onnx,examples]"`, or
with `tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the preset is part of the package.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.

"""
## The data

`transfer_messages.tsv` contains 1,200 messages of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0): 120 of each of the ten of its
77 classes whose names contain "transfer". They share their words, and a desk has to
tell them apart: a transfer that is pending, failed or declined, one that has not
arrived here or there, its fee, how long it takes. This rule was fixed before any model
had seen the data, and nothing else was tried.

The first 720 play the part of messages that nobody has read; we look at a label only
when we pay for it. The next 240 calibrate, and the last 240 measure.
"""

with open(data_path / "transfer_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = np.array([row["text"] for row in rows], dtype=object)
labels = np.array([row["label"] for row in rows], dtype=object)
class_names = tuple(sorted(set(labels)))
fifth, count = len(rows) // 5, len(rows) // 10
pool = np.arange(len(rows) - 2 * fifth)
calibration = np.arange(len(pool), len(pool) + fifth)
test = np.arange(len(pool) + fifth, len(rows))
first = pool[:count]
print(f"{len(first)} labels, {len(pool) - count} messages without, {len(test)} to test")

"""
## Check the labels

Five of the first 120 labels are replaced by another class, as a tired person might do.
`keras-albert check` finds labels that the other rows contradict, equal and nearly equal
texts, texts in both files, and classes that are too small. Its status is 1 if there are
errors; doubtful labels are notes.
"""

folder = pathlib.Path(tempfile.mkdtemp())
noise = np.random.default_rng(0)
wrong_rows = noise.choice(count, 5, replace=False)
noisy = labels.copy()
for row in wrong_rows:
    noisy[row] = noise.choice([name for name in class_names if name != labels[row]])
for name, part in (("train", first), ("dev", test)):
    lines = ["text\tlabel", *map("\t".join, zip(texts[part], noisy[part]))]
    (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
command = "check", "train.tsv", "--dev", "dev.tsv", "--output", "found.json"
finished = subprocess.run(
    [sys.executable, "-m", "keras_albert", *command],
    cwd=folder,
    capture_output=True,
    text=True,
    check=False,  # Its status says whether there are errors.
)
print(finished.stdout)
findings = json.loads((folder / "found.json").read_text())["findings"]
doubtful = [
    int(example.partition("line ")[2].partition(":")[0]) - 2
    for finding in findings
    if finding["kind"] == "doubtful labels"
    for example in finding["examples"]
]
found_rows = set(doubtful) & set(wrong_rows.tolist())
print(f"{len(doubtful)} doubtful, {len(found_rows)} of the 5 that are wrong")

"""
Read the doubtful rows again and correct them; the rest of the tutorial has the labels
of the file. With twelve labels of a class, the other rows teach little: most wrong
labels stay hidden, and some doubtful ones are right. Of the 1,200 messages of the
quickstart, the check finds
[three wrong ones of four](../command_line.md#mistakes-in-the-files). Check again as the
file grows. Pairs that are nearly the same, one in each file, make the scores on `dev`
a little too good.

## Two models in seconds

The bag of words counts words, pairs of words and sequences of letters; five folds
choose the strength of its regularization. With `method="linear"`, the ALBERT stays as
it is, and scikit-learn solves its head, also with five folds.
"""


def bag_of_words(chosen):
    model = make_pipeline(
        make_union(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
        ),
        LogisticRegression(max_iter=2000),
    )
    strengths = {"logisticregression__C": [1, 10, 100, 1000]}
    search = GridSearchCV(model, strengths).fit(texts[chosen], labels[chosen])
    return search.score(texts[test], labels[test])


def train(chosen, **options):
    model = keras_albert.AlbertClassifier.from_preset(preset, labels=class_names)
    model.fit(list(texts[chosen]), list(labels[chosen]), verbose=0, **options)
    return model


def accuracy(model):
    data = list(texts[test]), list(labels[test])
    return model.evaluate(*data, return_dict=True, verbose=0)["accuracy"]


print(f"TF-IDF, {count} labels: {bag_of_words(first):.1%}")
quick = train(first, method="linear")
print(f"linear head: {accuracy(quick):.1%}")

"""
## Which messages to label next

A model learns most from messages about which it is unsure: its best class is hardly
more probable than the second. We take the 120 with the smallest difference, and compare
with the next 120 messages of the file, which are as good as drawn at random.
"""

rest = np.setdiff1d(pool, first)
outputs = quick.predict(list(texts[rest]), verbose=0)
probabilities = np.sort(quick.probabilities(outputs), axis=-1)
margins = probabilities[:, -1] - probabilities[:, -2]
unsure = rest[np.argsort(margins)[:count]]
for index in unsure[:4]:
    print(f"{labels[index]:>9}  {texts[index]}")

chosen = np.concatenate([first, unsure])
others = np.concatenate([first, rest[:count]])
for name, part in (("chosen", chosen), ("in order", others)):
    found = accuracy(train(part, method="linear"))
    print(f"{name:>9}: {len(part)} labels, {found:.1%}")

"""
With 240 messages to test, a difference of three points is within chance: on these
balanced classes the choice hardly matters. Try it where classes are rare.

The curve says whether more labels would help. The vectors of the texts are kept on
disk, so that each further head takes a moment.
"""

for size in (count, 300, len(pool)):
    found = accuracy(train(pool[:size], method="linear"))
    print(
        f"{size:>3} labels: linear {found:.1%}, TF-IDF {bag_of_words(pool[:size]):.1%}"
    )

"""
## Fine-tuning

With labels of both rounds, all weights are trained. Twelve passes over 240 messages in
batches of 16 are 180 updates.
"""

classifier = train(chosen, batch_size=16, epochs=12)
print(f"fine-tuned: {accuracy(classifier):.1%}")

"""
It is no better than the head on the same labels, which took seconds.

## Where it errs

The errors about which the model is most certain, with the words that it relied on. On
some of them people disagree, too: "I don't see a money transfer yet" may be a pending
transfer, or a balance that was not updated. Others are mistakes of the file: up to 14%
of Banking77's labels are doubtful
([Ying and Thomas, 2022](https://aclanthology.org/2022.insights-1.19)). A rule for such
texts, or one class instead of two, helps more than another model.
"""

answers = classifier.classify(list(texts[test]))
wrong = [
    (answer["score"], texts[index], labels[index], answer["label"])
    for answer, index in zip(answers, test)
    if answer["label"] != labels[index]
]
for score, text, truth, label in sorted(wrong, reverse=True)[:3]:
    print(f"{text}\n  is {truth}, the model says {label} ({score:.2f})")
    print(f"  {classifier.explain(text)}")

"""
## Honest probabilities

`calibrate()` divides the outputs by a temperature, below 1 if the model was too
cautious, and finds the threshold above which a label belongs to the answer, so that one
answer in ten lacks the right one at most. Messages with more than one label are for
people.
"""

found = classifier.calibrate(
    list(texts[calibration]), list(labels[calibration]), error_rate=0.1
)
answers = classifier.classify(list(texts[test]))
sets = [answer["set"] for answer in answers]
covered = np.mean([labels[index] in labels_ for index, labels_ in zip(test, sets)])
single = np.mean([len(labels_) == 1 for labels_ in sets])
print(f"temperature {found['temperature']:.2f}")
print(f"right label in the set: {covered:.1%}; sets of one label: {single:.1%}")

"""
## Serve strings

The ONNX file contains the tokenizer, the temperature and the sets. The program that
runs it needs `onnxruntime` and `onnxruntime-extensions`, and not Keras.
"""

path = folder / "messages.onnx"
classifier.export(path, format="onnx", inputs="text")
client = """
import json, sys
import numpy as np
import onnxruntime
from onnxruntime_extensions import get_library_path

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
session = onnxruntime.InferenceSession(sys.argv[1], options)
texts = np.array(json.load(sys.stdin))
print(json.dumps(session.run(["label"], {"text": texts})[0].tolist()))"""
requests = list(texts[test][:3])
finished = subprocess.run(
    [sys.executable, "-c", client, str(path)],
    input=json.dumps(requests),
    capture_output=True,
    text=True,
    check=True,
)
for text, label in zip(requests, json.loads(finished.stdout)):
    print(f"{label:>9}  {text}")

"""
## Conclusion

With 120 labels, a linear head on the frozen encoder is right about 78% of the time and
TF-IDF with a tuned C 74%; with 300 labels both 84%; with 720 labels, 90% and 89%. On
240 messages, the standard error is two to three points. More labels help more than a
choice among them. With 240 labels, fine-tuning is no better than the linear head, 86%,
and takes longer. At full size, with `albert_base_en_uncased` and a GPU, only the name of
the preset changes.

What to try next:

- [the curves](../results.md) of these messages and of SST-2, with spreads;
- `keras-albert check --unlabelled new.txt`, which ranks messages to label;
- more rounds of 120, until the accuracy no longer rises;
- [serving](serving_strings.py), with three formats and a server.
"""
