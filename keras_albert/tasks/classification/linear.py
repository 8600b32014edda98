"""A linear head on the vectors of the frozen encoder, solved by scikit-learn."""

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.data.labels import TargetKind, target_kind
from keras_albert.data.tables import RawData, are_ids, is_dataset
from keras_albert.devices.processes import num_parts, num_processes
from keras_albert.layers.encoder import HeadPooling
from keras_albert.tasks.classification.calibration import (
    cross_entropies,
    find_temperature,
)
from keras_albert.tasks.predict import compile_function, predict_all
from keras_albert.tasks.text_embedding.model import AlbertTextEmbedder
from keras_albert.text.packing import check_counts
from keras_albert.types import FloatArray, Task
from keras_albert.utils.environment import check_packages
from keras_albert.utils.keras_internals import all_layers

Array = npt.NDArray[Any]
CachePath = str | os.PathLike[str] | None

# After which scikit-learn solves the head.
SOLVED = ("linear", "contrastive")
METHODS = ("finetune", *SOLVED)

# Up to how many labels a solved head is advised.
_FEW = 500

_FOLDS = 5
# The inverse strengths of regularization that are tried, for standardized vectors.
_STRENGTHS = np.logspace(-4, 1, 11)


class Solution(NamedTuple):
    """A head `(width, outputs)` on standardized vectors, and its scores on folds."""

    kernel: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    # For each classifier of a label, or the only one.
    strengths: npt.NDArray[np.float64]
    # The loss, its standard error, and the metric of the task.
    scores: npt.NDArray[np.float64]


def why_not_linear(classifier: Task, x: Any) -> str | None:
    """Return what keeps a classifier, or its input, from a solved head, if anything."""
    kind, are_logits = target_kind(classifier), classifier.outputs_are_logits
    learns_sets_or_scores = classifier.is_multi_label or classifier.is_regression
    is_shared = classifier.strategy is not None or num_parts() > 1
    in_memory = not (is_dataset(x) or are_ids(classifier.preprocessor, x))
    return _first_of(
        {
            "the model has a head after each layer": bool(classifier.exits),
            "the model is on several devices": is_shared or num_processes() > 1,
            "the loss learns probabilities": not (
                kind.is_class or learns_sets_or_scores
            ),
            "the outputs have an activation that is not linear": are_logits is None
            or (classifier.is_regression and not are_logits),
            "the texts are not in memory": not in_memory
            or classifier.preprocessor is None,
        }
    )


def is_advised(classifier: Task, x: Any, num_labels: int) -> bool:
    """Return whether to advise a solved head: a new one, and few labels."""
    layers = all_layers(classifier)
    return (
        num_labels <= _FEW
        and find_spec("sklearn") is not None
        and classifier.backbone.pretrained
        and classifier.untrained_head_warning.is_random()
        and not any(getattr(layer, "lora_enabled", False) for layer in layers)
        and why_not_linear(classifier, x) is None
    )


def _first_of(reasons: dict[str, bool]) -> str | None:
    return next((why for why, holds in reasons.items() if holds), None)


def missing_targets(classifier: Task, y: Array) -> str | None:
    """Return which targets are too few for folds, if any."""
    if classifier.is_regression:
        return "there is 1 text, and folds need 2" if len(y) < 2 else None
    for name, column in _labels(classifier, y):
        if not 2 <= (count := int(column.sum())) <= len(y) - 2:
            return (
                f"{count} of {len(y)} texts have the label {name!r}, where folds need "
                "2 with it and 2 without"
            )
    return None


def _labels(classifier: Task, y: Array) -> Iterator[tuple[str, Array]]:
    """Yield each class, and whether a text has it."""
    for number, name in enumerate(classifier.class_names):
        yield name, (y[:, number] if y.ndim > 1 else y == number).astype(int)


def solve_head(
    classifier: Task,
    data: RawData,
    class_weight: dict[int, float] | None,
    batch_size: int | None,
    strength: float | None,
    cache: CachePath,
    is_contrastive: bool,
    verbose: Any,
) -> dict[str, float]:
    """Solve the head of a classifier, and return the results of the training."""
    check_packages("A linear head", "scikit-learn", "sklearn")
    if (why := why_not_linear(classifier, data.x)) is not None:
        raise ValueError(f"`method='linear'` is not possible: {why}. Fine-tune it.")
    y, weights = data.y, data.sample_weight
    if weights is not None:
        weights = np.asarray(classifier.read_weights(weights))
    columns, batched = classifier.require_preprocessor("fit").columns(data.x)
    if not batched:
        raise ValueError("Pass a list of texts. Received: a single one.")
    check_counts(len(columns[0]), y, weights)
    if not len(columns[0]):
        raise ValueError("There are no examples: `x` is empty. Pass labelled texts.")
    if class_weight is not None:
        weights = np.array([class_weight[number] for number in y.tolist()])
    # Rows of weight 0 do not count, in the folds either.
    kept = slice(None) if weights is None else weights > 0
    y, weights = y[kept], None if weights is None else weights[kept]
    if (why := missing_targets(classifier, y)) is not None:
        raise ValueError(
            f"A linear head is chosen by cross-validation, and {why}. Label more "
            "texts, leave the class out, or pass `method='finetune'`."
        )
    if is_contrastive:
        rows = np.arange(len(columns[0]))[kept]
        train_encoder(classifier, columns, y, rows, verbose)
        # Folds of texts that the encoder has learned choose nothing.
        strength = CONTRASTIVE_STRENGTH if strength is None else strength
    strengths = _STRENGTHS if strength is None else np.array([strength])
    vectors = read_vectors(classifier, data.x, batch_size, cache)[kept]
    if not np.isfinite(vectors).all():
        raise ValueError(
            "The vectors of the texts are NaN: the model has diverged in training, "
            "or was loaded from weights that had. Load another preset."
        )
    found: dict[str, tuple[_Scaled, Solution]] = {}
    for mode, read in pooled_vectors(vectors).items():
        if mode != "pooler" or not is_contrastive:
            scaled = _scale(read)
            found[mode] = scaled, _solve(classifier, scaled.x, y, weights, strengths)
    # The first one, unless another one is better by more than chance.
    chosen = next(iter(found))
    limit = found[chosen][1].scores[0]
    for mode, (_, solution) in found.items():
        if solution.scores[0] + solution.scores[1] < limit:
            chosen = mode
    scaled, solution = found[chosen]
    _write(classifier, scaled, solution, chosen)
    outputs = scaled.x @ solution.kernel + solution.bias
    results = _results(classifier, y, outputs.astype("float32"))
    folds = {f"folds_{list(results)[-1]}": float(solution.scores[2])}
    strength = float(np.median(solution.strengths))
    return results | ({} if is_contrastive else folds) | {"C": strength}


class _Scaled(NamedTuple):
    """Vectors less their mean, divided by one deviation for all dimensions."""

    x: FloatArray
    mean: FloatArray
    deviation: float


def _scale(vectors: FloatArray) -> _Scaled:
    # Equal texts have a deviation of 0.
    wide = vectors.astype("float64")
    mean, deviation = wide.mean(0), math.sqrt(wide.var(0).mean()) or 1.0
    return _Scaled(((wide - mean) / deviation).astype("float32"), mean, deviation)


def _solve(
    classifier: Task, x: FloatArray, y: Array, weights: Any, strengths: Any
) -> Solution:
    given = strengths, classifier.is_regression
    if classifier.is_multi_label:
        found = [
            _cross_validate(x, column, weights, *given)
            for _, column in _labels(classifier, y)
        ]
    else:
        y = y[:, 0] if classifier.is_regression else y
        found = [_cross_validate(x, y, weights, *given)]
    kernel = np.concatenate([np.atleast_2d(f.model.coef_) / f.scale for f in found]).T
    bias = np.concatenate([np.atleast_1d(f.model.intercept_) / f.scale for f in found])
    if kernel.shape[1] == 1 and classifier.num_classes == 2:
        # The logits of two classes have the difference of one.
        kernel, bias = kernel * [-0.5, 0.5], bias * [-0.5, 0.5]
    losses = np.mean([f.losses for f in found], axis=0)
    error = losses.std() / math.sqrt(len(losses))
    metric = np.mean([np.average(f.measured, weights=weights) for f in found])
    if classifier.is_regression:
        metric = np.sqrt(metric)
    scores = np.array([np.average(losses, weights=weights), error, metric])
    return Solution(kernel, bias, np.array([f.strength for f in found]), scores)


class _Found(NamedTuple):
    """A model of one strength, and its losses on rows that it was not fitted to."""

    model: Any
    strength: float
    # By which logits are divided.
    scale: float
    losses: Array
    # Which answers are right; of scores, the squared errors.
    measured: Array


def _cross_validate(
    x: FloatArray, y: Array, weights: Any, strengths: Any, is_score: bool
) -> _Found:
    """Fit the model of the strength that has the lowest loss in cross-validation."""
    from sklearn.linear_model import LogisticRegression, Ridge  # noqa: PLC0415  (an extra)
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict  # noqa: PLC0415

    least = len(y) if is_score else int(np.unique(y, return_counts=True)[1].min())
    kind = KFold if is_score else StratifiedKFold
    folds = kind(min(_FOLDS, least), shuffle=True, random_state=0)
    params = {} if weights is None else {"sample_weight": weights}
    method = "predict" if is_score else "decision_function"
    found: list[_Found] = []
    for strength in strengths:
        model: Any = (
            Ridge(alpha=1 / strength)
            if is_score
            else LogisticRegression(C=strength, max_iter=1000)
        )
        outputs = cross_val_predict(model, x, y, cv=folds, params=params, method=method)
        if is_score:
            losses = (outputs - y) ** 2
            found.append(_Found(model, strength, 1.0, losses, losses))
            continue
        if outputs.ndim == 1:
            outputs = np.stack([-outputs, outputs], -1) / 2
        # The strengths that answer best have small logits: each is judged at its best
        # temperature. A normal prior of its logarithm holds it near 1 for few texts.
        scale = 1.0
        if len(strengths) > 1:
            scale = find_temperature(outputs, y, weights, prior=1 / len(y))
        losses = cross_entropies(outputs / scale, y)
        right = outputs.argmax(-1) == y
        found.append(_Found(model, strength, scale, losses, right))
    best = min(found, key=lambda each: float(np.average(each.losses, weights=weights)))
    best.model.fit(x, y, **params)
    return best


def _write(classifier: Task, scaled: _Scaled, solution: Solution, mode: str) -> None:
    """Write a solution on scaled vectors into the head, and what the head reads."""
    kernel = solution.kernel / scaled.deviation
    classifier.output_dense.kernel.assign(kernel)
    classifier.output_dense.bias.assign(solution.bias - scaled.mean @ kernel)
    classifier.pooling.mode = mode
    # They may have been compiled with another mode.
    classifier.train_function = classifier.test_function = None
    classifier.predict_function = None
    classifier.run_batch.reset()


def _results(classifier: Task, y: Array, outputs: FloatArray) -> dict[str, float]:
    """Return the loss and the metric of the training data, as `fit` names them."""
    kind: TargetKind = target_kind(classifier)
    outputs = classifier.activation(ops.convert_to_tensor(outputs))
    loss = kind.loss(classifier.outputs_are_logits is not False)(y, outputs)
    metric = kind.metric()
    metric.update_state(y, outputs)
    return {"loss": float(loss), metric.name: float(metric.result())}


def read_vectors(
    classifier: Task, x: Any, batch_size: int | None = None, cache: CachePath = None
) -> FloatArray:
    """Return what a head may read, side by side; see `pooled_vectors`."""
    read = classifier.run_batch.cached(
        "vectors", lambda: compile_function(classifier, _reader(classifier))
    )

    def compute(ids: dict[str, Any]) -> FloatArray:
        tensors = {name: ops.convert_to_tensor(row) for name, row in ids.items()}
        return np.asarray(ops.convert_to_numpy(read(tensors)), np.float32)

    if cache is None:
        return predict_all(classifier, x, batch_size, compute, verbose=0)
    model = _digest(classifier)
    with closing(sqlite3.connect(os.fspath(cache))) as file:
        file.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB)"
        )

        def find(ids: dict[str, Any]) -> FloatArray:
            return _find_or_compute(file, list(_keys(model, ids)), compute, ids)

        return predict_all(classifier, x, batch_size, find, verbose=0)


def _find_or_compute(
    file: sqlite3.Connection, keys: Sequence[bytes], compute: Any, ids: dict[str, Any]
) -> FloatArray:
    """Read the vectors of a batch from a file, or compute all of them and write."""
    query = "SELECT vector FROM vectors WHERE key = ?"
    found = [file.execute(query, (key,)).fetchone() for key in keys]
    if all(found):
        return np.stack([np.frombuffer(vector, np.float32) for (vector,) in found])
    # All rows, so that JAX compiles for few shapes.
    vectors: FloatArray = compute(ids)
    if np.isfinite(vectors).all():
        rows = [(key, row.tobytes()) for key, row in zip(keys, vectors, strict=True)]
        with file:
            file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
    return vectors


def pooled_vectors(vectors: FloatArray) -> dict[str, FloatArray]:
    """Return what the head reads in each of its modes, from `read_vectors`."""
    mean, pooled = np.split(vectors, 2, axis=-1)
    return {"normalized_mean": mean, "pooler": pooled}


def _reader(classifier: Task) -> Any:
    def read(ids: dict[str, Any]) -> Any:
        outputs = classifier.backbone(ids, training=False)
        sequence, pooled = outputs["sequence_output"], outputs["pooled_output"]
        read = [
            HeadPooling(mode).call(sequence, pooled, ids["padding_mask"])
            for mode in ("normalized_mean", "pooler")
        ]
        return ops.cast(ops.concatenate(read, axis=-1), "float32")

    return read


def _digest(classifier: Task) -> bytes:
    """Return a digest of what vectors depend on besides ids."""
    backbone = classifier.backbone
    config = {k: v for k, v in backbone.get_config().items() if k != "name"}
    about = json.dumps([config, keras.config.backend()], sort_keys=True, default=str)
    digest = hashlib.blake2b(about.encode(), digest_size=16)
    for weight in backbone.weights:
        array = ops.convert_to_numpy(weight)
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.digest()


def _keys(model: bytes, ids: dict[str, Any]) -> Iterator[bytes]:
    """Yield a digest of each row of ids, without its padding."""
    parts = (ids["token_ids"], ids["segment_ids"], ids["padding_mask"])
    for tokens, segments, mask in zip(*map(np.asarray, parts), strict=True):
        row = np.stack([tokens, segments])[:, mask > 0].astype("int32")
        yield hashlib.blake2b(row.tobytes(), key=model, digest_size=16).digest()


Labels = npt.NDArray[Any]

# `C` of the head after it.
CONTRASTIVE_STRENGTH = 0.1

# With an earlier head, all pairs or a rate of 1e-4 were no better; see
# `benchmarks/contrastive_labels.py`.
_STEPS, _BATCH_SIZE, _LEARNING_RATE = 40, 16, 5e-5


def train_encoder(
    classifier: Task, columns: Sequence[Any], y: Labels, rows: Labels, verbose: Any
) -> None:
    """Train the encoder of a classifier until texts of a class have similar vectors.

    Pairs of the texts in `rows`, whose classes are `y`, are drawn, half of one class,
    with a cosine of 1, half of two classes, with 0, as in
    [SetFit](https://arxiv.org/abs/2209.11055).
    """
    preprocessor = classifier.require_preprocessor("fit")
    if not target_kind(classifier).is_class or len(columns) > 1:
        raise ValueError(
            "`method='contrastive'` works for single texts with one class each. Pass "
            "`method='linear'`, or fine-tune."
        )
    if not classifier.backbone.trainable_variables:
        raise ValueError(
            "`method='contrastive'` trains the encoder, but it is frozen. Pass "
            "`method='linear'`."
        )
    embedder = AlbertTextEmbedder(
        classifier.backbone,
        AlbertTextEmbedder.preprocessor_cls(
            preprocessor.tokenizer,
            sequence_length=preprocessor.sequence_length,
            max_sequence_length=preprocessor.max_sequence_length,
        ),
    )
    embedder.compile(learning_rate=_LEARNING_RATE)
    pairs, is_same = draw_pairs(y)
    first, second = ([columns[0][row] for row in part] for part in rows[pairs].tolist())
    embedder.fit((first, second), is_same, batch_size=_BATCH_SIZE, verbose=verbose)


def draw_pairs(y: Labels) -> tuple[Labels, Labels]:
    """Return rows of pairs `(2, pairs)`, and whether each has one class."""
    random = np.random.default_rng(np.random.randint(2**31))
    count = _STEPS * _BATCH_SIZE
    first, is_same = random.integers(len(y), size=count), np.arange(count) % 2
    second = np.empty_like(first)
    for pair, (row, same) in enumerate(zip(first, is_same, strict=True)):
        others = np.flatnonzero((y == y[row]) == bool(same))
        second[pair] = random.choice(others[others != row])
    return np.stack([first, second]), is_same.astype("float32")
