"""
Title: Sentence embeddings and semantic search
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Embed texts as vectors, search by meaning, and train on sentence pairs.
Accelerator: GPU
"""

"""
## Introduction

A text embedder maps a text to a vector, so that texts with similar meanings have
similar vectors. The vector of each text is computed once. Two texts are then compared
by a dot product, so that a collection of any size can be searched quickly. A
[cross-encoder](sentence_pairs.py), which reads both texts together, has to read the
whole collection for each query.

BERT and ALBERT are not trained for this. The mean of their token vectors is a poor
embedding, because frequent words, which all texts contain, are most of it. An encoder
becomes an embedder by training on pairs
([Reimers and Gurevych, 2019](https://arxiv.org/abs/1908.10084)): the cosine of two
vectors learns the similarity of two sentences. The preset that is used here,
`albert_small_en_uncased`, has learned to embed texts from such a model,
all-MiniLM-L6-v2, and works without training. The second half of this tutorial trains
it further.
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
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
epochs = 2


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
The first two sentences have no word in common, but the same subject, and the highest
cosine. The third is about something else.

An encoder that was trained on masked words alone needs help here. With a SentencePiece
vocabulary, which has the frequencies of its tokens, `inverse_frequency=1e-3` in
`from_preset()` reduces the weight of frequent ones
([Arora et al., 2017](https://openreview.net/forum?id=SyK00v5xx)).

## Semantic search

The collection is 1,200 messages to a bank about transfers, in ten classes of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0).

A query is embedded like a message, and the nearest vectors are the result. TF-IDF,
which counts words, is the baseline. Its cosine is a dot product, too.
"""

messages = read_table(data_path / "transfer_messages.tsv")
texts = [message["text"] for message in messages]
labels = np.array([message["label"] for message in messages])
tfidf = TfidfVectorizer(sublinear_tf=True).fit(texts)


def embed_all(texts):
    return {"TF-IDF": tfidf.transform(texts).toarray(), "ALBERT": embedder.embed(texts)}


spaces = embed_all(texts)

query = "The other person never received the money."
for name, vectors in embed_all([query]).items():
    scores = spaces[name] @ vectors[0]
    print(f"\n{name}")
    for number in np.argsort(-scores)[:3]:
        print(f"  {scores[number]:.2f}  {labels[number]:>12}  {texts[number]}")

"""
TF-IDF finds messages with the words of the query, ALBERT also "recipient". One query
proves nothing. Each message can be a query: a good neighbour has the same class. The
table shows the share of such messages among the five nearest, without the message
itself. Random neighbours have the share of their class, here a tenth.
"""


def neighbour_share(vectors, count=5):
    scores = vectors @ vectors.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, count)[:, :count]
    return np.mean(labels[nearest] == labels[:, None])


for name, space in spaces.items():
    print(f"{name:<15} {neighbour_share(space):.1%}")

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
for axis, (name, space) in zip(axes, spaces.items()):
    draw(axis, PCA(2).fit_transform(space), name)
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", markerscale=2)
plt.show()

"""
Two of some hundred dimensions show only a part of the space: neighbours in the full
space are more often of one class than neighbours in the picture.

## Training on pairs

`pairs.tsv` contains 800 pairs of captions of pictures with scores from 0 to 5, a part
of [STS-B](https://aclanthology.org/S17-2001/) (CC BY-SA). The last 200 validate.

`fit()` takes pairs as a tuple of two lists, and similarities from -1 to 1 as targets.
The two sentences of a pair are embedded separately, by the same weights. The loss is
the squared error of their cosine. The measure is Spearman's correlation of cosines
and scores.
"""


def read_pairs(rows):
    # Some rows of the official files are truncated.
    rows = [row for row in rows if row.get("score")]
    pairs = [row["sentence1"] for row in rows], [row["sentence2"] for row in rows]
    return pairs, np.array([float(row["score"]) for row in rows], "float32")


rows = read_table(data_path / "pairs.tsv")
train_pairs, train_scores = read_pairs(rows[:-200])
validation_pairs, validation_scores = read_pairs(rows[-200:])


def spearman(first, second):
    cosines = np.sum(first * second, axis=-1)
    return stats.spearmanr(cosines, validation_scores).statistic


tfidf.fit([*train_pairs[0], *train_pairs[1]])  # It counts the words of these sentences.
first, second = (embed_all(sentences) for sentences in validation_pairs)
results = {name: spearman(first[name], second[name]) for name in spaces}

embedder.fit(
    train_pairs,
    train_scores / 5,
    validation_data=(validation_pairs, validation_scores / 5),
    batch_size=16,
    epochs=epochs,
    verbose=2,
)
results["ALBERT, trained"] = spearman(*map(embedder.embed, validation_pairs))

print(f"\n{len(train_scores)} pairs to train, {len(validation_scores)} to validate")
for name, result in results.items():
    print(f"{name:<15} {result:.3f}")

"""
The pairs are captions of pictures, and the messages are about transfers. Training may
make the search better or worse, so look at it as well:
"""

share = neighbour_share(embedder.embed(texts))
print(f"ALBERT, trained: {share:.1%}")

"""
Where there are pairs without scores, such as questions and their answers, build the
embedder with `objective="contrastive"`. Then `fit()` takes pairs alone, and the
second sentence of each must be found among all of the batch.

## Conclusion

An embedder is built with one line, and its vectors work with any index of vectors. This
preset needs no training to be better than TF-IDF: 86% instead of 73% of the neighbours
of a message have its class, and Spearman's correlation on captions is 0.89 instead of
0.72.

600 pairs add nothing to what the preset has learned from many more. On captions the
difference is within the standard error of 0.02, and among the messages 85% of the
neighbours have the right class.

At full size: on STS-B's dev set, Spearman's correlation of this preset is 0.855 without
training and 0.884 after training on its 5,749 pairs, which takes minutes on a CPU
(`benchmarks/few_labels.py`).

What to try next:

- all of STS-B: `read_pairs(read_table("train.tsv"))` and the same with `"dev.tsv"` read
  GLUE's files;
- `objective="contrastive"` with questions and answers of your own;
- `embed(..., truncate=False)` for texts that are longer than a row;
- [serving](serving_strings.py): `embedder.export()` writes a model that takes
  strings;
- [sentence pairs](sentence_pairs.py): a cross-encoder to sort the best results again.
"""
