"""
Title: Extractive question answering with ALBERT
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Find answers in long contexts with windows, or predict that there is none.
Accelerator: GPU
"""

"""
## Introduction

Extractive question answering takes a question and a context, and returns the
part of the context that answers the question. No text is written: the model
finds where the answer begins and where it ends, so every answer can be shown in
its context.

The encoder reads both texts in one row:

    [CLS] how long is the pool ? [SEP] the pool is 25 metres long ... [SEP]

A small layer on top returns two numbers for each token: how likely the answer
begins there, and how likely it ends there. Two problems remain, and most of the
code of such programs deals with them:

- **Contexts are longer than a row.** A manual has thousands of tokens, and a
  row of ALBERT at most 512. The context is split into overlapping windows, and
  each is read with the question.
- **Some questions have no answer.** Then the answer is the token `[CLS]`, and a
  threshold separates both cases. SQuAD 2.0 made this part of the task.

`AlbertQuestionAnswerer` takes strings, and solves both. This tutorial starts with a
reader that is ready, trains it further on questions about paragraphs of Wikipedia, some
of which have no answer, chooses the threshold, and then answers the same questions
about long documents.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or
with `tensorflow` or `jax` instead of `torch`. The environment variable
`KERAS_BACKEND` selects the backend. No network is needed: the preset
`albert_small_en_uncased_squad` is part of the package.
"""

import pathlib
import re

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import keras_albert
from keras_albert import text
from keras_albert.tasks import squad_scores

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased_squad"
epochs = 2
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.

"""
## A reader that is ready

`albert_small_en_uncased_squad` was fine-tuned on questions of SQuAD 1.1 and on
questions made of sentences of Wikipedia. An answer is a part of the context, with its
place and the probability of the span:
"""

reader = keras_albert.AlbertQuestionAnswerer.from_preset(preset)
context = (
    "The bridge over the river was opened in 1932 by the mayor, Anna Keller. "
    "It is 503 metres long and carries eight lanes of traffic."
)
for question in ("When was the bridge opened?", "How long is it?", "Who built it?"):
    print(question, reader.answer(question, context))

"""
All questions of SQuAD 1.1 have an answer, so this reader always returns one, even to
the last question. To learn that there is none, it needs such questions.

## The data

`questions.json` contains 80 paragraphs of 40 articles of Wikipedia, with 404
questions of SQuAD ([Rajpurkar et al., 2016](https://arxiv.org/abs/1606.05250),
CC BY-SA 4.0; from its part in [XQuAD](https://arxiv.org/abs/1910.11856)). We added
to each paragraph a question about the article's other paragraph, whose answer it
does not contain. The format is SQuAD 2.0's, which `read_squad()` reads. All
questions about the last ten articles are the validation set. A split of single
questions would be wrong: the model would be trained on the contexts of the
validation set.
"""


def take(file, rows):
    return text.SquadFile(*([column[row] for row in rows] for column in file))


def split_by_context(file, is_held_out):
    names = list(dict.fromkeys(file.contexts))
    held_out = {name for number, name in enumerate(names) if is_held_out(number)}
    rows = range(len(file.ids))
    return (
        take(file, [row for row in rows if file.contexts[row] not in held_out]),
        take(file, [row for row in rows if file.contexts[row] in held_out]),
    )


questions = text.read_squad(data_path / "questions.json")
train, validation = split_by_context(questions, lambda number: number >= 60)

for name, file in (("train", train), ("validation", validation)):
    empty = sum(not answer["text"] for answer in file.answers)
    print(f"{name}: {len(file.ids)} questions, {empty} of them without an answer")
print(f"\n{validation.contexts[0]}\n")
for question, answer in list(zip(validation.questions, validation.answers))[:8]:
    print(f"{question:50} {answer['text'][0] if answer['text'] else '(no answer)'}")

"""
## Rows, windows and targets

The data contain an answer as text, with the position of its first character. The
preprocessor converts it to the positions of its first and last token. If a
context does not fit into a row, it returns several rows. `doc_stride` is the
distance in tokens between the beginnings of two windows. It should be so small
that each answer is complete in some window.

Here are the rows of one question if a row has only 64 tokens. The windows that
do not contain the whole answer have `[CLS]`, position 0, as their target, so
the model also learns where the answer is not.
"""

short = keras_albert.AlbertQuestionAnswererPreprocessor.from_preset(
    preset, max_sequence_length=64, doc_stride=32
)
x, y = short((validation.questions[1], validation.contexts[1]), validation.answers[1])
for row in range(len(x["token_ids"])):
    ids = x["token_ids"][row]
    context = ids[(x["segment_ids"][row] == 1) & (x["padding_mask"][row] == 1)][:-1]
    words = short.tokenizer.detokenize(context).split()
    start, end = int(y["start_logits"][row]), int(y["end_logits"][row])
    target = short.tokenizer.detokenize(ids[start : end + 1]) if start else "[CLS]"
    print(f"{' '.join(words[:5])} ... {' '.join(words[-4:])}")
    print(f"    target: {start} to {end}, {target}")

"""
## Baselines

The usual scores of SQuAD are exact match, the share of the answers that are
exactly right, and F1, which counts common words. Both ignore case, punctuation
and articles. An empty answer to a question without an answer has the score 1.

There are two baselines. The first never answers. The second returns the
sentence that is most similar to the question: the one with the largest cosine of
TF-IDF vectors, from sequences of two to five characters.
"""

vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
vectorizer.fit(list(dict.fromkeys(train.contexts)))


def best_sentence(question, context):
    sentences = re.split(r"(?<=[.!?;]) ", context.replace("\n", " "))
    asked = vectorizer.transform([question])
    similarities = (vectorizer.transform(sentences) @ asked.T).toarray()[:, 0]
    return sentences[similarities.argmax()]


found_sentences = [best_sentence(*pair) for pair in zip(*validation.x)]
results = {"no answer": [""] * len(validation.ids), "best sentence": found_sentences}
has_answer = [
    answer["text"][0] in sentence
    for answer, sentence in zip(validation.answers, found_sentences)
    if answer["text"]
]
print(f"the best sentence contains the answer: {np.mean(has_answer):.1%}")

"""
## Training

The first result is from the reader as it is. Then `fit()` takes questions and
contexts, and the answers. Most paragraphs fit into a row of 192 tokens. The answerer
has two heads: `"independent"` is the simple layer described above, and `"conditional"`,
which the authors of ALBERT use for SQuAD 2.0, predicts the end from the start, and has
a classifier for "no answer".

A part of the training contexts is kept for the choice of the threshold.
"""

found = reader.answer(*validation.x)
results["ALBERT, not trained further"] = [answer["answer"] for answer in found]

train, threshold_questions = split_by_context(train, lambda number: number % 5 == 4)
preprocessor = keras_albert.AlbertQuestionAnswererPreprocessor.from_preset(
    preset, max_sequence_length=192, doc_stride=96
)
reader = keras_albert.AlbertQuestionAnswerer.from_preset(
    preset, preprocessor=preprocessor
)
history = reader.fit(
    train.x,
    train.answers,
    batch_size=16,
    epochs=epochs,
    validation_data=(validation.x, validation.answers),
    verbose=2,
)

"""
## No answer

For each question, the answerer compares the score of the best span with the
score of `[CLS]`. The logarithm of their ratio is the log-odds of "no answer".
Above a threshold, "no answer" is returned. A high threshold means that the
model answers nearly every question, also those that have no answer.

`choose_null_threshold()` takes the threshold with the best F1 on the questions
that were kept for it. The picture shows what a threshold does, on the
validation set. With `null_threshold` at minus infinity, `answer(top_k=2)`
returns "no answer" first and the best span second.
"""

reader.null_threshold = -np.inf
pairs = reader.answer(*validation.x, top_k=2)
spans = [spans[-1]["answer"] for spans in pairs]
log_odds = np.array(
    [np.log(nothing["score"] / best["score"]) for nothing, *_, best in pairs]
)
thresholds = np.linspace(np.quantile(log_odds, 0.02), log_odds.max(), 25)
curves = {"all questions": [], "with an answer": [], "without an answer": []}
for threshold in thresholds:
    answers = ["" if odds > threshold else a for odds, a in zip(log_odds, spans)]
    scores = squad_scores(answers, validation.answers)
    for name, key in zip(curves, ("f1", "HasAns_f1", "NoAns_f1")):
        curves[name].append(scores.get(key, np.nan))

chosen = np.inf
if any(not answer["text"] for answer in threshold_questions.answers):
    chosen = reader.choose_null_threshold(
        threshold_questions.x, threshold_questions.answers
    )
reader.null_threshold = chosen
print(f"threshold chosen on {len(threshold_questions.ids)} questions: {chosen:.2f}")
figure, axes = plt.subplots(figsize=(6, 3.5))
for name, curve in curves.items():
    axes.plot(thresholds, curve, label=name)
if np.isfinite(chosen):
    axes.axvline(chosen, color="gray", linestyle=":", label="chosen")
axes.set_xlabel("threshold for the log-odds of no answer")
axes.set_ylabel("F1")
axes.legend()
figure.tight_layout()
plt.show()

"""
## Results
"""

results["ALBERT, always a span"] = spans
answered = reader.answer(*validation.x)
results["ALBERT, with the threshold"] = [answer["answer"] for answer in answered]
print(f"{'':36}{'exact match':>12}{'F1':>8}{'F1 with':>10}{'F1 without':>12}")
for name, answers in results.items():
    scores = squad_scores(answers, validation.answers, version_2=True)
    figures = [scores.get(key, 0) for key in ("f1", "HasAns_f1", "NoAns_f1")]
    line = "{:8.1f}{:10.1f}{:12.1f}".format(*figures)
    print(f"{name:36}{scores['exact_match']:12.1f}{line}")

print()
rows = list(zip(validation.questions, validation.answers, answered))
for question, right, answer in rows[:12]:
    expected = right["text"][0] if right["text"] else "(no answer)"
    print(f"{question}\n    {answer['answer'] or '(no answer)'}   [{expected}]")

"""
Compare each row with the first two, the baselines. In the list below the table, look at
the kind of each answer (a number, a name, a place), at its ends, and at the questions
without an answer. The threshold exchanges some right answers for right refusals. It was
chosen on few questions, so it need not raise the F1 of others.

Here the F1 of the reader grows from about 39 to 42 by training, and to 56 with the
threshold; the best sentence has 13. On questions with an answer, training raises it
from 47 to 52, which may be chance: there are 90 of them.

## At full size

ALBERT base has an F1 of 90.2 on SQuAD 1.1 and
of 82.1 on SQuAD 2.0
([google-research/albert](https://github.com/google-research/albert)), after training
on about 88 and 130 thousand questions. This needs a GPU.

## Long documents

`answer()` takes contexts of any length: it makes the windows, reads all of them, and
returns the best span of all. The alternative is to search first, and to read the best
sentence only. To measure the effect of length, each validation paragraph is put
between others. The answer is the same, and the text around it grows:
"""

paragraphs = list(dict.fromkeys(validation.contexts))
answerable = [row for row, a in enumerate(validation.answers) if a["text"]][:30]
asked = take(validation, answerable)
reader.null_threshold = np.inf
print(f"{'texts':>8}{'tokens':>8}{'windows':>9}{'F1, windows':>13}{'F1, sentence':>14}")
for count in (1, 2, 4, 8):
    documents = []
    for context in asked.contexts:
        others = [other for other in paragraphs if other != context][: count - 1]
        others.insert(count // 2, context)
        documents.append("\n".join(others))
    tokens = len(reader.preprocessor.tokenizer(documents[0]))
    windows = reader.preprocessor((asked.questions[:1], documents[:1]))
    line = f"{count:>8}{tokens:>8}{len(windows['token_ids']):>9}"
    found = reader.answer(asked.questions, documents)
    scores = squad_scores([answer["answer"] for answer in found], asked.answers)
    line += f"{scores['f1']:>13.1f}"
    pairs = zip(asked.questions, documents)
    found = reader.answer(asked.questions, [best_sentence(*pair) for pair in pairs])
    scores = squad_scores([answer["answer"] for answer in found], asked.answers)
    print(f"{line}{scores['f1']:>14.1f}")

"""
Each further window is another chance for a wrong span with a high score, and costs
as much time as the first. A search costs little, and here it finds the sentence in any
length: from four paragraphs on, it is better to search first. For large collections it
needs an index, for example of the vectors of `AlbertTextEmbedder`.

## Conclusion

`AlbertQuestionAnswerer` trains on questions, contexts and answers in the format
of SQuAD. It makes the windows, finds the positions of tokens, and returns answers as
parts of the original text. The threshold for "no answer" is chosen by one call. Three
hundred questions of your own are enough to teach a reader that is ready when to refuse:
its F1 is 56 instead of 39, where the best sentence has 13. In long documents, find the
passage by a simpler method, and the answer by the model.

What to try next:

- All of SQuAD, with a preset of full size: `text.read_squad()` reads its
  `train-v2.0.json` and `dev-v2.0.json`. Replace `preset` by
  `"albert_base_en_uncased"`, the rate by 3e-5, `epochs` by 2 and the length of rows by
  384. This needs a GPU.
  `keras-albert finetune question-answering --recipe squad-2.0` has the
  hyperparameters of the paper.
- `head="conditional"`, the head of the paper for SQuAD 2.0.
- `reader.answer(question, context, top_k=3)`, for several answers with their
  probabilities.
- `reader.export()`, which writes a model that takes a question and a context of
  any length, and contains the windows: see
  [Serving strings](serving_strings.py).
- [Sentence embeddings](sentence_embeddings.py), to search for passages.
"""
