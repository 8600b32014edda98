"""
Title: Pretraining ALBERT from text files
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Train a vocabulary and an ALBERT with masked tokens and sentence order.
Accelerator: GPU
"""

"""
## Introduction

A pretrained encoder is trained twice: first on texts without labels, then on a
few labelled examples of a task. This tutorial does both from the beginning. It
takes text files, and ends with a classifier:

1. a vocabulary of subwords, trained on the texts,
2. a corpus: pairs of segments, stored on disk,
3. pretraining with **masked tokens** and **sentence order**,
4. fine-tuning with few labels, against random weights and a bag of words.

Masked tokens are the task of BERT: 15% of the tokens are hidden, and the model
predicts them from the others. ALBERT hides whole words, in runs of one to
three.

Sentence order is ALBERT's own. BERT's second task is to predict whether two
segments are from the same document. Their topic alone answers this, so a model
learns little from it. ALBERT reads two consecutive segments, half of the time in
the wrong order. Both have the same topic, so the model has to learn which order
is coherent. In table 5 of
[the paper](https://arxiv.org/abs/1909.11942), the average over five tasks is
80.1 with sentence order, 79.2 with BERT's task and 79.0 with neither.

The texts here are 200 short stories, and the model has a quarter of a million
parameters. It learns these stories, and not English. The steps are the same for
gigabytes of text.
"""

"""
## Setup

The package is installed with
`pip install "keras-albert[torch,pretraining,examples]"`, or with `tensorflow`
or `jax` instead of `torch`. The environment variable `KERAS_BACKEND` selects
the backend. No network is needed.
"""

import csv
import json
import pathlib
import tempfile

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import keras_albert
from keras_albert import pretraining

keras.utils.set_random_seed(0)
steps = 1400
vocabulary_size = 600
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
output = pathlib.Path(tempfile.mkdtemp())

"""
## The texts

A text file has a paragraph or a sentence on each line, and a blank line between
documents. `stories.txt` was generated for this project by a program that fills
six plots with names, things and weather. Much of a sentence can be predicted
from its neighbours, and the sentences have an order. The last 40 stories are
kept for the test at the end, and the model does not read them before.
"""

stories = (data_path / "stories.txt").read_text(encoding="utf-8").split("\n\n")
stories = [story.strip().split("\n") for story in stories if story.strip()]
seen_stories, new_stories = stories[:-40], stories[-40:]

files = [output / "stories.txt"]
documents = "\n\n".join("\n".join(story) for story in seen_stories)
files[0].write_text(documents, encoding="utf-8")
print(f"{files[0].stat().st_size:,} bytes; the first lines:\n")
print("\n".join(documents.split("\n")[:8]))

"""
## A vocabulary

`train_vocabulary_on()` trains a SentencePiece model on the files, with ALBERT's
special tokens. A usual size is 30,000 pieces. SentencePiece finds pieces that many
words have in common, and the stories consist of only 280 different words. So other
texts of this project are read as well, for the vocabulary alone, and it has 600
pieces. ALBERT's text rules (lower case, no accents) are written into the vocabulary
file, so every program that loads it returns the same ids.
"""

names = "support_messages.tsv", "reviews.tsv", "pairs.tsv"
other_files = [data_path / name for name in names]
vocabulary = pretraining.train_vocabulary_on(
    [*files, *other_files], vocabulary_size, hard_vocab_limit=False
)
tokenizer = keras_albert.AlbertTokenizer(vocabulary)
example = "The NEIGHBOURS searched in the fog."
print(f"{tokenizer.vocabulary_size()} pieces")
print([tokenizer.id_to_token(int(token_id)) for token_id in tokenizer(example)])

"""
A piece that begins with `▁` begins a word. A frequent word is one piece, a rare
word several.

## The corpus

`prepare_examples()` splits documents into sentences, tokenizes them, and writes
pairs of consecutive segments, together at most 40 tokens long. It is an Apache
Beam pipeline: it runs in this process, in several, or on Dataflow, Flink and
Spark. 10% of the documents are held out. They are chosen by their content, so
the same document is never in both parts.
"""

prepared = pretraining.prepare_examples(
    files, output / "prepared", vocabulary, sequence_length=40, held_out=0.1
)
for name, count in prepared.counters.items():
    print(f"{name:<36}{count:>8,}")

"""
Masks are not stored. They are drawn when a batch is read, differently in each
epoch, and half of the pairs are swapped. This is a batch of three examples. `▢`
is the token `[MASK]`; of the selected tokens, 80% are replaced by it, 10% by a
random token, and 10% are unchanged.
"""

data = pretraining.PretrainingData(output / "prepared")
x, y, weights = data.batches(3).batch(0)
for row in range(3):
    ids = x["token_ids"][row][x["padding_mask"][row] > 0]
    pieces = [tokenizer.id_to_token(int(token_id)) for token_id in ids]
    shown = "".join("▢" if piece == "[MASK]" else piece for piece in pieces)
    print(shown.replace("▁", " "))
    targets = y["masked_lm"][row][weights["masked_lm"][row] > 0]
    print("  to predict:", [tokenizer.id_to_token(int(t)) for t in targets])
    print("  swapped:" if y["sentence_order"][row] else "  in order", "\n")

"""
## The model

This ALBERT is tiny: its embeddings have 64 numbers per piece, which are
projected to a width of 128, and all layers apply the same block. The number of
layers changes the computation, but not the number of parameters. Dropout is off,
as in version 2 of ALBERT: the masks differ in each epoch, so that a model of this
size does not memorize the texts, and with dropout it learns much more slowly.
"""

architecture = {
    "num_heads": 4,
    "embedding_dim": 64,
    "hidden_dim": 128,
    "intermediate_dim": 256,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
for num_layers in (1, 2, 12):
    backbone = keras_albert.AlbertBackbone(
        tokenizer.vocabulary_size(), num_layers, **architecture
    )
    print(f"{num_layers:>2} layers: {backbone.count_params():,} parameters")

"""
## Pretraining

`PretrainingConfig` holds all settings of a run, and `pretrain()` runs it. The
loss is the sum of both tasks. Every 100 steps the model is evaluated on the held-out
documents. The directory has a checkpoint at any time: if the run is interrupted, the
same call resumes it with the same result.

The beginning takes longest. To predict a word, the model has to attend to its
neighbours, and it learns this separately for each position of a row. Four settings
shorten this phase:

- **Short rows first.** The first stage cuts rows to 24 tokens, so that there are
  fewer positions to learn, with more examples of each.
- **Few layers first.** The first stage applies the block once, and the second twice,
  with the same weights.
- **More masks.** Only masked tokens are predicted. 30%, and then 20%, of the tokens
  are masked instead of 15%.
- **Single words.** With `max_ngram=1`, the neighbours of a masked word are more often
  visible than in runs of up to three.
"""

config = pretraining.PretrainingConfig(
    data=str(output / "prepared"),
    output=str(output / "run"),
    size="tiny",
    backbone={"num_layers": 2, **architecture},
    learning_rate=5e-3,
    max_ngram=1,
    steps=steps,
    stages=[
        {
            "steps": 0.5,
            "batch_size": 64,
            "sequence_length": 24,
            "masked": 0.3,
            "backbone": {"num_layers": 1},
        },
        {"batch_size": 32, "masked": 0.2},
    ],
    log_every=max(1, steps // 14),
    evaluate_every=max(1, steps // 14),
    checkpoint_every=max(1, steps // 2),
)
scores = pretraining.pretrain(config, verbose=2)

"""
`report.json` and `curve.csv` have the figures of the run. The baselines
always predict the most frequent token, and the more frequent order. In the picture they are dotted. If the curves are worse for a while in
the middle, this is the beginning of the second stage, whose rows have positions that
are new to the model.
"""

report = json.loads((output / "run" / "report.json").read_text(encoding="utf-8"))
print(f"{'accuracy on held-out stories':30}{'baseline':>10}{'ALBERT':>10}")
for name in ("masked_lm_accuracy", "sentence_order_accuracy"):
    print(f"{name:30}{report['baselines'][name]:10.1%}{scores[name]:10.1%}")

with open(output / "run" / "curve.csv", encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
for number, name in enumerate(("masked_lm", "sentence_order")):
    for axis, metric in zip(axes, ("loss", "accuracy")):
        column = f"val_{name}_{metric}"
        points = [row for row in rows if row[column]]
        axis.plot(
            [int(row["step"]) for row in points],
            [float(row[column]) for row in points],
            marker=".",
            color=f"C{number}",
            label=name.replace("_", " "),
        )
        axis.set_xlabel("step")
        axis.set_ylabel(f"validation {metric}")
    baseline = report["baselines"][f"{name}_accuracy"]
    axes[1].axhline(baseline, color=f"C{number}", linestyle=":")
axes[0].legend()
figure.tight_layout()
plt.show()

"""
## What the model has learned

The run ends with a preset. `AlbertMaskedLM` predicts masked words with it. In these
stories the neighbours of a word leave few possible answers, and often only one:
"""

preset = output / "run" / "preset"
masked_lm = keras_albert.AlbertMaskedLM.from_preset(preset)
for masked in (
    "The train left the [MASK] at eight.",
    "They reached the island in the afternoon and made a [MASK].",
    "At last they dug up a [MASK] with six silver rings.",
    "In the kitchen she washed the [MASK] and cut them into pieces.",
):
    answers = masked_lm.fill_mask(masked, top_k=3)
    found = ", ".join(f"{each['token_str']} {each['score']:.2f}" for each in answers)
    print(f"{masked}\n    {found}")

"""
`AlbertPretrainer.score_order()` returns the probability that a text follows
another. Here are all pairs of neighbouring sentences of the new stories, in both
orders. This is harder than the rows above: the corpus cuts each story into rows from
its beginning, so it contains some of these pairs often and others hardly ever.
"""

pretrainer = keras_albert.AlbertPretrainer.from_preset(preset)
first = [sentence for story in new_stories for sentence in story[:-1]]
second = [sentence for story in new_stories for sentence in story[1:]]
is_right = pretrainer.score_order(first, second) > pretrainer.score_order(second, first)
print(f"order of {len(first)} pairs: {np.mean(is_right):.1%} correct, chance is 50%")

"""
## Fine-tuning with few labels

The test of pretraining is another task. The classifier reads one sentence, and
returns its place in the story, from 1 to 8. The labelled sentences are drawn
from the stories of the pretraining, and the test uses the 40 new ones. Three
systems are trained with the same labels:

- logistic regression on TF-IDF, the words of the labelled sentences,
- ALBERT with random weights,
- ALBERT with the pretrained weights.
"""


def place_in_story(some_stories):
    pairs = [pair for story in some_stories for pair in enumerate(story, start=1)]
    return [sentence for _, sentence in pairs], [str(place) for place, _ in pairs]


def train_classifier(texts, labels, load_weights):
    keras.utils.set_random_seed(1)
    classifier = keras_albert.AlbertClassifier.from_preset(
        preset, labels=places, load_weights=load_weights
    )
    classifier.compile(learning_rate=1e-3)
    epochs = max(1, fine_tuning_steps * 16 // len(texts))
    classifier.fit(texts, labels, batch_size=16, epochs=epochs, verbose=0)
    return classifier


fine_tuning_steps = 200
places = [str(place) for place in range(1, 9)]
sentences, labels = place_in_story(seen_stories)
test_sentences, test_labels = place_in_story(new_stories)
order = np.random.default_rng(0).permutation(len(sentences))
counts = (16, 64, 256)
accuracies = {"TF-IDF": [], "random weights": [], "pretrained": []}
for count in counts:
    few_sentences = [sentences[row] for row in order[:count]]
    few_labels = [labels[row] for row in order[:count]]
    bag_of_words = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10))
    bag_of_words.fit(few_sentences, few_labels)
    accuracies["TF-IDF"].append(bag_of_words.score(test_sentences, test_labels))
    for name, load_weights in (("random weights", False), ("pretrained", True)):
        classifier = train_classifier(few_sentences, few_labels, load_weights)
        _, accuracy = classifier.evaluate(test_sentences, test_labels, verbose=0)
        accuracies[name].append(accuracy)

print(f"{'labelled sentences':20}" + "".join(f"{count:>8}" for count in counts))
for name, row in accuracies.items():
    print(f"{name:20}" + "".join(f"{accuracy:8.1%}" for accuracy in row))

figure, axes = plt.subplots(figsize=(5, 3.5))
for name, row in accuracies.items():
    axes.plot(counts, row, marker="o", label=name)
axes.axhline(1 / len(places), color="gray", linestyle=":", label="chance")
axes.set_xscale("log")
axes.set_xticks(counts, counts)
axes.minorticks_off()
axes.set_xlabel("labelled sentences")
axes.set_ylabel("accuracy on new stories")
axes.legend()
figure.tight_layout()
plt.show()

"""
The two encoders have the same architecture and the same labels; the difference of
their curves is due to the pretraining. It is four or five points with 16 and 64 labels;
with 256 it is gone, and TF-IDF is best. TF-IDF is a strong baseline here, since each
sentence of these stories has its own fixed words, and one labelled example of a
sentence is enough to recognize it. On real texts, with millions of different
sentences, the words of the labelled examples are not enough.

## At full size

ALBERT base was pretrained for 125,000 steps of 4,096 pairs on 16 GB of text, in
rows of up to 512 tokens, with a vocabulary of 30,000 pieces. This rarely has to be
repeated: continue from a released preset with
`PretrainingConfig(preset="albert_base_v2_en_uncased", ...)`, and prepare the
texts with the same name as `vocabulary`.

A small model needs less: `albert_tiny_en_uncased`, the smallest preset in the package,
was trained on a CPU in hours. Its model card has the texts, the steps and the accuracy.
`albert_small_en_uncased` is better after less training, because it did not start from
random weights but from a larger model ([smaller models](../compression.md)). For a
small model and little time these settings matter, in decreasing order of effect;
[the experiments](../pretraining_experiments.md) have the figures:

- short rows first, then long ones,
- few layers first: since layers share their weights, the same weights continue
  with more layers,
- AdamW at 1e-3 with a short warm-up, for batches of tens to hundreds of rows;
  `Lamb` for batches of thousands,
- more masks while rows are short.

`PretrainingConfig(stages=...)` describes such a run.

## Conclusion

The steps from text files to a fine-tuned classifier are four calls:
`train_vocabulary_on()`, `prepare_examples()`, `pretrain()` and `from_preset()`. After a
minute of training, the model predicts three of four masked words of new stories, where
the most frequent one is right for one of nine, and nearly all orders of two segments.

What to try next:

- Your own texts, plain or gzip, as `files`: [WikiText](https://arxiv.org/abs/1609.07843)
  has this format. Take more steps, a larger vocabulary, and rows of 128 or 512 tokens.
- The same from the command line: `keras-albert prepare` and
  `keras-albert pretrain`.
- `second_task="next_sentence"` or `"none"`, to repeat the comparison of the
  paper.
- Several devices: `PretrainingConfig(distribution=...)`, see
  [Several devices](several_devices.py).
- [Named entity recognition](named_entities.py) and
  [question answering](question_answering.py) with a pretrained preset.
"""
