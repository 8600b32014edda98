"""
Title: Multiple choice
Author: keras_albert authors
Date created: 2026/11/23
Last modified: 2026/11/27
Description: Choose the answer to a question about a text among three or four choices.
Accelerator: GPU
"""

"""
## Introduction

In a multiple-choice task there is a question, often about a text, and some choices,
of which one is right. An example is RACE, exams for school children, on which ALBERT's
paper reports its largest gain over BERT. Another is the choice of the sentence that
continues a text.

A classifier with four classes does not fit, since the choices differ between questions.
Instead, each choice is packed into its own row:

    [CLS] text [SEP] question and choice [SEP]

The model computes one number for each row, and the softmax over the rows of a
question is the probability of each choice. This has two consequences. The order of
the choices cannot matter, and the number of choices may differ between questions. The
cost is one row per choice.

This tutorial trains on two data sets: questions about short texts, and questions made
from messages with labels.
"""

"""
## Setup

The package is installed with `pip install "keras-albert[torch,examples]"`, or with
`tensorflow` or `jax` instead of `torch`. The environment variable `KERAS_BACKEND`
selects the backend. No network is needed: the preset `albert_small_en_uncased_squad` is
part of the package.
"""

import csv
import json
import pathlib
import random

import keras
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

import keras_albert

keras.utils.set_random_seed(0)
preset = "albert_small_en_uncased_squad"
data_path = pathlib.Path("../../examples/data")
if not data_path.is_dir():
    data_path = pathlib.Path()  # The file was downloaded next to this one.
epochs = 2

"""
## The data

`choices.jsonl` contains 240 questions about 60 short texts, which were written for
this project. Each line has a `context`, a `question`, its `choices`, and the letter
of the `answer`. Four consecutive questions are about the same text; the last 60 are
the validation set.

`read_questions()` reads the files of CommonsenseQA, whose questions have no text, and
of RACE as well. RACE has a file for each text; join the files of a folder first, with a
text and its questions in each line.
"""


def read_questions(path):
    questions = []
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for line in lines:
        if "article" in line:  # RACE
            for question, choices, answer in zip(
                line["questions"], line["options"], line["answers"]
            ):
                questions.append(
                    {
                        "context": line["article"],
                        "question": question,
                        "choices": choices,
                        "answer": answer,
                    }
                )
        elif "answerKey" in line:  # CommonsenseQA
            questions.append(
                {
                    "question": line["question"]["stem"],
                    "choices": [x["text"] for x in line["question"]["choices"]],
                    "answer": line["answerKey"],
                }
            )
        else:
            questions.append(line)
    return questions


questions = read_questions(data_path / "choices.jsonl")
train, validation = questions[:-60], questions[-60:]


def separate(questions):
    """Return questions without answers, and the numbers of the answers."""
    inputs = [
        {name: value for name, value in question.items() if name != "answer"}
        for question in questions
    ]
    return inputs, np.array(["ABCDE".index(q["answer"]) for q in questions])


train_x, train_y = separate(train)
validation_x, validation_y = separate(validation)
print(f"{len(train_y)} questions to train, {len(validation_y)} to validate")
print(json.dumps(train[0], indent=2))

"""
## Baselines without a model

In tests of this kind, the right choice can often be guessed: it may be the longest
one, or the only one with words from the text. A model that finds such a pattern looks
as if it understood the text. So measure the patterns first:

- guessing;
- the longest choice;
- the choice with the largest TF-IDF cosine with the text and the question.

With a few dozen questions the standard error is several points, so it is printed too.
"""


def show(name, is_right):
    error = np.std(is_right) / np.sqrt(len(is_right))
    print(f"{name:<24} {np.mean(is_right):6.1%} ± {error:.1%}")


def overlap_choices(questions):
    texts = [f"{x.get('context', '')} {x['question']}" for x in questions]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5)).fit(texts)
    answers = []
    for question, text in zip(questions, vectorizer.transform(texts)):
        choices = vectorizer.transform(question["choices"])
        answers.append(int((choices @ text.T).toarray().argmax()))
    return np.array(answers)


def longest_choices(questions):
    return np.array([np.argmax([*map(len, x["choices"])]) for x in questions])


def show_baselines(questions, answers):
    guess = np.mean([1 / len(question["choices"]) for question in questions])
    print(f"{'guessing':<24} {guess:6.1%}")
    show("the longest choice", longest_choices(questions) == answers)
    show("most in common", overlap_choices(questions) == answers)


show_baselines(validation_x, validation_y)

"""
## Training

`fit()` takes a list of dicts, or a tuple of lists `(contexts, questions, choices)`,
and the numbers or letters of the answers. `max_sequence_length` limits the rows: a
longer text is truncated, and the question and the choice are not.

The preset was fine-tuned to find answers in texts. Another task keeps its encoder, and
has a new head. What the encoder has learned there helps here: it has already compared
a question with a text. 180 questions alone are hardly enough to learn that.
"""

preprocessor = keras_albert.AlbertMultipleChoicePreprocessor.from_preset(
    preset, max_sequence_length=96, max_qa_length=48
)
rows = preprocessor([tuple(question.values()) for question in train_x[:2]])
print({name: array.shape for name, array in rows.items()}, "questions, choices, tokens")

chooser = keras_albert.AlbertMultipleChoice.from_preset(
    preset, preprocessor=preprocessor
)
history = chooser.fit(
    train_x,
    train_y,
    validation_data=(validation_x, validation_y),
    batch_size=8,
    epochs=epochs,
    verbose=2,
)
show_baselines(validation_x, validation_y)
predicted = chooser.predict(validation_x, verbose=0).argmax(axis=-1)
show("ALBERT", predicted == validation_y)

"""
To find an answer, a model has to compare the tokens of the choice with the text's
tokens, and to find the ones that the question is about. Set `preset` to
`"albert_small_en_uncased"`, which has answered no questions yet, to see the
difference. Counting common parts of words is a strong baseline, since the text often
contains the words of the answer, and fails where an answer has to be inferred. With 60
questions, only a difference of ten points or more between it and the model would mean
something.

## A task from labels

Any texts with labels are a source of questions: which of these texts is about the same
thing? No one has to write a question or an answer.

`bank_messages.tsv` contains 1,200 messages to a bank, of six of the 77 intents of
[Banking77](https://arxiv.org/abs/2003.04807) (CC BY 4.0). A question is a message. One
of its four choices has the same intent; the others have three different ones. 480
questions are made of the first 960 messages, and 120 of the last 240.
"""

with open(data_path / "bank_messages.tsv", encoding="utf-8", newline="") as file:
    messages = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
generator = random.Random(0)


def make_questions(messages):
    texts = {}
    for message in messages:
        texts.setdefault(message["label"], []).append(message["text"])
    questions, answers = [], []
    for message in messages[::2]:
        right = message["label"]
        labels = generator.sample(sorted(texts.keys() - {right}), 3)
        choices = [generator.choice(texts[label]) for label in labels]
        answer = generator.randrange(4)
        same = [text for text in texts[right] if text != message["text"]]
        choices.insert(answer, generator.choice(same))
        questions.append({"question": message["text"], "choices": choices})
        answers.append(answer)
    return questions, np.array(answers)


intents_x, intents_y = make_questions(messages[:960])
held_out_x, held_out_y = make_questions(messages[960:])
print(json.dumps(intents_x[0], indent=2))

"""
The same class, and the same call. Without a `context` a row is
`[CLS] question [SEP] choice [SEP]`.
"""

matcher = keras_albert.AlbertMultipleChoice.from_preset(
    preset, preprocessor=preprocessor
)
intent_history = matcher.fit(
    intents_x,
    intents_y,
    validation_data=(held_out_x, held_out_y),
    batch_size=8,
    epochs=epochs,
    verbose=2,
)
show_baselines(held_out_x, held_out_y)
predicted = matcher.predict(held_out_x, verbose=0).argmax(axis=-1)
show("ALBERT", predicted == held_out_y)

"""
The two learning curves side by side. Where the training accuracy grows and the
validation accuracy does not, more epochs do not help, and more examples may.
"""

figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
names = "questions about texts", "the same intent"
for axis, name, run in zip(axes, names, (history, intent_history)):
    for key, label in (("accuracy", "training"), ("val_accuracy", "validation")):
        values = run.history[key]
        axis.plot(range(1, len(values) + 1), values, marker="o", label=label)
    axis.set(title=name, xlabel="epoch", ylabel="accuracy", ylim=(0, 1))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.grid(alpha=0.3)
axes[0].legend()
plt.show()

"""
## Predictions

`choose()` takes a context (or `None`), a question and its choices. It returns the most
likely choice and the probabilities of all.
"""

first, choices = held_out_x[0]["question"], held_out_x[0]["choices"]
answer = matcher.choose(None, first, choices)
print(first)
print(answer["choice"], np.round(answer["scores"], 2))

"""
## Conclusion

`AlbertMultipleChoice` scores each choice in its own row, for any number of choices. On
60 questions about texts it is as good as counting common parts of words, about 70%. On
120 questions about the intent of messages, where the words differ, it finds about 72 of
100, and counting 62. Such baselines should be part of every report. With little data,
start from a model that was trained on a related task.

On CommonsenseQA, version 1.0 with three choices, the accuracy of
`albert_small_en_uncased` is 51.3% ± 0.6% over three seeds, and guessing reaches 33.3%
(`examples/race.py` with `--epochs 3 --batch-size 32`).

At full size, the paper's recipe for RACE is
`keras_albert.tasks.recipes.recipe("race")`: 12,000 steps of 32 questions, rows of 512
tokens, hours on a GPU. The published accuracies on RACE are 66.8% for ALBERT base,
version 2, and 86.8% for xxlarge
([google-research/albert](https://github.com/google-research/albert)); guessing
reaches 25%.

What to try next:

- CommonsenseQA, with a full-size preset: `read_questions()` reads its
  `train_rand_split.jsonl` and `dev_rand_split.jsonl`;
- [question answering](question_answering.py), where the answer is a part of the text;
- [several devices](several_devices.py): each question is several rows, so memory and
  time add up.
"""
