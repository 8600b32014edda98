"""Compare contrastive training on few labels (SetFit) with a linear head alone.

    KERAS_BACKEND=torch python benchmarks/contrastive_labels.py \
        --sst2 path/to/SST-2 --squad train.json

`fit(method="contrastive")` first trains the encoder on pairs of the labelled texts:
half of one class, with the similarity 1, half of two classes, with 0 ([Tunstall et al.,
2022](https://arxiv.org/abs/2209.11055)). With `--all-pairs` it is trained on all pairs
once, with the rarer kind repeated, as in SetFit. Data: the quickstart's messages;
SST-2; the questions on the six articles of SQUAD with most questions, whose class is
the article; and the tutorials' reviews and messages about transfers. Prints the
accuracy on `--rows` held-out texts for each seed, which draws the labels and
the pairs, and a table of means and standard deviations. With `--setfit
path/to/all-MiniLM-L6-v2`, the other side is SetFit itself, by its defaults, from a
folder of sentence-transformers (`pip install setfit`).
"""

import argparse
import json
import tempfile
import time
from itertools import chain
from pathlib import Path

import keras
import numpy as np
from few_labels import HELD_OUT_MESSAGES, MESSAGES, read
from rich.console import Console
from rich.table import Table

from keras_albert import AlbertClassifier, AlbertTextEmbedder
from keras_albert.tasks.classification.linear import pool, read_vectors

ARTICLES = 6


def data_sets(arguments, rows):
    """Yield (name, texts and labels to draw from, held-out ones), shuffled."""
    texts, labels = read(MESSAGES, "text", "label")
    cut = len(texts) - HELD_OUT_MESSAGES
    yield "messages", (texts[:cut], labels[:cut]), (texts[cut:], labels[cut:])
    if arguments.sst2 is not None:
        train, dev = (
            read(arguments.sst2 / f"{name}.tsv", "sentence", "label")
            for name in ("train", "dev")
        )
        yield "SST-2", train, [column[:rows] for column in dev]
    if arguments.squad is not None:
        found = questions(arguments.squad)
        yield "SQuAD's articles", *([c[part] for c in found] for part in halves(rows))


def example_sets(rows):
    """Yield the parts of Banking77 and of the reviews that the tutorials use."""
    for name, file, column in (
        ("transfer messages", "transfer_messages", "text"),
        ("reviews", "reviews", "sentence"),
    ):
        columns = read(MESSAGES.with_name(f"{file}.tsv"), column, "label")
        order = np.random.default_rng(0).permutation(len(columns[0])).tolist()
        found = [[column[row] for row in order] for column in columns]
        yield name, *([c[part] for c in found] for part in halves(min(rows, 300)))


def questions(path: Path) -> tuple[list[str], list[str]]:
    """Read the questions on the articles that have most, and their titles."""
    articles = {
        article["title"]: [
            question["question"].strip()
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
    }
    largest = sorted(articles, key=lambda title: -len(articles[title]))[:ARTICLES]
    pairs = [(text, title) for title in largest for text in articles[title]]
    np.random.default_rng(0).shuffle(pairs)
    texts, titles = zip(*pairs, strict=True)
    return list(texts), list(titles)


def halves(rows: int) -> tuple[slice, slice]:
    return slice(rows, None), slice(rows)


def draw(labels, count: int, seed: int) -> list[int]:
    """Draw `count` rows of each class."""
    order = np.random.default_rng(seed).permutation(len(labels))
    chosen: dict[str, list[int]] = {}
    for row in order.tolist():
        of_class = chosen.setdefault(labels[row], [])
        if len(of_class) < count:
            of_class.append(row)
    return [row for rows in chosen.values() for row in rows]


def all_pairs(texts, labels, seed: int):
    """Return all pairs of texts, and the kind with fewer as often as the other."""
    labels = np.array(labels)
    first, second = np.triu_indices(len(texts), 1)
    is_same = labels[first] == labels[second]
    same, others = np.flatnonzero(is_same), np.flatnonzero(~is_same)
    count = max(len(same), len(others))
    rows = np.concatenate([np.resize(same, count), np.resize(others, count)])
    np.random.default_rng(seed).shuffle(rows)
    columns = [[texts[row] for row in rows_of[rows]] for rows_of in (first, second)]
    return tuple(columns), is_same[rows].astype("float32")


def linear_logits(classifier, few, texts, method="linear"):
    """Solve the head, and return logits of texts, from vectors that are cached."""
    classifier.fit(*few, method=method, verbose=0)
    pooled = pool(classifier, read_vectors(classifier, texts))
    return keras.ops.convert_to_numpy(classifier.output_dense(pooled))


def solve(classifier, few, held_out, method="linear") -> float:
    """Solve the head, and return the accuracy."""
    outputs = linear_logits(classifier, few, held_out[0], method)
    right = outputs.argmax(-1) == np.asarray(classifier.encode_targets(held_out[1]))
    return float(right.mean())


def compare(arguments, few, held_out, seed: int) -> dict[str, float]:
    names = tuple(sorted(set(few[1])))
    keras.utils.set_random_seed(seed)
    linear = AlbertClassifier.from_preset(arguments.preset, labels=names)
    scores = {"linear": solve(linear, few, held_out)}
    if arguments.setfit is not None:
        return scores | {"SetFit": setfit_accuracy(arguments, few, held_out, seed)}
    trained = AlbertClassifier.from_preset(arguments.preset, labels=names)
    if not arguments.all_pairs:
        return scores | {"contrastive": solve(trained, few, held_out, "contrastive")}
    embedder = AlbertTextEmbedder.from_preset(arguments.preset)
    embedder.compile(learning_rate=arguments.learning_rate)
    embedder.fit(*all_pairs(*few, seed), batch_size=16, verbose=0)
    trained = AlbertClassifier(
        embedder.backbone, labels=names, preprocessor=linear.preprocessor
    )
    return scores | {"all pairs, linear": solve(trained, few, held_out)}


def setfit_accuracy(arguments, few, held_out, seed: int) -> float:
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    model = SetFitModel.from_pretrained(str(arguments.setfit))
    rows = Dataset.from_dict({"text": few[0], "label": few[1]})
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, seed=seed, save_strategy="no", report_to="none"
        )
        Trainer(model, settings, train_dataset=rows).train()
    return float(np.mean(np.asarray(model.predict(held_out[0])) == held_out[1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", default="albert_small_en_uncased")
    parser.add_argument("--sst2", type=Path, help="directory with train and dev.tsv")
    parser.add_argument("--squad", type=Path, help="a JSON file with titles")
    parser.add_argument("--setfit", type=Path, help="a folder of sentence-transformers")
    parser.add_argument("--only", help="the name of one data set")
    parser.add_argument("--counts", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=500, help="held out")
    parser.add_argument("--all-pairs", action="store_true", help="once, as in SetFit")
    parser.add_argument("--learning-rate", type=float, default=2e-5, help="with it")
    arguments = parser.parse_args()
    other = "contrastive" if arguments.setfit is None else "SetFit"
    other = "all pairs, linear" if arguments.all_pairs else other
    table = Table("data", "labels a class", "linear", other, "better")
    rows = arguments.rows
    for name, train, held_out in chain(data_sets(arguments, rows), example_sets(rows)):
        if arguments.only not in (None, name):
            continue
        for count in arguments.counts:
            found = []
            for seed in range(arguments.first_seed, arguments.seeds):
                few = [
                    [column[row] for row in draw(train[1], count, seed)]
                    for column in train
                ]
                started = time.perf_counter()
                found.append(compare(arguments, few, held_out, seed))
                shown = ", ".join(f"{k} {v:.4f}" for k, v in found[-1].items())
                seconds = time.perf_counter() - started
                print(
                    f"{name} {count} seed {seed}: {shown}, {seconds:.0f} s", flush=True
                )
            sides = np.array([list(scores.values()) for scores in found]).T
            cells = [f"{side.mean():.1%} ± {side.std():.1%}" for side in sides]
            better = f"{(sides[1] > sides[0]).sum()} of {len(found)} seeds"
            table.add_row(name, str(count), *cells, better)
    Console().print(table)


if __name__ == "__main__":
    main()
