"""
Title: Text classification with few labels
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/26
Description: Fine-tuning, frozen vectors and a bag of words, with 96 to 960 labels.
Accelerator: None
"""

"""
## Introduction

Texts are easy to collect; labels are costly: someone must read every text. So the
first question of a project is how many labels are enough, and the second is which
model makes the best use of them. This tutorial answers both for one data set. It
trains four models on 96, on 300 and on 960 labelled messages:

- **TF-IDF** with logistic regression, the baseline, which counts words and parts
  of words;
- **frozen vectors**: a pretrained ALBERT computes a vector per text once, and
  logistic regression is trained on the vectors;
- **fine-tuning**: all weights of the pretrained ALBERT are trained;
- **both**: the mean of the probabilities of fine-tuning and TF-IDF.

Why should a pretrained model need fewer labels? In a bag of words, a word that is
in no labelled text has no weight. During pretraining "invoice" and "bill" occur
in similar sentences, so that their vectors become similar: what is learned from a
text with one of them holds for the other.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or with
`tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the preset `albert_small_en_uncased` is part
of the package.
"""

import csv
import os
import pathlib
import random
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import keras_albert

preset = "albert_small_en_uncased"
data_path = pathlib.Path(os.environ.get("TUTORIAL_DATA", "../../examples/data"))
if not data_path.is_dir():
    print("Download the data of the tutorials, and set TUTORIAL_DATA to their folder.")

"""
## The data

1,200 support messages in six classes, written for this project, until TF-IDF with
logistic regression reached about 85%: it is a favourable baseline here. Six consecutive
rows have one message of each class, so any part of the file is balanced. The last
fifth, 240 messages, is the validation set of all models.

A file of your own with the columns `label` and `text` can take its place: set
`TUTORIAL_MESSAGES` to its path. Its rows are shuffled, and all parts have the same
shares of them: 8%, 25% and 80% are trained on.
"""

own_messages = os.environ.get("TUTORIAL_MESSAGES")
messages = own_messages or data_path / "support_messages.tsv"
with open(messages, encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
if own_messages:
    random.Random(0).shuffle(rows)  # They may be sorted by label.
texts = [row["text"] for row in rows]
labels = np.array([row["label"] for row in rows])
class_names = tuple(sorted({row["label"] for row in rows}))
train_count = len(rows) - len(rows) // 5
validation_texts, validation_labels = texts[train_count:], labels[train_count:]
texts, labels = texts[:train_count], labels[:train_count]
for name in class_names:
    print(f"{name:>9}  {next(row['text'] for row in rows if row['label'] == name)}")
majority = max(np.mean(validation_labels == name) for name in class_names)
print(f"always the same class: {majority:.1%}")

"""
## The models

Each function takes labelled messages and returns the probabilities of the classes
for the validation set. First the bag of words, from words, pairs of words, and
sequences of two to five characters, which find the common part of "refund" and
"refunded". A class without any labelled message has the probability 0.
"""


def probabilities_of(model, inputs):
    probabilities = np.zeros((len(validation_texts), len(class_names)))
    columns = np.searchsorted(class_names, model.classes_)
    probabilities[:, columns] = model.predict_proba(inputs)
    return probabilities


def bag_of_words(train_texts, train_labels):
    model = make_pipeline(
        make_union(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True),
        ),
        LogisticRegression(C=10, max_iter=2000),
    )
    model.fit(train_texts, train_labels)
    return probabilities_of(model, validation_texts)


"""
`AlbertTextEmbedder` computes the frozen vectors: the mean of the vectors of a
text's tokens. This preset has learned from a sentence encoder to place texts of
similar meaning near each other. All vectors are computed once. After that, training
takes a fraction of a second, whatever the size of the ALBERT.
"""

embedder = keras_albert.AlbertTextEmbedder.from_preset(preset)
started = time.perf_counter()
vectors = dict(zip(texts, embedder.embed(texts)))
validation_vectors = embedder.embed(validation_texts)
print(f"{len(rows)} vectors in {time.perf_counter() - started:.1f} seconds")


def frozen_vectors(train_texts, train_labels):
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.03, max_iter=2000))
    model.fit(np.stack([vectors[text] for text in train_texts]), train_labels)
    return probabilities_of(model, validation_vectors)


"""
Fine-tuning changes all weights. With few labels two settings matter:

- **Enough steps.** Two epochs of 96 messages in batches of 16 are 12 steps, too
  few for a new head. So the number of steps is fixed, and fewer labels are
  repeated more often.
- **No early stopping.** A validation set that stops the training needs labels,
  too, and they are scarce. The default optimizer lowers the learning rate to zero
  within the steps of `fit()`, so the last weights are good ones. The validation
  set here only measures.
"""


def fine_tune(train_texts, train_labels):
    keras.utils.set_random_seed(0)
    classifier = keras_albert.AlbertClassifier.from_preset(preset, labels=class_names)
    steps, batch_size = 60, 16
    epochs = max(1, round(steps * batch_size / len(train_texts)))
    classifier.fit(
        list(train_texts),
        list(train_labels),
        batch_size=batch_size,
        epochs=epochs,
        verbose=0,
    )
    outputs = classifier.predict(validation_texts, verbose=0)
    return classifier.probabilities(outputs)


"""
## From 96 to 960 labels

Each model is trained on the first 96, 300 and 960 messages. A few labels can be a
lucky or an unlucky choice. So the bag of words, which is quick, is also trained on
every other part of 96 and 300 messages of the file. `results` collects the
accuracies by model and number of labels.
"""


def accuracy_of(probabilities):
    answers = np.array(class_names)[probabilities.argmax(axis=-1)]
    return np.mean(answers == validation_labels)


counts = len(rows) * 2 // 25, len(rows) // 4, train_count
results = {}
tfidf_draws = {}
for count in counts:
    parts = [
        slice(start, start + count)
        for start in range(0, train_count + 1 - count, count)
    ]
    draws = [bag_of_words(texts[part], labels[part]) for part in parts]
    tfidf_draws[count] = [accuracy_of(draw) for draw in draws]
    few = texts[:count], labels[:count]
    tuned = fine_tune(*few)
    for name, probabilities in (
        ("TF-IDF", draws[0]),
        ("frozen vectors", frozen_vectors(*few)),
        ("fine-tuning", tuned),
        ("both", (tuned + draws[0]) / 2),
    ):
        results.setdefault(name, []).append(accuracy_of(probabilities))

print(f"{'accuracy with':<16}" + "".join(f"{count:>9} labels" for count in counts))
for name, accuracies in results.items():
    print(f"{name:<16}" + "".join(f"{accuracy:>16.1%}" for accuracy in accuracies))
for count, accuracies in list(tfidf_draws.items())[:2]:
    low, high = min(accuracies), max(accuracies)
    print(f"TF-IDF, {len(accuracies)} draws of {count}: {low:.1%} to {high:.1%}")

figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
for name, accuracies in results.items():
    (line,) = axis.plot(counts, accuracies, marker="o", label=name)
    if name == "TF-IDF":
        for count, drawn in tfidf_draws.items():
            axis.plot([count] * len(drawn), drawn, ".", color=line.get_color())
axis.axhline(majority, color="grey", linestyle=":", label="one class")
axis.set(xscale="log", xlabel="labelled messages", ylabel="validation accuracy")
axis.set_xticks(counts, [str(count) for count in counts])
axis.minorticks_off()
axis.legend()
plt.show()

"""
## How to read the result

With 240 validation messages, an accuracy near 80% has a standard error of two and
a half points. The draws differ by more: the dots show how much the choice of the
labelled messages matters, for one model. So compare the shape of the curves and not
their last digit:

- TF-IDF is strong on short messages whose words determine the class. With more labels,
  more words of a new message are also in a labelled one, and the advantage of
  pretraining is smaller.
- The two models make different errors. The mean of their probabilities is therefore
  often better than fine-tuning alone, at no cost in labels. It helps most where the
  two are about equally good.
- Frozen vectors cost almost nothing to train, and are hard to beat: this preset has
  learned to embed texts. Vectors of other encoders depend on how these were
  pretrained.
- Fine-tuning is strong with the fewest labels. Its 60 steps read 960 messages only
  once: with all labels, train for more epochs.

## At full size

Sentiment is harder than the subject of a message. On SST-2's phrases of film reviews,
the accuracy of this preset is 65.7% ± 0.5% with 100 labels, 78.8% ± 1.1% with 1,000 and
87.3% ± 0.2% with all 67,349 (three seeds; `benchmarks/few_labels.py`). TF-IDF
reaches 83.1% with all ([results](../results.md)). ALBERT base has 92.9% with all
([google-research/albert](https://github.com/google-research/albert)). Only the name of
the preset changes, and a GPU is needed:

```python
preset = "albert_base_v2_en_uncased"
```

## Which message to label next

The most useful texts to label are those a model is least certain about:
its best class has a low probability. This is the idea of active learning. The example
uses a bag of words and the fewest messages, which is quick enough to be trained after
each new label:
"""

seen, unseen = texts[: counts[0]], texts[counts[0] :]
model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10, max_iter=2000))
model.fit(seen, labels[: counts[0]])
certainty = model.predict_proba(unseen).max(axis=-1)
for index in np.argsort(certainty)[:5]:
    print(f"{certainty[index]:.2f}  {unseen[index]}")

"""
## Conclusion

Start with the bag of words and the frozen vectors: both take a minute, and any other
model has to beat them. Then fine-tune with a fixed number of steps, and spend time on
labels for the texts of which the models are least certain.

What to try next:

- more draws, and intervals from them, before a decision that costs money;
- `class_weight` in `fit()` if some classes are rare;
- [LoRA](lora_and_int8.py), which trains a small part of the weights;
- [sentence embeddings](sentence_embeddings.py): better frozen vectors from pairs
  of texts that belong together, without labels;
- [pretraining](pretraining.py) on your own unlabelled texts.
"""
