"""
Title: Sentence embeddings and semantic search
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/25
Description: Embed texts as vectors, search by meaning, and train on sentence pairs.
Accelerator: GPU
"""

"""
## Introduction

A text embedder maps a text to a vector, so that texts with similar meanings have
similar vectors. The vector of each text is computed once. Two texts are then compared
by a dot product, so that a collection of any size can be searched quickly. A
[cross-encoder](sentence_pairs.py), which reads both texts together, is more accurate
and has to read the whole collection for each query.

BERT and ALBERT are not trained for this. The mean of their token vectors is a poor
embedding, because frequent words, which all texts contain, are most of it. The small
preset that is used here is an exception: during its pretraining, the mean was also
trained to have the similarities of a sentence encoder. Three remedies are shown:

- **Weights.** Smooth inverse frequency
  ([Arora et al., 2017](https://openreview.net/forum?id=SyK00v5xx)) reduces the weight
  of frequent tokens in the mean. It needs no training.
- **Removing the common component**, the second half of the same method: the direction
  that all vectors share is subtracted.
- **Training on pairs**
  ([Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084)): the cosine of two
  vectors learns the similarity of two sentences.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or with
`tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the preset `albert_tiny_en_uncased` is part
of the package.
"""

import csv
import os
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_tiny_en_uncased"
data_path = pathlib.Path(os.environ.get("TUTORIAL_DATA", "../../examples/data"))
if not data_path.is_dir():
    print("Download the data of the tutorials, and set TUTORIAL_DATA to their folder.")
pairs_path = os.environ.get("TUTORIAL_PAIRS")
limit = int(os.environ.get("TUTORIAL_LIMIT", "2000"))
epochs = 3


def read_table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


"""
## Vectors

`AlbertTextEmbedder` has a backbone, the encoder, and a pooling, by default the mean of
the token vectors. `embed()` takes a string or a list of strings. Vectors have the
length 1, so that their dot product is their cosine. The table shows the cosine of each
sentence with each.
"""

embedder = keras_albert.AlbertTextEmbedder.from_preset(preset)
sentences = [
    "Where is my parcel?",
    "When does the package arrive?",
    "I have forgotten my password.",
]
vectors = embedder.embed(sentences)
print(vectors.shape)
print(np.round(vectors @ vectors.T, 2))

"""
The first two sentences have no word in common, but the same subject. The third is about
something else, so its cosines should be the lowest. With `inverse_frequency` set to
`a`, a token of the probability `p` has the weight `a / (a + p)`. Probabilities are
those of the tokenizer's vocabulary, so they need no further data.
"""

weighted = keras_albert.AlbertTextEmbedder.from_preset(preset, inverse_frequency=1e-3)
vectors = weighted.embed(sentences)
print(np.round(vectors @ vectors.T, 2))

"""
## The common component

The collection is 1,200 support messages in six classes, written for this project. The
first singular vector of their embeddings is the direction that they have in common. A
dot product with it measures how much of it a text has, and this part is subtracted. A
file of your own with the columns `label` and `text` can take the place of the messages:
set `TUTORIAL_MESSAGES` to its path.
"""

own_messages = os.environ.get("TUTORIAL_MESSAGES")
messages = read_table(own_messages or data_path / "support_messages.tsv")
texts = [message["text"] for message in messages]
labels = np.array([message["label"] for message in messages])
collection = weighted.embed(texts)
common = TruncatedSVD(1).fit(collection).components_[0]
print(f"mean share of the common direction: {np.mean((collection @ common) ** 2):.0%}")


def remove_common(vectors):
    vectors = vectors - np.outer(vectors @ common, common)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


vectors = remove_common(weighted.embed(sentences))
print(np.round(vectors @ vectors.T, 2))

"""
The cosines are now lower, and closer to zero for texts without anything in common.
Whether the right texts are near each other is another question, which the next section
measures.

## Semantic search

A query is embedded like a message, and the nearest vectors are the result. TF-IDF,
which counts words, is the baseline. Its cosine is a dot product, too.
"""

tfidf = TfidfVectorizer(sublinear_tf=True).fit(texts)


def embed_all(texts):
    vectors = weighted.embed(texts)
    return {
        "TF-IDF": tfidf.transform(texts).toarray(),
        "ALBERT, mean": embedder.embed(texts),
        "ALBERT, weighted": vectors,
        "ALBERT, common removed": remove_common(vectors),
    }


spaces = embed_all(texts)

query = "I was charged twice this month"
for name, vectors in embed_all([query]).items():
    scores = spaces[name] @ vectors[0]
    print(f"\n{name}")
    for number in np.argsort(-scores)[:3]:
        print(f"  {scores[number]:.2f}  {labels[number]:>9}  {texts[number]}")

"""
One query proves nothing. Each message can be a query: a good neighbour has the same
class. The table shows the share of such messages among the five nearest, without the
message itself. Random neighbours have the share of their class, here one sixth.
"""


def neighbour_share(vectors, count=5):
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, count)[:, :count]
    return np.mean(labels[nearest] == labels[:, None])


for name, space in spaces.items():
    print(f"{name:<22} {neighbour_share(space):.1%}")

"""
## A picture of the space

Principal components show the two directions in which the vectors differ most. Each
point is a message, and the colour is its class, which no method has seen.
"""


def draw(axis, points, title):
    for label in sorted(set(labels)):
        axis.scatter(*points[labels == label].T, s=6, alpha=0.6, label=label)
    axis.set(title=title, xticks=[], yticks=[])


figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for axis, name in zip(axes, ("TF-IDF", "ALBERT, common removed")):
    draw(axis, PCA(2).fit_transform(spaces[name]), name)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", markerscale=2)
plt.show()

"""
Two of some hundred dimensions show only a part of the space: neighbours in the full
space are more often of one class than neighbours in the picture.

## Training on pairs

`pairs.tsv` contains pairs of sentences with scores from 0 to 5, written for this
project in the format of STS-B. To use the official files instead, set `TUTORIAL_PAIRS`
to the directory of `train.tsv` and `dev.tsv`, and `TUTORIAL_LIMIT` to the number of
training rows.

`fit()` takes pairs as a tuple of two lists, and similarities from -1 to 1 as targets.
The two sentences of a pair are embedded separately, by the same weights. The loss is
the squared error of their cosine. The measure is Spearman's correlation of cosines
and scores.
"""

if pairs_path:
    train = read_table(f"{pairs_path}/train.tsv")
    validation = read_table(f"{pairs_path}/dev.tsv")
else:
    # Five consecutive rows have one sentence in common.
    rows = read_table(data_path / "pairs.tsv")
    train, validation = rows[:-80], rows[-80:]


def read_pairs(rows, limit=None):
    # Some rows of the official files are truncated.
    rows = [row for row in rows if row.get("score")][:limit]
    pairs = [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
    return pairs, np.array([float(row["score"]) for row in rows], "float32")


train_pairs, train_scores = read_pairs(train, limit)
validation_pairs, validation_scores = read_pairs(validation)


def spearman(first, second):
    cosines = np.sum(first * second, axis=-1)
    return stats.spearmanr(cosines, validation_scores).statistic


# TF-IDF counts the words of these sentences; the common direction is the one above.
tfidf.fit([*train_pairs[0], *train_pairs[1]])
first, second = (embed_all(sentences) for sentences in validation_pairs)
results = {name: spearman(first[name], second[name]) for name in spaces}

weighted.compile(learning_rate=1e-4)
weighted.fit(
    train_pairs,
    train_scores / 5,
    validation_data=(validation_pairs, validation_scores / 5),
    batch_size=16,
    epochs=epochs,
    verbose=2,
)
results["ALBERT, weighted, trained"] = spearman(*map(weighted.embed, validation_pairs))

print(f"\n{len(train_scores)} pairs to train, {len(validation_scores)} to validate")
for name, result in results.items():
    print(f"{name:<25} {result:.3f}")

"""
Training changes the search, too, and not always for the better: the pairs are about
daily life, and the messages about orders and passwords.
"""

share = neighbour_share(weighted.embed(texts))
print(f"ALBERT, weighted, trained: {share:.1%}")

"""
Where there are pairs without scores, such as questions and their answers, build the
embedder with `objective="contrastive"`. Then `fit()` takes pairs alone, and the
second sentence of each must be found among those of the batch.

## Conclusion

An embedder is built with one line, and its vectors work with any index of vectors.
The weights and the removal of the common component need no training; the tables above
show what they change. TF-IDF is a strong baseline for messages, since those of one
class use the same words. It is weaker on pairs that were written to share words and
differ in meaning, or the reverse. Synonyms and other word forms are learned from much
text, and the preset used here was pretrained on little.

The last digits of the table are noise, since the standard error of a correlation of 80
pairs is about 0.06, and a few hundred pairs to train are few.

At full size: with STS-B's 5,749 pairs the small preset needs minutes on a CPU; the
[results](../results.md) have its correlation on the dev set before and after training.
Encoders that are trained on a million pairs reach a correlation of about 0.85 on its
dev set
([a small BERT](https://huggingface.co/ceshine/TinyBERT_L-4_H-312_v2-distill-AllNLI)).

What to try next:

- `TUTORIAL_PAIRS=path/to/STS-B TUTORIAL_LIMIT=6000`;
- a full-size preset such as `albert_base_en_uncased`;
- `embed_documents()` for texts that are longer than a row;
- [serving](serving_strings.py): `embedder.export()` writes a model that takes
  strings;
- [sentence pairs](sentence_pairs.py): a cross-encoder to sort the best results again.
"""
