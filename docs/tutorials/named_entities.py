"""
Title: Named entity recognition with ALBERT
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Tag words of sentences, align tags with subwords and score whole entities.
Accelerator: GPU
"""

"""
## Introduction

Named entity recognition finds the names of people, places and organizations in
a text, and other spans of interest, such as dates. The usual way is to classify
each word. In the scheme BIO, a word is tagged `B-person` if it begins the name
of a person, `I-person` if it is inside one, and `O` if it is outside all
entities:

    Maria     Lindqvist  joined  Northgate       Foods           in  Leeds
    B-person  I-person   O       B-organization  I-organization  O   B-place

A pretrained encoder helps here because the class of a word depends on its
context. A list of names is not enough: "Jordan" may be a person or a
country.

There is one difficulty: words have tags, but ALBERT reads subwords. `Lindqvist`
is several pieces of the vocabulary, and has one tag. `AlbertTokenClassifier`
aligns both. This tutorial

1. calls a tagger that is ready,
2. looks at the alignment,
3. trains two baselines that need no encoder,
4. fine-tunes ALBERT on other kinds of entities,
5. scores whole entities, looks at the errors, and reads new texts.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or
with `tensorflow` or `jax` instead of `torch`. The environment variable
`KERAS_BACKEND` selects the backend. No network is needed: the presets are part of
the package.
"""

import collections
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
from seqeval import metrics
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix

import keras_albert
from keras_albert import text

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased"
epochs = 4
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.

"""
## A tagger that is ready

`albert_small_en_uncased_ner` was fine-tuned on messages of social media (WNUT17), and
knows persons, locations, companies, groups, products and works:
"""

message = (
    "On 3 November Pedro Almeida from Harbour Glass will visit us in Rotterdam. "
    "Birgit meets him at the station, he arrives from Lisbon on Monday."
)
ready = keras_albert.AlbertTokenClassifier.from_preset("albert_small_en_uncased_ner")
for entity in ready.tag(message):
    print(f"{entity['label']:>14} {entity['score']:.2f}  {entity['text']}")

"""
It finds persons and places, and may miss a company such as Harbour Glass. A low score
marks a doubtful entity. For other kinds, or other texts, fine-tune the encoder that it
was made from, `albert_small_en_uncased`, on sentences of your own.

## The data

`entities.conll` has a word and its tag on each line, and a blank line after
each sentence. Its 900 sentences are from English Wikipedia, a part of Wikigold
([Balasuriya et al., 2009](https://aclanthology.org/W09-3302/), CC BY 4.0), with
persons, places, organizations and other names, such as albums and nationalities.
The last 200 sentences, of other articles, are the validation set.

`read_conll()` reads data sets of full size as well, such as
[WNUT17](https://noisy-text.github.io/2017/emerging-rare-entities.html).
"""

words, tags = text.read_conll(data_path / "entities.conll")
train_words, validation_words = words[:-200], words[-200:]
train_tags, validation_tags = tags[:-200], tags[-200:]

kinds = sorted({tag[2:] for row in train_tags for tag in row if tag != "O"})
starts = [tag for row in validation_tags for tag in row if tag.startswith("B-")]
print(f"{len(train_words)} sentences to train, {len(validation_words)} to validate")
print(f"{len(starts)} entities to find, of the kinds {', '.join(kinds)}\n")
for word, tag in zip(train_words[0], train_tags[0]):
    print(f"{word:>16}  {tag}")

"""
## From words to pieces

The preprocessor of the task tokenizes each word separately, so that it is known
which pieces belong to which word. The first piece of a word carries its tag.
Other pieces, `[CLS]`, `[SEP]` and padding have the sample weight 0: they have
no loss, and do not count in the accuracy. `label_all_pieces=True` would tag all
pieces of a word, and average their predictions.
"""

tag_names = text.tag_names(kinds)
preprocessor = keras_albert.AlbertTokenClassifierPreprocessor.from_preset(preset)
sentence = ["Maria", "Lindqvist", "joined", "Northgate", "Foods"]
sentence_tags = ["B-person", "I-person", "O", "B-organization", "I-organization"]
if not set(sentence_tags) <= set(tag_names):
    sentence_tags = ["O"] * len(sentence)
numbers = [tag_names.index(tag) for tag in sentence_tags]
x, y, weights = preprocessor([sentence], [numbers])
for token_id, tag, weight in zip(x["token_ids"][0], y[0], weights[0]):
    token = preprocessor.tokenizer.id_to_token(int(token_id))
    print(f"{token:>12}  {tag_names[tag] if weight else '-':16} weight {weight:.0f}")

"""
The table also shows that this vocabulary is uncased. Its text rules convert all
letters to lower case, so the ids do not show that `Northgate` begins with a
capital. Only the context and the words themselves distinguish names from other
words. For English prose this is a real loss, and it is the reason why good
taggers use a cased vocabulary. `keras_albert` trains and reads those, too (see
`keras_albert.text.TextRules`), but the released English models are uncased.

## Baselines

**Memory.** Each word is assigned the tag that it had most often in the training data;
an unknown word is outside. This is the usual baseline of shared tasks.

**Logistic regression** classifies each word by the word itself, its ending, its
neighbours, and whether they begin with a capital, which is not in the ids that
ALBERT reads.
"""


def remember(rows, row_tags):
    counts = collections.defaultdict(collections.Counter)
    for row, tags_of_row in zip(rows, row_tags):
        for word, tag in zip(row, tags_of_row):
            counts[word.lower()][tag] += 1
    return {word: seen.most_common(1)[0][0] for word, seen in counts.items()}


def word_features(row):
    features = []
    for position, word in enumerate(row):
        described = {"ending": word[-3:].lower(), "is first": position == 0}
        for offset in (-2, -1, 0, 1, 2):
            inside = 0 <= position + offset < len(row)
            other = row[position + offset] if inside else "(edge)"
            described[f"word {offset}"] = other.lower()
            described[f"capital {offset}"] = other[:1].isupper()
            described[f"number {offset}"] = other.isdigit()
        features.append(described)
    return features


memory = remember(train_words, train_tags)
predicted = {
    "memory": [
        [memory.get(word.lower(), "O") for word in row] for row in validation_words
    ]
}

vectorizer = DictVectorizer()
train_features = vectorizer.fit_transform(
    [features for row in train_words for features in word_features(row)]
)
regression = LogisticRegression(C=10, max_iter=1000)
regression.fit(train_features, [tag for row in train_tags for tag in row])
predicted["logistic regression"] = [
    list(regression.predict(vectorizer.transform(word_features(row))))
    for row in validation_words
]

"""
## Fine-tuning ALBERT

`from_preset()` loads the pretrained encoder and puts a new layer on it, with an
output for each tag. `fit()` takes lists of words and lists of tags. The rate is
higher than the usual 1e-5 to 5e-5 because the preset is narrow and the data are few.
"""

tagger = keras_albert.AlbertTokenClassifier.from_preset(preset, labels=tag_names)
tagger.compile(learning_rate=8e-4)
history = tagger.fit(
    train_words,
    train_tags,
    batch_size=16,
    epochs=epochs,
    validation_data=(validation_words, validation_tags),
    verbose=2,
)

"""
The accuracy of words is not informative, since most words are outside of all entities:
a model that finds nothing has a high accuracy. The next section counts
entities.
"""

outside = np.mean([tag == "O" for row in validation_tags for tag in row])
print(f"accuracy of 'everything is O': {outside:.1%}")
print(f"accuracy of ALBERT: {history.history['val_accuracy'][-1]:.1%}")

"""
## Scores of whole entities

An entity counts as found if its first word, its last word and its kind are all
correct. Precision is the share of the returned entities that are correct,
recall the share of the entities that are found, and F1 their harmonic mean.
seqeval computes them from tags; `tagger.evaluate_entities()` does both steps in
one call.
"""

predicted["ALBERT"] = tagger.predict_tags(validation_words)
print(f"{'F1':22}" + "".join(f"{kind:>14}" for kind in kinds) + f"{'all':>8}")
for name, rows in predicted.items():
    report = metrics.classification_report(
        validation_tags, rows, output_dict=True, zero_division=0
    )
    scores = [report.get(kind, {"f1-score": 0})["f1-score"] for kind in kinds]
    line = "".join(f"{score:14.1%}" for score in scores)
    print(f"{name:22}{line}{report['micro avg']['f1-score']:8.1%}")

"""
ALBERT's F1 is about 52%, logistic regression's 38% and memory's 11%. Memory fails on
names that are not in the training data, and most names of a new text are new. Logistic
regression generalizes by capitals and by the words next to a name, ALBERT by the
vectors of words from the pretraining. ALBERT wins on persons and places. Logistic
regression wins on organizations and other names: they consist of words of all kinds,
and only their capitals, which ALBERT does not see, mark them as names.

## Which kinds are confused?

The picture counts words by their true and their predicted kind, without the
difference between `B` and `I`. Each row adds up to 1.
"""


def kinds_of(rows):
    return [tag[2:] or "outside" for row in rows for tag in row]


names = [*kinds, "outside"]
confusion = confusion_matrix(
    kinds_of(validation_tags),
    kinds_of(predicted["ALBERT"]),
    labels=names,
    normalize="true",
)
figure, axes = plt.subplots(figsize=(5.5, 4.5))
axes.imshow(confusion, cmap="Blues", vmin=0, vmax=1)
axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
axes.set_yticks(range(len(names)), names)
axes.set_xlabel("predicted kind")
axes.set_ylabel("true kind")
for i, row in enumerate(confusion):
    for j, share in enumerate(row):
        color = "white" if share > 0.5 else "black"
        axes.text(j, i, f"{share:.2f}", ha="center", va="center", color=color)
figure.tight_layout()
plt.show()

"""
## Reading new texts

`tag()` takes raw text, splits it into words and returns the entities with their
place in the text: `text[start:end]` is the entity, with its capitals. `score`
is the mean probability of the tags of its words.
"""

found = tagger.tag(message)
for entity in found:
    place = f"{entity['start']}-{entity['end']}"
    print(f"{entity['label']:>14} {entity['score']:.2f} {place:>8}  {entity['text']}")

"""
Compare with the answer of the tagger above, which was trained on five times as many
sentences: after 700 sentences, kinds are still mixed up. A picture is easier to read.
It needs only the offsets:
"""


def draw(message, found, width=58):
    colors = dict(zip(kinds, plt.get_cmap("Pastel1").colors))
    color_of = [None] * len(message)
    for entity in found:
        span = entity["end"] - entity["start"]
        color_of[entity["start"] : entity["end"]] = [colors[entity["label"]]] * span
    column, line = 0, 0
    _, axes = plt.subplots(figsize=(9, 1.6))
    for position, character in enumerate(message):
        if character == " " and column > width:
            column, line = 0, line + 1
            continue
        if color_of[position] is not None:
            box = plt.Rectangle((column, -line - 0.45), 1, 0.9)
            box.set_color(color_of[position])
            axes.add_patch(box)
        center = {"ha": "center", "va": "center", "family": "monospace"}
        axes.text(column + 0.5, -line, character, **center)
        column += 1
    for number, kind in enumerate(kinds):
        left = number * (width + 14) / len(kinds)
        axes.text(left, -line - 1.4, kind, backgroundcolor=colors[kind], va="center")
    axes.set_xlim(0, width + 14)
    axes.set_ylim(-line - 2, 0.7)
    axes.axis("off")
    plt.show()


draw(message, found)

"""
Texts may have any length. A text with more pieces than a row of the model is
read in overlapping windows, and each word is tagged in the window in which it
has the most context. Forty copies of the message have forty times its entities;
the model may find another number, since a window has several copies in a row, and
words have other neighbours than in one message:
"""

long_text = " ".join([message] * 40)
print(f"{len(long_text):,} characters, {len(tagger.tag(long_text))} entities")
print(f"forty times the entities of one message: {40 * len(found)}")

"""
## At full size

CoNLL-2003 has 14,041 sentences to train, of news. On its test set, the F1 of BERT
base with a cased vocabulary is 92.4
([Devlin et al., 2018](https://arxiv.org/abs/1810.04805), table 7). WNUT17, with
3,394 messages of social media to train, is far harder, because most of its names
are rare: the F1 of `albert_small_en_uncased` on its dev set is 52.4% ± 0.3% over three
seeds, after eight epochs of `examples/ner.py`. To fine-tune ALBERT base on either takes
minutes on a GPU.

## Conclusion

`AlbertTokenClassifier` trains on words and tags, aligns them with pieces, and returns
entities with their offsets in raw text. After 700 sentences its F1 is about 52%;
logistic regression, which sees capitals, has 38%, and a list of the words of the
training data 11%. A cased encoder would have both, the context and the capitals.

What to try next:

- A full-size preset: replace `preset` by `"albert_base_en_uncased"`, and the
  rate by 3e-5. With a GPU, three epochs on a few thousand sentences take
  minutes.
- Entities in characters: `fit(texts, spans)` takes raw texts, and for each a
  list of dicts of `start`, `end` and `label`.
- `label_all_pieces=True`, and other schemes of tags: BIOES, IOB1 and bare
  labels are detected.
- `tagger.save_to_preset()`, and `tagger.export()`, which writes a model that
  takes strings and returns entities: see [Serving strings](serving_strings.py).
- The same on the command line: `keras-albert finetune token-classification`.
"""
