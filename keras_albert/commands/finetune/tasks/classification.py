"""Classification and regression of texts or pairs."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from keras_albert.commands.files.table import describe, read_table
from keras_albert.commands.finetune.report import Report
from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.tasks import AlbertClassifier


def _read_labelled(path: Path, arguments: argparse.Namespace, target: str) -> Data:
    table = read_table(path, arguments.limit)
    first = table.require("text", arguments.text_column)
    second = table.find("text_pair", arguments.text_pair_column)
    label = table.require(target, arguments.label_column)
    columns = [table.texts(name) for name in (first, second) if name is not None]
    description = describe(table, [("text", first), ("pair", second), (target, label)])
    if target == "score":
        y: Any = table.numbers(label)
        head: dict[str, Any] = {"num_classes": 1}
    else:
        y = table.labels(label)
        names = sorted(set(y))
        head = {"labels": names}
        description += f"; {len(names)} classes: {', '.join(names[:20])}"
    return Data(
        x=tuple(columns) if second is not None else columns[0],
        y=y,
        texts=lambda: (text for column in columns for text in column),
        description=description,
        head=head,
    )


def _report_classes(task: AlbertClassifier, data: Data) -> Report:
    from sklearn.metrics import (  # noqa: PLC0415  (an extra)
        classification_report,
        confusion_matrix,
    )

    names = task.class_names
    truth = [names.index(label) for label in data.y]
    answers = task.predict(data.x, verbose=0).argmax(axis=-1)
    table = classification_report(
        truth,
        answers,
        labels=range(len(names)),
        target_names=names,
        output_dict=True,
        zero_division=0.0,
    )
    average = table["macro avg"]
    return Report(
        scores={
            "accuracy": float(np.mean(np.equal(truth, answers))),
            "macro F1": float(average["f1-score"]),
        },
        classes={
            name: {key: float(value) for key, value in table[name].items()}
            for name in names
        },
        confusion=confusion_matrix(truth, answers, labels=range(len(names))),
        names=names,
    )


def _report_scores(task: AlbertClassifier, data: Data) -> Report:
    from scipy.stats import pearsonr, spearmanr  # noqa: PLC0415  (an extra)

    answers = task.predict(data.x, verbose=0)[:, 0]
    difference = np.asarray(data.y) - answers
    return Report(
        scores={
            "RMSE": float(np.sqrt(np.mean(difference**2))),
            "Pearson": float(pearsonr(data.y, answers).statistic),
            "Spearman": float(spearmanr(data.y, answers).statistic),
        }
    )


CLASSIFICATION = Kind(
    AlbertClassifier,
    lambda path, arguments: _read_labelled(path, arguments, "label"),
    _report_classes,
    ("val_accuracy", "max"),
    'model.classify("a text")',
)
REGRESSION = Kind(
    AlbertClassifier,
    lambda path, arguments: _read_labelled(path, arguments, "score"),
    _report_scores,
    ("val_rmse", "min"),
    'model.classify("a text")',
)
