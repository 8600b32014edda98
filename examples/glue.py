"""Fine-tune on a GLUE task, from its official files.

    python examples/glue.py sst-2 path/to/SST-2 --preset albert_base_v2_en_uncased
    python examples/glue.py sts-b path/to/STS-B --limit 500

With `--preset`, all hyperparameters are those of the paper
(`keras_albert.tasks.recipes`): learning rate, warm-up, steps, batch size, dropout and
length; as in the paper, the best epoch on the dev file is kept. RTE, STS-B and MRPC
start from weights that were fine-tuned on MNLI: pass the output of
`glue.py mnli ... --output DIR` as their preset. Without a preset, a small model is
trained from random weights.
"""

import argparse
import csv
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_albert.cli.arguments import SEED, whole_number
from keras_albert.cli.loading import loading

with loading("glue.py"):
    import keras
    import numpy as np
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

    from keras_albert import (
        AlbertBackbone,
        AlbertClassifier,
        AlbertClassifierPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.tasks.recipes import Recipe, recipe
    from keras_albert.text import train_vocabulary

METRICS = {
    "accuracy": accuracy_score,
    "F1": f1_score,
    "Matthews": matthews_corrcoef,
    "Pearson": lambda truth, answers: pearsonr(truth, answers).statistic,
    "Spearman": lambda truth, answers: spearmanr(truth, answers).statistic,
}


@dataclass(frozen=True)
class GlueTask:
    """The format of a task's files, and its metrics.

    `labels` is empty for regression. CoLA's files have no header.
    """

    texts: tuple[str, ...]
    target: str
    labels: tuple[str, ...] = ("0", "1")
    metrics: tuple[str, ...] = ("accuracy",)
    dev: tuple[str, ...] = ("dev.tsv",)
    header: tuple[str, ...] | None = None


ENTAILMENT = ("entailment", "not_entailment")
PAIR = ("sentence1", "sentence2")
TASKS = {
    "cola": GlueTask(
        ("sentence",),
        "label",
        metrics=("Matthews", "accuracy"),
        header=("source", "label", "note", "sentence"),
    ),
    "sst-2": GlueTask(("sentence",), "label"),
    "mrpc": GlueTask(("#1 String", "#2 String"), "Quality", metrics=("accuracy", "F1")),
    "sts-b": GlueTask(PAIR, "score", labels=(), metrics=("Pearson", "Spearman")),
    "qqp": GlueTask(
        ("question1", "question2"), "is_duplicate", metrics=("accuracy", "F1")
    ),
    "mnli": GlueTask(
        PAIR,
        "gold_label",
        labels=("contradiction", "entailment", "neutral"),
        dev=("dev_matched.tsv", "dev_mismatched.tsv"),
    ),
    "qnli": GlueTask(("question", "sentence"), "label", labels=ENTAILMENT),
    "rte": GlueTask(PAIR, "label", labels=ENTAILMENT),
    "wnli": GlueTask(PAIR, "label"),
}


def read_file(task: GlueTask, path: Path, limit: int | None) -> tuple[Any, list[Any]]:
    """Read texts or pairs, and labels or scores; truncated rows are skipped."""
    columns = (*task.texts, task.target)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(
            file, task.header, delimiter="\t", quoting=csv.QUOTE_NONE
        )
        rows = [[row[name] for name in columns] for row in reader]
    rows = [row for row in rows if None not in row][:limit]
    *texts, targets = map(list, zip(*rows, strict=True))
    if not task.labels:
        targets = [float(target) for target in targets]
    return (texts[0] if len(texts) == 1 else tuple(texts)), targets


def build(task: GlueTask, preset: str | None, texts: Any, how: Recipe) -> Any:
    """Build a classifier with pretrained weights, or a small one with random ones."""
    head: dict[str, Any] = {"labels": task.labels} if task.labels else {}
    head["num_classes"] = len(task.labels) or 1
    if preset is not None:
        return how.build(AlbertClassifier, preset, **head)
    columns = texts if isinstance(texts, tuple) else (texts,)
    lines = [text for column in columns for text in column]
    tokenizer = AlbertTokenizer(
        train_vocabulary(lines, vocabulary_size=4000, hard_vocab_limit=False)
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=3,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=0.2,
        max_sequence_length=128,
    )
    preprocessor = AlbertClassifierPreprocessor(tokenizer, max_sequence_length=128)
    return AlbertClassifier(backbone, preprocessor=preprocessor, **head)


def score(task: GlueTask, classifier: Any, texts: Any, truth: list[Any]) -> str:
    """Compute the metrics of the task."""
    outputs = classifier.predict(texts, verbose=0)
    answers: Any = outputs[:, 0]
    if task.labels:
        answers = outputs.argmax(axis=-1)
        truth = [task.labels.index(label) for label in truth]
    return ", ".join(f"{m} {METRICS[m](truth, answers):.3f}" for m in task.metrics)


def main() -> None:
    """Fine-tune, and score on each dev file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("data", type=Path, help="directory with train.tsv and dev.tsv")
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument("--version", choices=("v1", "v2"), default="v2")
    parser.add_argument(
        "--epochs", type=whole_number(), help="instead of the recipe's steps"
    )
    parser.add_argument(
        "--batch-size", type=whole_number(), help="instead of the recipe's"
    )
    parser.add_argument(
        "--limit", type=whole_number(), help="maximum number of rows of each file"
    )
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    started = time.perf_counter()
    keras.utils.set_random_seed(arguments.seed)
    task, how = TASKS[arguments.task], recipe(arguments.task, arguments.version)
    train = read_file(task, arguments.data / "train.tsv", arguments.limit)
    dev_files = {
        name: read_file(task, arguments.data / name, arguments.limit)
        for name in task.dev
    }
    classifier = build(task, arguments.preset, train[0], how)
    batch_size = arguments.batch_size or how.batch_size
    epochs = arguments.epochs or how.epochs(len(train[1]))
    if arguments.preset is not None:
        steps = epochs * math.ceil(len(train[1]) / batch_size)
        how = how.for_width(classifier.backbone.hidden_dim)
        classifier.compile(optimizer=how.optimizer(steps))
    monitor = "val_accuracy" if task.labels else "val_rmse"
    keep_best = keras.callbacks.EarlyStopping(
        monitor,
        mode="max" if task.labels else "min",
        patience=epochs,
        restore_best_weights=True,
    )
    classifier.fit(
        *train,
        batch_size=batch_size,
        epochs=epochs,
        validation_data=dev_files[task.dev[0]],
        callbacks=[keep_best],
    )
    for name, (texts, truth) in dev_files.items():
        print(f"{arguments.task} {name}: {score(task, classifier, texts, truth)}")
    minutes = (time.perf_counter() - started) / 60
    count = np.sum([np.prod(v.shape) for v in classifier.weights])
    print(f"{minutes:.1f} minutes, {keras.config.backend()}, {count:,} parameters")
    if arguments.output:
        classifier.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
