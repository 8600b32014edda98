"""
Title: Distill ALBERT into a shallower loop
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Train a student with fewer layers on the outputs of a fine-tuned teacher.
Accelerator: GPU
"""

"""
## Introduction

In knowledge distillation ([Hinton et al., 2015](https://arxiv.org/abs/1503.02531)) a
small model, the student, learns from the outputs of a large one, the teacher, and not
only from labels. A label states that a message is about billing. The teacher's
probabilities also state that it might be about returns and is certainly no praise,
which is more information for each example.

ALBERT has a special kind of student. All of its layers share one block of weights, so
a student can be the same model with a shorter loop. It starts from the same
pretrained weights as the teacher, and needs a fraction of the time. It does not need
less memory: the number of weights is the same at each depth. For a smaller file, see
[LoRA and int8](lora_and_int8.py).

This tutorial fine-tunes a teacher on support messages and trains one-layer students,
with and without the teacher, with `keras.distillation.Distiller`. The comparison has
several seeds, since the differences between students are small.
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
import matplotlib.pyplot as plt
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
teacher_epochs, student_epochs = 10, 3
seeds = (0, 1)

"""
## The data

1,200 support messages in six classes, written for this project until TF-IDF reached
about 85%. The teacher is trained on 480 messages with labels. The students have only
the labels of the first 160, as if the others were no longer available. They also read
the other texts, without labels: the teacher predicts probabilities for any text. The
last 240 messages are the validation set.
"""

with open(data_path / "support_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
class_names = sorted({row["label"] for row in rows})
labels = np.array([class_names.index(row["label"]) for row in rows])
few_count, many_count = len(rows) * 2 // 15, len(rows) * 2 // 5
few, many = slice(few_count), slice(many_count)
validation = slice(len(rows) - len(rows) // 5, None)
few_labels, many_labels = f"{few_count} labels", f"{many_count} labels"

"""
## The baselines

The most frequent class, and a bag of words (TF-IDF and logistic regression), with the
labels of the students and of the teacher.
"""

class_shares = np.bincount(labels[validation]) / len(labels[validation])
results = {"most frequent class": [class_shares.max()]}
for name, part in ((few_labels, few), (many_labels, many)):
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10))
    model.fit(texts[part], labels[part])
    accuracy = model.score(texts[validation], labels[validation])
    results[f"TF-IDF, {name}"] = [accuracy]
    print(f"TF-IDF, {name}: {accuracy:.1%}")

"""
## The teacher

The teacher is the preset at the depth of its pretraining, fine-tuned on strings. A
message with more than 24 tokens is truncated.
"""

preprocessor = keras_albert.AlbertClassifierPreprocessor.from_preset(
    preset, sequence_length=24
)


def make_classifier(**arguments):
    return keras_albert.AlbertClassifier.from_preset(
        preset, labels=class_names, preprocessor=preprocessor, **arguments
    )


teacher = make_classifier()
history = teacher.fit(
    texts[many],
    labels[many],
    validation_data=(texts[validation], labels[validation]),
    batch_size=16,
    epochs=teacher_epochs,
    verbose=2,
)

"""
These are its probabilities of the three most likely classes:
"""

for text in texts[validation][:3]:
    print(text)
    for answer in teacher.classify(text, top_k=3):
        print(f"  {answer['label']:>9} {answer['score']:.3f}")

"""
A teacher that is nearly certain teaches little: a probability of 0.99 is almost a
label. The temperature divides the logits of both models before the softmax, so that
the smaller probabilities have a part in the loss.

## Distilling

`keras.distillation.Distiller` is a Keras model that contains both. It freezes the
teacher, and trains the student with the sum of two losses: one on the labels, with
the weight `student_loss_weight`, and one on the teacher's outputs. With a weight of
0 the labels are not used.

Three notes:

- The distiller is a plain Keras model, not a task of `keras_albert`, and does not
  take strings. The preprocessor returns what it takes: the dict of ids. A fixed
  `sequence_length` makes all rows equally long.
- The distiller has its own `compile()`. The rate of a task's default optimizer, with
  warm-up and decay, is written out here.
- Pass the divergence as an object. In Keras 3.15 the name `"kl_divergence"`, which is
  also the default, selects a function that is applied to the logits, cut to the range
  from 0 to 1, instead of to probabilities. Its value can be negative: it is no
  divergence.
"""

ids = preprocessor(texts)
print({name: array.shape for name, array in ids.items()})


def rows_of(part):
    return {name: array[part] for name, array in ids.items()}


def make_optimizer(steps):
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps - steps // 10, warmup_target=1e-3, warmup_steps=steps // 10
    )
    return keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0)


steps = student_epochs * many_count // 16
label_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def distil(student):
    distiller = keras.distillation.Distiller(
        teacher,
        student,
        keras.distillation.LogitsDistillation(
            temperature=2.0, loss=keras.losses.KLDivergence()
        ),
        student_loss_weight=0.0,
    )
    distiller.compile(
        optimizer=make_optimizer(steps), loss=label_loss, metrics=["accuracy"]
    )
    return distiller.fit(
        rows_of(many), labels[many], batch_size=16, epochs=student_epochs, verbose=0
    )


def learn(student, part):
    """Train a student on labels alone, with the same number of steps."""
    student.compile(optimizer=make_optimizer(steps))
    epochs = student_epochs * many_count // len(labels[part])
    student.fit(rows_of(part), labels[part], batch_size=16, epochs=epochs, verbose=0)


"""
All students have one layer, the same weights at the start, the same optimizer and the
same number of steps:

- 160 labels, and no teacher;
- 480 texts and the teacher, without a single label;
- 480 labels, and no teacher: the effect of the labels of the teacher alone.
"""

ways = {
    f"student, {few_labels}": lambda student: learn(student, few),
    "student, distilled": distil,
    f"student, {many_labels}": lambda student: learn(student, many),
}


def accuracy_of(model):
    started = time.perf_counter()
    outputs = model.predict(rows_of(validation), verbose=0)
    seconds = time.perf_counter() - started
    return np.mean(outputs.argmax(axis=-1) == labels[validation]), seconds


accuracy, teacher_seconds = accuracy_of(teacher)
results[f"teacher, {teacher.backbone.num_layers} layers"] = [accuracy]
students = {}
for name, train in ways.items():
    results[name] = []
    for seed in seeds:
        keras.utils.set_random_seed(seed)
        student = make_classifier(num_layers=1)
        train(student)
        accuracy, student_seconds = accuracy_of(student)
        results[name].append(accuracy)
        students[name] = student
        print(f"{name}, seed {seed}: {accuracy:.1%}")

"""
## The result

The mean over the seeds on 240 messages that no model has seen. The standard error of
an accuracy of 80% on 240 messages is 2.6 points, so smaller differences mean nothing.
"""

for name, accuracies in results.items():
    print(f"{name:<20} {np.mean(accuracies):.1%}")
print(f"\n{teacher.count_params():,} parameters in the teacher")
print(f"{student.count_params():,} parameters in a student")
print(
    f"time of a prediction, student to teacher: {student_seconds / teacher_seconds:.2f}"
)

figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
names = list(results)
axis.barh(names, [np.mean(x) for x in results.values()], color="lightsteelblue")
for place, accuracies in enumerate(results.values()):
    axis.plot(accuracies, [place] * len(accuracies), "k|", markersize=12)
axis.invert_yaxis()
axis.set(xlabel="accuracy; a line for each seed", xlim=(0, 1))
plt.show()

"""
The number to look at is the difference between the first student and the second. The
first has 160 labels. The second has no label, and the teacher's probabilities of 480
texts.

## The student alone

The distiller trained the student in place. It is an `AlbertClassifier` like any
other, which takes strings.
"""

student = students["student, distilled"]
print(student.classify("the courier left my parcel in the rain"))

"""
## Conclusion

A student of ALBERT has the weights of its teacher in a shorter loop, and distilling it
takes one class of Keras. With the teacher's probabilities of 480 texts, and no label, a
student of one layer finds the class of 88 of 100 messages: as many as the teacher, and
8 more than with 160 labels and no teacher. Where all 480 labels are available, there is
less to gain: 85 without a teacher, and 86 with a bag of words. On a task as simple as
this, compare all of them with the bag of words: the teacher is a very small model.

At full size: [DistilBERT](https://arxiv.org/abs/1910.01108) has half the layers of
BERT base and 97% of its score on GLUE. It was distilled during pretraining, on the
masked tokens of the whole corpus, on GPUs. To distill a fine-tuned model, as here, costs
far less.

What to try next:

- `student_loss_weight=0.5` with labels for all texts;
- many more unlabelled texts: the teacher needs no labels;
- a teacher with a full-size preset, and a student with `num_layers=4`;
- [sharing and factorizing](sharing_and_factorizing.py), on the depth of the loop;
- [serving](serving_strings.py) the student.
"""
