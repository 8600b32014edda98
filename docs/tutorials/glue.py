"""
Title: Fine-tune ALBERT on a GLUE task
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Train on GLUE's files with the metrics of the benchmark and several seeds.
Accelerator: GPU
"""

"""
## Introduction

GLUE ([Wang et al., 2018](https://arxiv.org/abs/1804.07461)) is a collection of
nine English language-understanding tasks: single sentences and pairs of sentences, with
a class or a score to predict. It is the usual test of encoders, and ALBERT's
paper reports it. This tutorial fine-tunes on four of its tasks, which show the
three kinds of outputs:

| task | input | output | metrics |
|---|---|---|---|
| SST-2 | a phrase from a film review | negative or positive | accuracy |
| CoLA | a sentence | acceptable English or not | Matthews correlation |
| MRPC | a pair of sentences | paraphrases or not | accuracy, F1 |
| STS-B | a pair of sentences | similarity from 0 to 5 | Pearson, Spearman |

It runs on `reviews.tsv`, 600 sentences from reviews of films, restaurants
and products ([Kotzias et al., 2015](https://doi.org/10.1145/2783258.2783380), CC BY
4.0), in the format of SST-2, with a small preset, in a few minutes on a CPU. With the
official files of a task and a full-size preset, the same code is the benchmark: set
`glue_task` and `preset` below, and read `train.tsv` and `dev.tsv` with `read_file()`.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or with
`tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the preset `albert_small_en_uncased` is part
of the package.
"""

import csv
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

import keras_albert
from keras_albert.tasks.recipes import recipe

preset = "albert_small_en_uncased"
glue_task = "sst-2"  # or "cola", "mrpc", "sts-b"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.

"""
## The files

Each task names its columns in its own way, and CoLA's file has no header.
Quotation marks are ordinary characters in all of them, so the reader must not
interpret them.
"""

columns_of = {
    "sst-2": ["sentence", "label"],
    "cola": ["sentence", "label"],
    "mrpc": ["#1 String", "#2 String", "Quality"],
    "sts-b": ["sentence1", "sentence2", "score"],
}
metrics_of = {
    "sst-2": {"accuracy": accuracy_score},
    "cola": {"Matthews": matthews_corrcoef, "accuracy": accuracy_score},
    "mrpc": {"accuracy": accuracy_score, "F1": f1_score},
    "sts-b": {
        "Pearson": lambda truth, answers: pearsonr(truth, answers).statistic,
        "Spearman": lambda truth, answers: spearmanr(truth, answers).statistic,
    },
}
metrics = metrics_of[glue_task]
is_regression = glue_task == "sts-b"


def read_file(path):
    header = ["source", "label", "note", "sentence"] if glue_task == "cola" else None
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, header, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [[row[name] for name in columns_of[glue_task]] for row in reader]
    rows = [row for row in rows if None not in row]
    *texts, targets = map(list, zip(*rows))
    number = float if is_regression else int
    return texts, [number(target) for target in targets]


def take(data, part):
    texts, targets = data
    return [column[part] for column in texts], targets[part]


reviews = read_file(data_path / "reviews.tsv")
train, dev = take(reviews, slice(400)), take(reviews, slice(400, None))
print(f"{glue_task}: {len(train[1])} training and {len(dev[1])} dev examples")
for row in list(zip(*train[0], train[1]))[:4]:
    print(row)

"""
## Baselines

The metrics of a model mean little without a trivial model's. Always the most
frequent class is the first baseline. In CoLA it has an accuracy of almost 70% and
a Matthews correlation of 0, which is why the benchmark uses the correlation. The
second is TF-IDF: with logistic regression for single sentences, and with the
cosine of the two vectors as the only feature of a pair.
"""


def measure(truth, answers):
    return {name: float(metric(truth, answers)) for name, metric in metrics.items()}


results = {}
if is_regression:
    results["always the mean"] = [dict.fromkeys(metrics, 0.0)]
else:
    most_frequent = max(set(train[1]), key=train[1].count)
    results["one class"] = [measure(dev[1], [most_frequent] * len(dev[1]))]
vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
vectorizer.fit([text for column in train[0] for text in column])


def features(texts):
    vectors = [vectorizer.transform(column) for column in texts]
    if len(vectors) == 1:
        return vectors[0]
    return np.asarray(vectors[0].multiply(vectors[1]).sum(axis=-1)).reshape(-1, 1)


linear = LinearRegression() if is_regression else LogisticRegression(C=10)
linear.fit(features(train[0]), train[1])
results["TF-IDF"] = [measure(dev[1], linear.predict(features(dev[0])))]
for name, (scores,) in results.items():
    print(name, scores)

"""
## A model that is ready

For the sentiment of reviews nothing needs to be trained: a preset in the package was
fine-tuned on the 67,349 phrases of SST-2.
"""

if glue_task == "sst-2":
    ready = keras_albert.AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
    answers = ready.predict(dev[0][0], verbose=0).argmax(axis=-1)
    results["ready preset"] = [measure(dev[1], answers)]
    print("albert_small_en_uncased_sst2", *results["ready preset"])

"""
## Fine-tuning

The other tasks, and your own, start from the preset that it was made from.

A pair is a tuple of two lists of texts. A score is a classifier with one class:
with `num_classes=1` the loss is the squared error.

Fine-tuning starts from a head with random weights and reads the examples in a
random order, so each seed has another result; on small data the difference is large.
ALBERT's paper reports the median of five runs for GLUE. Here there are three, and
all are shown. The result of a run is the one after its last epoch. To keep the best
epoch on the dev set, as the benchmark allows, makes the result look better than it
is, since the same examples are used to choose and to measure.
"""

seeds = range(3)
histories = []
inputs, dev_inputs = (
    texts[0] if len(texts) == 1 else tuple(texts) for texts in (train[0], dev[0])
)
for seed in seeds:
    keras.utils.set_random_seed(seed)
    classifier = keras_albert.AlbertClassifier.from_preset(
        preset, num_classes=1 if is_regression else 2
    )
    history = classifier.fit(
        inputs,
        train[1],
        batch_size=16,
        epochs=max(2, round(900 / len(train[1]))),
        validation_data=(dev_inputs, dev[1]),
        verbose=2 if seed == 0 else 0,
    )
    histories.append(history.history)
    outputs = classifier.predict(dev_inputs, verbose=0)
    answers = outputs[:, 0] if is_regression else outputs.argmax(axis=-1)
    results.setdefault("ALBERT", []).append(measure(dev[1], answers))
    print(f"seed {seed}:", results["ALBERT"][-1])

"""
The first picture shows whether the model learns or memorizes: from the epoch
where the validation loss rises, while the training loss falls, it memorizes. The
second compares the metric of the task with the baselines.
"""

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for seed, history in zip(seeds, histories):
    epochs = range(1, len(history["loss"]) + 1)
    only_once = {"label": "training"} if seed == 0 else {}
    left.plot(epochs, history["loss"], color="C0", alpha=0.6, **only_once)
    only_once = {"label": "validation"} if seed == 0 else {}
    left.plot(epochs, history["val_loss"], color="C1", alpha=0.6, **only_once)
left.set(xlabel="epoch", ylabel="loss", title=f"{len(seeds)} seeds")
left.legend()
first = next(iter(metrics))
for row, (name, runs) in enumerate(results.items()):
    values = [run[first] for run in runs]
    right.barh(row, np.mean(values), color="C0" if name == "ALBERT" else "0.75")
    right.plot(values, [row] * len(values), "k.")
right.set_yticks(range(len(results)), list(results))
right.set(title=f"{glue_task}: {first} on the dev set")
right.invert_yaxis()
plt.show()

"""
## The mistakes

Look at the examples that the last model is most wrong about. They show errors of
the model, and sometimes errors of the labels.
"""

targets = np.array(dev[1])
if is_regression:
    error = np.abs(outputs[:, 0] - targets)
else:
    probabilities = classifier.probabilities(outputs)
    error = 1 - probabilities[np.arange(len(targets)), targets]
for index in np.argsort(-error)[:5]:
    text = " | ".join(column[index] for column in dev[0])
    print(f"true {targets[index]}, predicted {answers[index]:.3g}:  {text}")

"""
## Results
"""

print(f"{glue_task:<16}" + "".join(f"{name:>18}" for name in metrics))
for name, runs in results.items():
    cells = []
    for metric in metrics:
        values = [run[metric] for run in runs]
        spread = f" ± {np.std(values):.3f}" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):.3f}{spread}")
    print(f"{name:<16}" + "".join(f"{cell:>18}" for cell in cells))

"""
The standard error of an accuracy on 200 reviews is about two points, and on SST-2's 872
dev sentences one. Of 100 reviews, ALBERT classifies about 87 correctly, fine-tuned here
or ready, and TF-IDF 65. In reviews single words such as "wonderful" or "awful" decide.
A bag of words knows the ones in its 400 reviews, and a pretrained model also similar
ones. In CoLA the order of the words decides. A bag of words ignores it, and a model of
a few million parameters learns only part of it.

These are figures of the official files:

| model, parameters | CoLA | SST-2 | MRPC | STS-B |
|---|---|---|---|---|
| BERT-Tiny, 4.4 million, test set | 0.0 | 83.2 | 81.1 / 71.1 | 74.3 / 73.6 |
| `albert_small_en_uncased`, 9.9 million, dev set | 23.4 | 88.1 | | 83.7 / 83.6 |
| ALBERT base, 12 million, dev set | 58.9 | 92.8 | 89.5 | 89.5 |

The first row is from
[google-research/bert](https://github.com/google-research/bert), the last from
[Zhou et al., 2020](https://arxiv.org/abs/2006.04152). The small preset's are means of
three seeds, printed by `examples/glue.py` with `--epochs 4 --batch-size 32`, and for
SST-2 by `benchmarks/few_labels.py`.

## At full size

The settings of the paper (table 14) are part of the package: `recipe()` returns
the learning rate, the batch size, the steps, the warm-up and the dropout of each
task.
"""

print(recipe(glue_task))

"""
With the official files and a GPU, these lines take the place of `from_preset()` and
`fit()` above:

```python
settings = recipe("sst-2")
classifier = settings.build(
    keras_albert.AlbertClassifier, "albert_base_v2_en_uncased", num_classes=2
)
classifier.compile(optimizer=settings.optimizer())
classifier.fit(
    inputs,
    train[1],
    batch_size=settings.batch_size,
    epochs=settings.epochs(len(train[1])),
    validation_data=(dev_inputs, dev[1]),
)
```

MRPC, STS-B and RTE start from a model that was fine-tuned on MNLI first
(`starts_from`): pass the directory of its preset instead of the name.

## Conclusion

The same three calls, `from_preset()`, `fit()` and `predict()`, train on a
sentence, a pair, a class or a score. From 400 reviews, ALBERT learns to classify 87 of
100 others, and a bag of words 65. Report a result with a baseline, more than one seed,
and a dev set that was not used to choose the model.

What to try next:

- the other five tasks with the script `examples/glue.py`;
- [from 100 labels to a served model](hundred_labels.py), with few examples;
- [sentence pairs](sentence_pairs.py) and
  [sentence embeddings](sentence_embeddings.py) for similarity at scale;
- [LoRA and int8](lora_and_int8.py), to train and store less per task.
"""
