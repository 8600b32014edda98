"""Token classification: tags of words, entities in texts."""

import argparse
from pathlib import Path
from typing import Any

from keras_albert.commands.files.table import describe, read_table
from keras_albert.commands.finetune.report import Report
from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.tasks import AlbertTokenClassifier
from keras_albert.text.token_classification.conll_file import read_conll


def _read(path: Path, arguments: argparse.Namespace) -> Data:
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        table = read_table(path, arguments.limit)
        words = table.require("words", arguments.text_column)
        tags = table.require("tags", arguments.label_column)
        x, y = table.lists(words), table.label_lists(tags)
        description = describe(table, [("words", words), ("tags", tags)])
    else:
        x, y = (rows[: arguments.limit] for rows in read_conll(path))
        description = f"{path}: {len(x):,} texts, {sum(map(len, x)):,} words"
    names = sorted({tag for row in y for tag in row})
    return Data(
        x=x,
        y=y,
        texts=lambda: map(" ".join, x),
        description=f"{description}; {len(names)} tags: {', '.join(names[:20])}",
        head={"labels": names},
    )


def _report(task: AlbertTokenClassifier, data: Data) -> Report:
    scores: dict[str, Any] = task.evaluate_entities(data.x, data.y)
    classes = scores.pop("labels")
    del scores["support"]
    return Report({f"entity {name}": value for name, value in scores.items()}, classes)


TOKEN_CLASSIFICATION = Kind(
    AlbertTokenClassifier,
    _read,
    _report,
    ("val_loss", "min"),
    'model.tag("a text")',
)
