"""Quality against depth and time of a classifier with exits."""

import time
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_albert.types import Texts


def measure_exits(
    classifier: Any,
    texts: Texts,
    y: Any,
    batch_size: int | None = None,
    tolerances: Sequence[float] = (0.05, 0.1, 0.2),
    thresholds: Sequence[float] = (0.7, 0.8, 0.9, 0.95, 0.99),
) -> list[dict[str, Any]]:
    """Measure a validation set at each depth, patience and threshold.

    Args:
        classifier: An `AlbertClassifier` with exits.
        texts: Texts or pairs.
        y: Their targets.
        batch_size: int. Defaults to `None`, 32.
        tolerances: Sequence of float. Those to try for a regression. Defaults to
            `(0.05, 0.1, 0.2)`.
        thresholds: Sequence of float. Those to try for classes. Defaults to
            `(0.7, 0.8, 0.9, 0.95, 0.99)`.

    Returns:
        For each setting a dict of its arguments, the first default metric by its name,
        the mean `depth`, the `seconds` of `predict` after a first call that compiles,
        and `texts`, how many left behind each layer.

    Example:
        >>> from keras_albert import AlbertClassifier
        >>> classifier = AlbertClassifier.from_preset(
        ...     "albert_tiny_en_uncased", labels=["bad", "good"], exits=True)
        >>> rows = measure_exits(classifier, ["a joy", "a mess"], ["good", "bad"])
        >>> [row["arguments"] for row in rows][3:7]
        [{'num_layers': 4}, {'patience': 1}, {'patience': 2}, {'threshold': 0.7}]
        >>> print(describe_exits(rows).splitlines()[0])
        arguments           accuracy   depth  seconds  texts by layer
    """
    num_layers = classifier.backbone.num_layers
    settings: list[dict[str, Any]] = [
        {"num_layers": n} for n in range(1, num_layers + 1)
    ]
    patient = [{"patience": n} for n in range(1, num_layers - 1)]
    if classifier.is_regression:
        settings += [p | {"tolerance": t} for t in tolerances for p in patient]
    else:
        settings += [*patient, *({"threshold": p} for p in thresholds)]
    targets = classifier.encode_targets(y)
    rows = []
    for arguments in settings:
        for _ in range(2):
            start = time.perf_counter()
            outputs, depths = classifier.predict(
                texts, batch_size, **arguments, return_depths=True, verbose=0
            )
            seconds = time.perf_counter() - start
        (metric,) = classifier.default_metrics()
        metric.update_state(targets, outputs)
        rows.append(
            {
                "arguments": arguments,
                metric.name: float(keras.ops.convert_to_numpy(metric.result())),
                "depth": float(depths.mean()),
                "seconds": seconds,
                "texts": np.bincount(depths, minlength=num_layers + 1)[1:].tolist(),
            }
        )
    return rows


def describe_exits(rows: Sequence[dict[str, Any]]) -> str:
    """Return the result of `measure_exits` as a table.

    Args:
        rows: The result.

    Returns:
        A line for each row, after a header.
    """
    metric = next(name for name in rows[0] if name not in ("arguments", "depth"))
    lines = [f"{'arguments':<18}{metric:>10}{'depth':>8}{'seconds':>9}  texts by layer"]
    for row in rows:
        given = " ".join(f"{name}={x:g}" for name, x in row["arguments"].items())
        texts = " ".join(f"{count:>4}" for count in row["texts"])
        lines.append(
            f"{given:<18}{row[metric]:>10.4f}{row['depth']:>8.2f}"
            f"{row['seconds']:>9.3f}  {texts}"
        )
    return "\n".join(lines)
