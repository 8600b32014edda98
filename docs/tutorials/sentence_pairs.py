"""
Title: Similarity of sentence pairs
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Fine-tune ALBERT to score how similar the meanings of two sentences are.
Accelerator: GPU
"""

"""
## Introduction

Are two questions duplicates? Does a sentence follow from another? Do two headlines
report the same event? Such a task has two texts as its input, and one answer.

A Transformer can read both texts in one row, `[CLS] first [SEP] second [SEP]`, so
that each token of one sentence attends to all tokens of the other. Such a model is
called a cross-encoder. It can be trained for any relation of two texts, and it is slow
if there are many: a thousand sentences have half a million pairs. The alternative for
similarity, one vector per sentence, is the subject of
[sentence embeddings](sentence_embeddings.py).

This tutorial trains a cross-encoder on scores from 0, different subjects, to 5, the
same meaning. It compares the result with two cosines that need no training, of TF-IDF
vectors, which count words, and of embeddings, and shows the effect of the order of the
two sentences.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or with
`tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the presets are part of the package.
"""

import csv
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased_squad"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
epochs = 2

"""
## The data

`pairs.tsv` contains 800 pairs of captions of pictures, a part of
[STS-B](https://aclanthology.org/S17-2001/) (CC BY-SA). Several people scored each pair.
The last 200 rows are from its dev set, and validate; no caption is in both parts.
"""


def read_pairs(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    # Some rows of the official files are truncated.
    rows = [row for row in rows if row.get("score")]
    pairs = [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
    return pairs, np.array([float(row["score"]) for row in rows], "float32")


def take(data, part):
    (first, second), scores = data
    return (first[part], second[part]), scores[part]


data = read_pairs(data_path / "pairs.tsv")
train_pairs, train_scores = take(data, slice(-200))
validation_pairs, validation_scores = take(data, slice(-200, None))

print(f"{len(train_scores)} pairs to train, {len(validation_scores)} to validate")
for first, second, score in list(zip(*train_pairs, train_scores))[:5]:
    print(f"{score:.1f}  {first}  |  {second}")

"""
Two captions may share most of their words and describe different pictures, or share few
words and describe the same one. A count of common words is wrong about both.

## What the model reads

The preprocessor packs a pair into one row. A pair is a tuple, and a list of pairs is
a tuple of two lists. Segment ids mark the sentence of each token.
"""

preprocessor = keras_albert.AlbertClassifierPreprocessor.from_preset(preset)
row = preprocessor(("Our team won.", "We lost the match."))
print(f"{'token':>10}  segment")
for token_id, segment in zip(row["token_ids"], row["segment_ids"]):
    print(f"{preprocessor.tokenizer.id_to_token(int(token_id)):>10}  {segment}")

"""
## The baselines

The cosine of two TF-IDF vectors needs no scores to learn from: it counts common
words, rare words more than frequent ones. The second baseline counts parts of words,
of two to five letters, so that "run" and "runs" have something in common. The third
is the cosine of two embeddings of `albert_small_en_uncased`, which has learned from a
sentence encoder to embed sentences.

The two usual measures are Pearson's correlation with the scores, and Spearman's,
which compares the ranks. Both are 0 for random numbers, and undefined for a model that
returns the same number for each pair.
"""


def correlations(predictions):
    pearson = stats.pearsonr(predictions, validation_scores).statistic
    spearman = stats.spearmanr(predictions, validation_scores).statistic
    return pearson, spearman


def tfidf_cosines(**arguments):
    vectorizer = TfidfVectorizer(sublinear_tf=True, **arguments)
    vectorizer.fit([*train_pairs[0], *train_pairs[1]])
    first, second = (normalize(vectorizer.transform(x)) for x in validation_pairs)
    return np.asarray(first.multiply(second).sum(axis=1)).ravel()


embedder = keras_albert.AlbertTextEmbedder.from_preset("albert_small_en_uncased")
first, second = map(embedder.embed, validation_pairs)
results = {
    "TF-IDF of words": tfidf_cosines(),
    "TF-IDF of parts": tfidf_cosines(analyzer="char_wb", ngram_range=(2, 5)),
    "embeddings": (first * second).sum(axis=-1),
}
for name, predictions in results.items():
    print(f"{name}: Pearson {correlations(predictions)[0]:.3f}")

"""
## Training

A classifier with one class is a regression: its output is one number, and its loss is
the squared error. Scores are divided by 5, so that they have the size of the outputs
of a new head.

The preset was fine-tuned to answer questions, and another task keeps its encoder. That
encoder has read two texts in one row, and `albert_small_en_uncased` has not, which it
would first have to learn from these few pairs.

The similarity of two sentences does not depend on which one is first, but a row has
an order. So each pair is in the training set in both orders, which also doubles the
data.
"""

classifier = keras_albert.AlbertClassifier.from_preset(preset, num_classes=1)
first, second = train_pairs
history = classifier.fit(
    (first + second, second + first),
    np.concatenate([train_scores, train_scores]) / 5,
    validation_data=(validation_pairs, validation_scores / 5),
    batch_size=16,
    epochs=epochs,
    verbose=2,
)

"""
Compare `rmse` and `val_rmse`, the roots of the mean squared error: after two epochs
they are close. With more epochs a model memorizes a few hundred pairs: the first keeps
falling, and the second does not.

## Evaluation

The model scores the validation set in both orders. The mean of the two is symmetric,
and a mean of two predictions is usually better than either of them.
"""

first, second = validation_pairs
one_way = classifier.predict((first, second), verbose=0)[:, 0]
other_way = classifier.predict((second, first), verbose=0)[:, 0]
print(
    f"mean difference of the two orders: {5 * np.abs(one_way - other_way).mean():.2f}"
)
results["ALBERT, one order"] = one_way
results["ALBERT, the other"] = other_way
results["ALBERT, mean of both"] = (one_way + other_way) / 2
results["ALBERT and embeddings"] = stats.zscore(
    results["ALBERT, mean of both"]
) + stats.zscore(results["embeddings"])

print(f"\n{'':<27} Pearson  Spearman")
for name, predictions in results.items():
    pearson, spearman = correlations(predictions)
    print(f"{name:<27} {pearson:7.3f}  {spearman:8.3f}")

"""
The last row is the sum of two standardized scores. It would be above both of them if
the two methods made different errors; here the embeddings alone are as good.

A picture shows what a correlation hides: which pairs are scored well, and whether the
outputs use the whole range.
"""

noise = np.random.default_rng(0).uniform(-0.15, 0.15, len(validation_scores))
figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
names = "embeddings", "ALBERT, mean of both"
for axis, name in zip(axes, names):
    axis.scatter(validation_scores + noise, results[name], s=14, alpha=0.6)
    axis.set(xlabel="score of a person", ylabel="output", title=name)
    axis.grid(alpha=0.3)
plt.show()

"""
These are the pairs that the model scores worst:
"""

predicted = 5 * results["ALBERT, mean of both"]
worst = np.argsort(-np.abs(predicted - validation_scores))[:6]
print("person  model")
for number in worst:
    print(
        f"{validation_scores[number]:6.1f}  {predicted[number]:5.1f}  "
        f"{first[number]}  |  {second[number]}"
    )

"""
## Predictions

`classify()` takes one pair or many, and returns the score on the scale of the
training.
"""

for pair in (
    ("The shop is closed on Sundays.", "On Sundays the shop does not open."),
    ("The shop is closed on Sundays.", "The shop is open on Sundays."),
    ("The shop is closed on Sundays.", "Two horses are standing in a field."),
):
    print(f"{5 * classifier.classify(pair)['score']:.1f}  {pair[1]}")

"""
## Conclusion

A pair is one row, and similarity is one number: `AlbertClassifier` with one class. On
these 200 pairs, Spearman's correlation is about 0.84 for the cross-encoder, 0.72 for
TF-IDF of words, and 0.89 for embeddings without any training. 600 pairs are too few to
learn which words change the meaning of a sentence: "open" and "closed" still count as
similar.

At full size, the Spearman correlations on STS-B's dev set are

- 0.754 for the cosine of TF-IDF vectors, and 0.855 for the cosine of the embeddings of
  `albert_small_en_uncased`, both without training ([results](../results.md));
- 0.836 ± 0.007 for `albert_small_en_uncased` on pairs in one row, three seeds of four
  epochs on its 5,749 pairs (`examples/glue.py sts-b`), and 0.884 for its embeddings,
  trained on the same pairs (`benchmarks/few_labels.py`);
- 0.895 for ALBERT base on pairs in one row, in the table of
  [PABEE](https://github.com/huggingface/transformers/tree/98ad48f/examples/research_projects/bert-loses-patience).

So for the similarity of sentences, embeddings of the small model are the better choice.
For other relations, such as "follows from" or "answers", train a cross-encoder.

What to try next:

- all of STS-B, whose `train.tsv` and `dev.tsv` `read_pairs()` reads as well, and
  `preset = "albert_base_en_uncased"`;
- classes instead of scores, for example `AlbertClassifier` with `num_classes=3` and
  the labels of a data set of inferences;
- [sentence embeddings](sentence_embeddings.py), to compare one sentence with many;
- [GLUE](glue.py), with the other tasks on pairs.
"""
