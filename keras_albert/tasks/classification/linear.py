"""A linear head on the vectors of the frozen encoder, solved by scikit-learn."""

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone import AlbertBackbone
from keras_albert.data.batch_sharding import num_parts
from keras_albert.data.datasets import is_dataset
from keras_albert.data.preprocessed_inputs import holds_ids
from keras_albert.data.tables import RawData
from keras_albert.devices.processes import num_processes
from keras_albert.layers.heads import masked_mean
from keras_albert.tasks.classification.calibration import (
    cross_entropies,
    find_temperature,
)
from keras_albert.tasks.classification.contrastive import (
    CONTRASTIVE_STRENGTH,
    train_encoder,
)
from keras_albert.tasks.classification.targets import TargetKind, target_kind
from keras_albert.tasks.predict import predict_all
from keras_albert.tasks.predict_function import compile_function
from keras_albert.text.packing import check_counts
from keras_albert.types import FloatArray
from keras_albert.utils.environment import check_packages
from keras_albert.utils.keras_internals import all_layers

if TYPE_CHECKING:
    from keras_albert.tasks.classification.model import AlbertClassifier

Array = npt.NDArray[Any]

# After which scikit-learn solves the head.
SOLVED = ("linear", "contrastive")
METHODS = (*SOLVED, "finetune")

# Up to how many labels a head is solved if no method is named.
FEW = 500

_FOLDS = 5
# Of the choice among strengths; it changes what the cache may return.
_RULE = "of the lowest loss at the best temperature"
# The inverse strengths of regularization that are tried, for standardized vectors.
_STRENGTHS = np.logspace(-4, 1, 11)
# What belongs to the pooler, on which the vectors in the cache do not depend.
_OF_POOLER = ("pooler_input", "pooler_activation", "name")


class Solution(NamedTuple):
    """A head `(width, outputs)` on standardized vectors, and its scores on folds."""

    kernel: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    # For each classifier of a label, or the only one.
    strengths: npt.NDArray[np.float64]
    # The loss, its standard error, and the metric of the task.
    scores: npt.NDArray[np.float64]


def why_not_linear(classifier: "AlbertClassifier", x: Any) -> str | None:
    """Return what keeps a classifier, or its input, from a solved head, if anything."""
    kind, are_logits = target_kind(classifier), classifier.outputs_are_logits
    learns_sets_or_scores = classifier.is_multi_label or classifier.is_regression
    is_shared = classifier.strategy is not None or num_parts() > 1
    in_memory = not (is_dataset(x) or holds_ids(classifier, x))
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


def why_not_by_itself(
    classifier: "AlbertClassifier", x: Any, y: Array | None
) -> str | None:
    """Return why a head is not solved unless that is asked for, if anything."""
    is_new = classifier.is_solved or classifier.untrained_head_warning.is_random()
    layers, count = all_layers(classifier), 0 if y is None else len(y)
    why = why_not_linear(classifier, x) or _first_of(
        {
            "scikit-learn is not installed": find_spec("sklearn") is None,
            "the weights are random": not classifier.backbone.pretrained,
            "the head was trained": not is_new,
            "the model has LoRA": any(
                getattr(layer, "lora_enabled", False) for layer in layers
            ),
            f"there are {count:,} labels": count > FEW,
        }
    )
    return why if why is not None or y is None else _lacking(classifier, y)


def _first_of(reasons: dict[str, bool]) -> str | None:
    return next((why for why, holds in reasons.items() if holds), None)


def _lacking(classifier: "AlbertClassifier", y: Array) -> str | None:
    """Return of what there are too few targets for folds, if anything."""
    if classifier.is_regression:
        return "there is 1 text, and folds need 2" if len(y) < 2 else None
    for name, column in _labels(classifier, y):
        if not 2 <= (count := int(column.sum())) <= len(y) - 2:
            return (
                f"{count} of {len(y)} texts have the label {name!r}, where folds need "
                "2 with it and 2 without"
            )
    return None


def _labels(classifier: "AlbertClassifier", y: Array) -> Iterator[tuple[str, Array]]:
    """Yield each class, and whether a text has it."""
    for number, name in enumerate(classifier.class_names):
        yield name, (y[:, number] if y.ndim > 1 else y == number).astype(int)


def solve_head(
    classifier: "AlbertClassifier",
    data: RawData,
    class_weight: dict[int, float] | None,
    batch_size: int | None,
    strength: float | None,
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
    if (why := _lacking(classifier, y)) is not None:
        raise ValueError(
            f"A linear head is chosen by cross-validation, and {why}. Label more "
            "texts, leave the class out, or pass `method='finetune'`."
        )
    if is_contrastive:
        rows = np.arange(len(columns[0]))[kept]
        train_encoder(classifier, columns, y, rows, verbose)
        # Folds of texts that the encoder has learned choose nothing.
        strength = CONTRASTIVE_STRENGTH if strength is None else strength
    vectors = read_vectors(classifier, data.x, batch_size)[kept]
    candidates = _candidates(classifier, vectors, are_compared=not is_contrastive)
    found: dict[str, tuple[_Scaled, Solution]] = {}
    for name, vectors in candidates.items():
        if not np.isfinite(vectors).all():
            raise ValueError(
                "The vectors of the texts are NaN: the model has diverged in training, "
                "or was loaded from weights that had. Load another preset."
            )
        scaled = _scale(vectors)
        solution = _cached_solution(classifier, scaled.x, y, weights, strength)
        found[name] = scaled, solution
    # The first one, unless another one is better by more than chance.
    name = next(iter(found))
    limit = found[name][1].scores[0]
    for other, (_, solution) in found.items():
        if solution.scores[0] + solution.scores[1] < limit:
            name = other
    scaled, solution = found[name]
    _write(classifier, scaled, solution, replaces=name == "mean of the tokens")
    outputs = scaled.x @ solution.kernel + solution.bias
    results = _results(classifier, y, outputs.astype("float32"))
    folds = {f"folds_{list(results)[-1]}": float(solution.scores[2])}
    strength = float(np.median(solution.strengths))
    return results | ({} if is_contrastive else folds) | {"C": strength}


def _candidates(
    classifier: "AlbertClassifier", vectors: FloatArray, are_compared: bool
) -> dict[str, FloatArray]:
    """Return what the head may read, by its name."""
    pooler, candidates = classifier.backbone.pooler, {}
    if not (pooler.quantization_mode or pooler.lora_enabled):
        candidates["mean of the tokens"] = _pooler_inputs(vectors)["normalized_mean"]
    if candidates and (not are_compared or _scales_mean(classifier.backbone)):
        return candidates
    return candidates | {"pooled output": pool(classifier, vectors)}


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


def _scales_mean(backbone: AlbertBackbone) -> bool:
    """Return whether the pooler only scales the mean of the tokens."""
    kernel = ops.convert_to_numpy(backbone.pooler.kernel)
    is_diagonal = np.array_equal(kernel, np.diag(kernel.diagonal()))
    is_linear = backbone.pooler_activation == "linear"
    return backbone.pooler_input != "cls" and is_linear and is_diagonal


def _pooler_inputs(vectors: FloatArray) -> dict[str, Any]:
    """Return what a pooler may read, by `pooler_input`."""
    first, mean = np.split(vectors, 2, axis=-1)
    normalized = ops.convert_to_numpy(ops.normalize(ops.convert_to_tensor(mean)))
    return {"cls": first, "mean": mean, "normalized_mean": normalized}


def pool(classifier: "AlbertClassifier", vectors: FloatArray) -> FloatArray:
    """Return the `pooled_output` for the result of `read_vectors`."""
    backbone = classifier.backbone
    reads = _pooler_inputs(vectors)[backbone.pooler_input]
    pooled = backbone.pooler(ops.convert_to_tensor(reads))
    return np.asarray(ops.convert_to_numpy(ops.stop_gradient(pooled)), np.float32)


def _cached_solution(
    classifier: "AlbertClassifier", x: FloatArray, y: Array, weights: Any, strength: Any
) -> Solution:
    """Solve a head, or read from the cache what the same data had before."""
    cache, outputs = VectorCache(vector_cache_path()), classifier.num_classes
    strengths = _STRENGTHS if strength is None else np.array([strength])
    about = [_RULE, metadata.version("scikit-learn"), _FOLDS, strengths.tolist()]
    about += [x.shape, outputs, str(y.dtype)]
    digest = hashlib.blake2b(json.dumps(about).encode(), digest_size=16)
    for part in (x, y) if weights is None else (x, y, weights):
        digest.update(np.ascontiguousarray(part).tobytes())
    key = digest.digest()
    if key in (found := cache.read([key])):
        # The cache keeps float32 arrays.
        values = found[key].view(np.float64)
        size = x.shape[1] * outputs
        kernel, bias, rest = np.split(values, [size, size + outputs])
        return Solution(kernel.reshape(-1, outputs), bias, rest[:-3], rest[-3:])
    solution = _solve(classifier, x, y, weights, strengths)
    values = np.concatenate([np.ravel(part) for part in solution])
    cache.write({key: values.view(np.float32)})
    return solution


def _solve(
    classifier: "AlbertClassifier",
    x: FloatArray,
    y: Array,
    weights: Any,
    strengths: Any,
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


def _write(
    classifier: "AlbertClassifier", scaled: _Scaled, solution: Solution, replaces: bool
) -> None:
    """Write a solution into the head, and the vectors that it reads into the pooler."""
    kernel, bias = solution.kernel, solution.bias
    if replaces:
        classifier.backbone.standardize_mean(scaled.mean, scaled.deviation)
    else:
        kernel = kernel / scaled.deviation
        bias = bias - scaled.mean @ kernel
    classifier.output_dense.kernel.assign(kernel)
    classifier.output_dense.bias.assign(bias)
    # They may have been compiled with another pooler.
    classifier.train_function = classifier.test_function = None
    classifier.predict_function = None


def _results(
    classifier: "AlbertClassifier", y: Array, outputs: FloatArray
) -> dict[str, float]:
    """Return the loss and the metric of the training data, as `fit` names them."""
    kind: TargetKind = target_kind(classifier)
    outputs = classifier.activation(ops.convert_to_tensor(outputs))
    loss = kind.loss(classifier.returns_logits)(y, outputs)
    metric = kind.metric()
    metric.update_state(y, outputs)
    return {"loss": float(loss), metric.name: float(metric.result())}


def read_vectors(
    classifier: "AlbertClassifier", x: Any, batch_size: int | None = None
) -> FloatArray:
    """Return the vector of `[CLS]` and the mean of the tokens, side by side, cached."""
    predict = classifier.batch_outputs.current_function()
    if not hasattr(predict, "read_vectors"):
        predict.read_vectors = compile_function(classifier, _reader(classifier))
    cache, model = VectorCache(vector_cache_path()), _digest(classifier)

    def run_batch(ids: dict[str, Any]) -> FloatArray:
        keys = list(_keys(model, ids))
        found = cache.read(keys)
        if len(found) < len(set(keys)):
            # All rows, so that JAX compiles for few shapes.
            tensors = {name: ops.convert_to_tensor(row) for name, row in ids.items()}
            vectors = ops.convert_to_numpy(predict.read_vectors(tensors))
            found = dict(zip(keys, vectors.astype("float32"), strict=True))
            if np.isfinite(vectors).all():
                cache.write(found)
        return np.stack([found[key] for key in keys])

    return predict_all(classifier, x, batch_size, run_batch, verbose=0)


def _reader(classifier: "AlbertClassifier") -> Any:
    def read(ids: dict[str, Any]) -> Any:
        backbone = classifier.backbone
        x = backbone(ids, training=False)["sequence_output"]
        first = x[:, backbone.cls_token_index]
        both = ops.concatenate([first, masked_mean(x, ids["padding_mask"])], axis=-1)
        return ops.cast(both, "float32")

    return read


def _digest(classifier: "AlbertClassifier") -> bytes:
    """Return a digest of what vectors depend on besides ids: not on the pooler."""
    backbone = classifier.backbone
    config = {k: v for k, v in backbone.get_config().items() if k not in _OF_POOLER}
    about = json.dumps([config, keras.config.backend()], sort_keys=True, default=str)
    digest = hashlib.blake2b(about.encode(), digest_size=16)
    pooler = {id(weight) for weight in backbone.pooler.weights}
    for weight in backbone.weights:
        if id(weight) not in pooler:
            array = ops.convert_to_numpy(weight)
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.digest()


def _keys(model: bytes, ids: dict[str, Any]) -> Iterator[bytes]:
    """Yield a digest of each row of ids, without its padding."""
    parts = (ids["token_ids"], ids["segment_ids"], ids["padding_mask"])
    for tokens, segments, mask in zip(*map(np.asarray, parts), strict=True):
        row = np.stack([tokens, segments])[:, mask > 0].astype("int32")
        yield hashlib.blake2b(row.tobytes(), key=model, digest_size=16).digest()


# Of the file; it begins anew with more.
_MAX_BYTES = 1 << 30
# Of one query of SQLite.
_KEYS = 500


def vector_cache_path() -> Path | None:
    """Return the file of the vectors, `None` if `KERAS_ALBERT_CACHE` is "off"."""
    directory = os.environ.get("KERAS_ALBERT_CACHE")
    if directory == "off":
        return None
    general = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(directory or Path(general, "keras_albert"), "vectors.sqlite")
    return path.expanduser()


class VectorCache:
    """Vectors by a key, a digest of what they depend on."""

    # What cannot be read or written is computed: a cache is no reason to fail.

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Return the vectors that there are."""
        found: dict[bytes, FloatArray] = {}
        if self._path is None or not self._path.is_file():
            return found
        with suppress(sqlite3.Error, OSError), closing(self._connect()) as file:
            for start in range(0, len(keys), _KEYS):
                part = keys[start : start + _KEYS]
                marks = ", ".join("?" * len(part))
                query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                for key, vector in file.execute(query, part):
                    found[key] = np.frombuffer(vector, np.float32)
        return found

    def write(self, vectors: Mapping[bytes, FloatArray]) -> None:
        """Add vectors."""
        if self._path is None:
            return
        with suppress(sqlite3.Error, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_file() and self._path.stat().st_size > _MAX_BYTES:
                self._path.unlink()
            rows = [(key, vector.tobytes()) for key, vector in vectors.items()]
            with closing(self._connect()) as file, file:
                file.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, "
                    "vector BLOB) WITHOUT ROWID"
                )
                file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(str(self._path))
