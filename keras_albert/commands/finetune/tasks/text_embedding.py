"""Similarity of two texts: the cosine of their embeddings."""

import argparse
from pathlib import Path

import keras
import numpy as np

from keras_albert.commands.files.table import describe, read_table
from keras_albert.commands.finetune.report import Report
from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.tasks import AlbertTextEmbedder
from keras_albert.tasks.text_embedding.model import cosine_scores


def _read(path: Path, arguments: argparse.Namespace) -> Data:
    table = read_table(path, arguments.limit)
    first = table.require("text", arguments.text_column)
    second = table.require("text_pair", arguments.text_pair_column)
    score = table.require("score", arguments.label_column)
    columns = table.texts(first), table.texts(second)
    y = np.asarray(table.numbers(score))
    highest = max(1.0, float(np.abs(y).max()))
    description = describe(table, [("text", first), ("pair", second), ("score", score)])
    if highest > 1:
        description += f"; scores divided by {highest:g}, to be cosines"
    return Data(
        x=columns,
        y=(y / highest).tolist(),
        texts=lambda: (text for column in columns for text in column),
        description=description,
    )


def _report(task: AlbertTextEmbedder, data: Data) -> Report:
    from scipy.stats import pearsonr, spearmanr  # noqa: PLC0415  (an extra)

    vectors = np.stack([task.embed(texts) for texts in data.x], axis=1)
    cosines = keras.ops.convert_to_numpy(cosine_scores(vectors))[:, 0]
    return Report(
        {
            "Pearson": float(pearsonr(data.y, cosines).statistic),
            "Spearman": float(spearmanr(data.y, cosines).statistic),
        }
    )


SIMILARITY = Kind(
    AlbertTextEmbedder,
    _read,
    _report,
    ("val_loss", "min"),
    'model.embed(["a text"])',
)
