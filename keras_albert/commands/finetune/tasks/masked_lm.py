"""Masked language modeling: continued pretraining on a user's texts."""

import argparse
import math
from itertools import islice
from pathlib import Path

from keras_albert.commands.files.rows import TABLES, FileRows
from keras_albert.commands.files.table import describe, read_table
from keras_albert.commands.finetune.report import Report
from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.tasks import AlbertMaskedLM


def _read(path: Path, arguments: argparse.Namespace) -> Data:
    if path.suffix.lower() in TABLES:
        table = read_table(path, arguments.limit)
        column = table.require("text", arguments.text_column)
        texts = table.texts(column)
        description = describe(table, [("text", column)])
    else:
        rows = FileRows(path, (path.suffix.lower(),))
        lines = (row["text"] for row in rows if row["text"].strip())
        texts = list(islice(lines, arguments.limit))
        if not texts:
            raise ValueError(f"{path} holds no text. Pass a file with some.")
        description = f"{path}: {len(texts):,} lines"
    return Data(x=texts, y=None, texts=lambda: texts, description=description)


def _report(task: AlbertMaskedLM, data: Data) -> Report:
    scores = task.evaluate(data.x, verbose=0, return_dict=True)
    scores["perplexity"] = math.exp(min(scores["loss"], 100.0))
    return Report({name: float(value) for name, value in scores.items()})


MASKED_LM = Kind(
    AlbertMaskedLM,
    _read,
    _report,
    ("val_loss", "min"),
    'model.fill_mask("a [MASK] text")',
)
