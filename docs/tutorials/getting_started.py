"""
Title: Getting started with keras_albert
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Fine-tune ALBERT on raw strings, then take control of each step.
Accelerator: None
"""

"""
## Introduction

ALBERT ([Lan et al., 2020](https://arxiv.org/abs/1909.11942)) is a Transformer
encoder like BERT: it reads a text and returns a vector per token and one for the
whole text. Two changes make it small:

- **Shared layers.** BERT has separate weights for each of its layers. ALBERT
  applies one block of weights, or a few of them, again and again, so depth adds
  computation, and few parameters or none.
- **Factorized embeddings.** The vocabulary has narrow vectors, of 128 numbers,
  and one matrix projects them to the width of the model.

ALBERT base has 12 million parameters, and BERT base has 108 million (table 2 of
the paper). Both need about the same computation per token.

`keras_albert` contains the model for Keras 3, on TensorFlow, JAX and PyTorch,
with the text processing and a class for each task. This guide trains a text
classifier three times, each time with more control:

1. a task model, which takes strings;
2. the same model with its own preprocessing, optimizer and class numbers;
3. a Functional model of your own on top of the backbone, the encoder itself.

Each result is compared with two baselines: always the same answer, and a bag of
words.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or
with `tensorflow` or `jax` instead of `torch`. The environment variable
`KERAS_BACKEND` selects the backend. This guide needs no network: its presets,
`albert_small_en_uncased` and two models fine-tuned from it, are part of the package.
"""

import csv
import pathlib
import tempfile

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.

"""
## Models that are ready

A preset is a directory with weights, a vocabulary and their settings.
`from_preset()` takes its name or its path. Some presets in the package are
fine-tuned for a task and need no training, such as one for sentiment and one that
finds entities:
"""

sentiment = keras_albert.AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
for text in ("an awful film", "The room was clean and the staff were lovely."):
    print(sentiment.classify(text), text)
tagger = keras_albert.AlbertTokenClassifier.from_preset("albert_small_en_uncased_ner")
for entity in tagger.tag("Anna flew from Berlin to Paris."):
    print(entity["label"], entity["text"])

"""
For your own classes, start from `albert_small_en_uncased`, which has 9.9 million
parameters: six layers, which share three blocks. It was made from a BERT that had
learned to place similar sentences near each other. It also predicts words that are
replaced by `[MASK]`, as in pretraining:
"""

masked_lm = keras_albert.AlbertMaskedLM.from_preset(preset)
for answer in masked_lm.fill_mask("He opened the [MASK] and went into the house."):
    print(f"{answer['score']:.3f}  {answer['sequence']}")

"""
A larger preset, such as `albert_base_en_uncased`, is loaded with the same line, and is
downloaded first; [choosing a model](../choosing_a_model.md) compares all
sizes.

## The data

The task is to find the subject of short messages to the support of a bank.
`bank_messages.tsv` contains 1,200 of the 13,083 messages of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0): 200 of each of its six most
frequent classes. Any six consecutive rows have one message of each class, so the last
fifth, 240 rows, is a balanced validation set.

A file of your own with the columns `label` and `text` can take its place. Shuffle its
rows first if they are sorted by label.
"""

with open(data_path / "bank_messages.tsv", encoding="utf-8", newline="") as file:
    rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
texts = [row["text"] for row in rows]
labels = [row["label"] for row in rows]
class_names = sorted(set(labels))
train_count = len(rows) - len(rows) // 5
train_texts, validation_texts = texts[:train_count], texts[train_count:]
train_labels, validation_labels = labels[:train_count], labels[train_count:]
print(f"{len(train_texts)} messages to train, {len(validation_texts)} to validate")
for text, label in zip(train_texts[:6], train_labels[:6]):
    print(f"{label:>9}  {text}")

"""
## Baselines

A model is only worth its cost if simpler ones are worse. The first baseline
returns one class for all messages. The second is a bag of words: the counts of
words and pairs of words, in which frequent ones have less weight (TF-IDF), and
logistic regression on these numbers. It is trained in a second.
"""

largest_class = max(validation_labels.count(name) for name in class_names)
results = {"one class": largest_class / len(validation_labels)}
bag_of_words = make_pipeline(
    TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
    LogisticRegression(C=10, max_iter=2000),
)
bag_of_words.fit(train_texts, train_labels)
results["TF-IDF"] = bag_of_words.score(validation_texts, validation_labels)
for name, accuracy in results.items():
    print(f"{name}: {accuracy:.1%}")

"""
## Level 1: strings in, labels out

`AlbertClassifier` puts a new layer for the classes on top of the pretrained
encoder. It is compiled with a loss, a metric and an optimizer, AdamW whose
learning rate warms up and decays to zero within each call of `fit()`. `fit()`
takes the strings and the names of the classes. It tokenizes all texts once, and
puts texts of similar length into one batch, so that there is little padding.
"""

classifier = keras_albert.AlbertClassifier.from_preset(preset, labels=class_names)
classifier.fit(
    train_texts,
    train_labels,
    batch_size=16,
    epochs=2,
    verbose=2,
    validation_data=(validation_texts, validation_labels),
)
scores = classifier.evaluate(
    validation_texts, validation_labels, return_dict=True, verbose=0
)
results["AlbertClassifier"] = scores["accuracy"]

"""
`classify()` returns readable predictions, for one text or for many. `score` is
the probability of the label.
"""

print(classifier.classify("There is a payment to a shop that I do not know."))
print(classifier.classify("I was charged twice, and there was a fee.", top_k=3))

"""
Accuracy is one number. The confusion matrix shows which classes are mixed up.
"""

answers = [answer["label"] for answer in classifier.classify(validation_texts)]
counts = confusion_matrix(validation_labels, answers, labels=class_names)
figure, axis = plt.subplots(figsize=(5, 4.5), layout="constrained")
axis.imshow(counts, cmap="Blues")
for row, column in np.ndindex(counts.shape):
    color = "white" if counts[row, column] > counts.max() / 2 else "black"
    axis.text(column, row, counts[row, column], ha="center", va="center", color=color)
axis.set_xticks(range(len(class_names)), class_names, rotation=45, ha="right")
axis.set_yticks(range(len(class_names)), class_names)
axis.set(xlabel="predicted", ylabel="true", title="Messages of the validation set")
plt.show()

"""
## Level 2: control over preprocessing and training

A task consists of parts that can be used alone. The tokenizer splits a text into
tokens, which are words or parts of words, and returns their ids, the numbers of
the tokens in the vocabulary. It also applies the text rules of the vocabulary, such
as lower case and no accents, so a text needs no cleaning, and a served model applies
the same rules. `tokenize_with_offsets()` also returns where in the text each token
is.
"""

preprocessor = keras_albert.AlbertClassifierPreprocessor.from_preset(
    preset, sequence_length=32
)
tokenizer = preprocessor.tokenizer
text = "The Café  refunded me!"
ids, starts, ends = tokenizer.tokenize_with_offsets(text)
for token_id, start, end in zip(ids, starts, ends):
    piece = tokenizer.id_to_token(int(token_id))
    print(f"{token_id:>6}  {piece:<12} {text[start:end]!r}")

"""
The preprocessor packs ids into rows: `[CLS]`, the text, `[SEP]`, then padding.
`[CLS]` and `[SEP]` are special tokens that mark the beginning and the end of a text.
Here `sequence_length` fixes the length of all rows, as TPUs require; a longer text
is truncated. The result is a dict of arrays, so that it can be computed once, stored,
or put into a `tf.data.Dataset`.
"""

train_ids = preprocessor(train_texts)
validation_ids = preprocessor(validation_texts)
train_classes = np.searchsorted(class_names, train_labels)
validation_classes = np.searchsorted(class_names, validation_labels)
for name, array in train_ids.items():
    print(f"{name:>13}  {array.shape}  {array[0, :10]} ...")

"""
With `preprocessor=None` a task takes such dicts. `compile()` takes everything
that it takes in Keras. Here the model has its own optimizer with a constant
learning rate, and no dropout in the encoder. `EarlyStopping` ends the training if
the validation loss does not fall, and restores the best weights.
"""

controlled = keras_albert.AlbertClassifier.from_preset(
    preset,
    num_classes=len(class_names),
    preprocessor=None,
    backbone=keras_albert.AlbertBackbone.from_preset(preset, dropout=0.0),
)
controlled.compile(
    optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy")],
)
controlled.fit(
    train_ids,
    train_classes,
    batch_size=32,
    epochs=2,
    verbose=2,
    validation_data=(validation_ids, validation_classes),
    callbacks=[keras.callbacks.EarlyStopping(restore_best_weights=True)],
)
scores = controlled.evaluate(
    validation_ids, validation_classes, return_dict=True, verbose=0
)
results["AlbertClassifier, own settings"] = scores["accuracy"]

"""
## Level 3: a model of your own

`AlbertBackbone` is a Keras model from the three inputs to `sequence_output`, a
vector per token, and `pooled_output`, a vector per text. The latter is the output
of a dense layer, the pooler, on the vector of `[CLS]`. The backbone can be a part of
any Functional model. This one takes the mean of the tokens instead. The mask leaves
padding out of the mean. Keras may warn that the pooler gets no gradients, since nothing
reads it.
"""

backbone = keras_albert.AlbertBackbone.from_preset(preset)
inputs = backbone.input
tokens = backbone(inputs)["sequence_output"]
mean = keras.layers.GlobalAveragePooling1D()(tokens, mask=inputs["padding_mask"])
mean = keras.layers.Dropout(0.1)(mean)
outputs = keras.layers.Dense(len(class_names), activation="softmax", name="label")(mean)
custom = keras.Model(inputs, outputs)
custom.compile(
    optimizer=keras.optimizers.AdamW(1e-4, global_clipnorm=1.0),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
custom.fit(
    train_ids,
    train_classes,
    batch_size=32,
    epochs=1,
    verbose=2,
    validation_data=(validation_ids, validation_classes),
)
scores = custom.evaluate(
    validation_ids, validation_classes, return_dict=True, verbose=0
)
results["own model, mean of tokens"] = scores["accuracy"]

"""
## With few labels

The models above learned from 960 labels. An encoder pays most where labels are few: it
knows from its pretraining which words are similar, and a bag of words only knows the
words of labelled messages. With at most 500 labels and no options of training, `fit()`
leaves the encoder as it is and solves the new layer on its vectors, in seconds.
"""

for count in (60, 240):
    few = train_texts[:count], train_labels[:count]
    quick = keras_albert.AlbertClassifier.from_preset(preset, labels=class_names)
    quick.fit(*few, verbose=0)
    scores = quick.evaluate(
        validation_texts, validation_labels, return_dict=True, verbose=0
    )
    words = bag_of_words.fit(*few).score(validation_texts, validation_labels)
    print(f"{count} labels: TF-IDF {words:.1%}, ALBERT {scores['accuracy']:.1%}")

"""
## Save and load

`save_to_preset()` writes everything that `from_preset()` needs: weights,
vocabulary, settings and the names of the classes. Any model can also be saved as
a `.keras` file, which `keras.models.load_model()` reads once `keras_albert` is
imported after Keras.
"""

with tempfile.TemporaryDirectory() as directory:
    classifier.save_to_preset(f"{directory}/preset")
    print(sorted(path.name for path in pathlib.Path(directory, "preset").iterdir()))
    loaded = keras_albert.AlbertClassifier.from_preset(f"{directory}/preset")
    custom.save(f"{directory}/custom.keras")
    loaded_custom = keras.models.load_model(f"{directory}/custom.keras")

print(loaded.classify("There is a payment to a shop that I do not know."))
difference = loaded_custom.predict(validation_ids, verbose=0) - custom.predict(
    validation_ids, verbose=0
)
print(f"largest difference after loading: {np.abs(difference).max():.1e}")

"""
## Conclusion
"""

print(f"{'accuracy on ' + str(len(validation_texts)) + ' messages':<32}")
for name, accuracy in results.items():
    print(f"{name:<32} {accuracy:6.1%}")

"""
With 240 messages, a difference of less than about two points may be due to chance. The
bag of words and `AlbertClassifier` are both right about 96 of 100 messages: 960 short
messages are many, and single words such as "cheque" or "twice" often determine the
subject. With 60 labels, ALBERT is right about 93 of 100 and the bag of words about 83.

At full size, the accuracy of ALBERT base on the film reviews of SST-2 is 92.9%
([google-research/albert](https://github.com/google-research/albert)), and a
bag of words and their parts reaches 83.1% ([results](../results.md)): there the order and
the sense of words matter more. Training ALBERT base on the 67,349 phrases of SST-2
needs a GPU.

What to try next:

- a full-size preset: `from_preset("albert_base_en_uncased", num_classes=6)`, on a
  GPU;
- [from 100 labels to a served model](hundred_labels.py): check, label, explain;
- [checkpoints](checkpoints.py): models of transformers, KerasHub and
  google-research;
- [LoRA and int8](lora_and_int8.py): train and store fewer numbers;
- [serving](serving_strings.py): one file that takes strings, for a server.
"""
