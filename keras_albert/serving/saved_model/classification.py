"""The TensorFlow graph of a served classifier, also one whose texts leave early."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from keras_albert.serving.saved_model.graph import (
    TaskGraph,
    run_documents,
    text_signature,
)
from keras_albert.tasks import AlbertClassifier


class ClassifierGraph(TaskGraph):
    """Serves an `AlbertClassifier`: `text`, or `text` and `text_pair`, to classes."""

    def signatures(self) -> dict[str, Any]:
        served = {
            "serving_default": text_signature(lambda text: self._run(self.pack(text))),
            "serve_pair": text_signature(
                lambda text, text_pair: self._run(self.pack(text, text_pair))
            ),
            "serve_document": text_signature(
                lambda text: self._classify(run_documents(self, text))
            ),
            "serve_tokens": self.tokens_signature(self._run),
        }
        if self.task.exits:
            served |= early_signatures(self, self._classify)
        return served

    def _run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._classify(self.run(inputs))

    def _classify(self, outputs: Any) -> dict[str, Any]:
        classifier = self.task
        if classifier.is_regression:
            return {"score": outputs[:, 0]}
        is_logits = classifier.returns_logits
        probabilities = tf.nn.softmax(outputs) if is_logits else outputs
        names = tf.constant(classifier.class_names)
        rows = tf.shape(outputs)[:1]
        answers = {
            "probabilities": probabilities,
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "score": tf.reduce_max(probabilities, axis=-1),
            "classes": tf.tile(names[None], tf.concat([rows, [1]], axis=0)),
        }
        if is_logits:
            answers["logits"] = outputs
        if classifier.set_threshold is not None:
            least = tf.minimum(answers["score"], classifier.set_threshold)
            answers["in_set"] = probabilities >= least[:, None]
        if self.top_k is not None:
            best = tf.math.top_k(probabilities, self.top_k)
            answers["top_k_labels"] = tf.gather(names, best.indices)
            answers["top_k_scores"] = best.values
        return answers


def early_signatures(
    graph: TaskGraph, answer: Callable[[Any], dict[str, Any]]
) -> dict[str, Any]:
    """Return the functions that stop when all texts have left, also for pairs."""
    # `serve_early` takes `patience` and, of a regression, `tolerance`;
    # `serve_confident` takes `threshold`.
    task = graph.task
    rules = {"confident": {"threshold": tf.float32}, "early": {"patience": tf.int32}}
    if task.is_regression:
        del rules["confident"]
        rules["early"]["tolerance"] = tf.float32
    if task.backbone.num_layers <= 2:
        del rules["early"]
    served: dict[str, Any] = {}
    for name, dtypes in rules.items():
        served |= _signatures(graph, answer, name, dtypes)
    return served


def _signatures(
    graph: TaskGraph,
    answer: Callable[[Any], dict[str, Any]],
    name: str,
    dtypes: Mapping[str, Any],
) -> dict[str, Any]:
    def run(inputs: dict[str, Any], values: tuple[Any, ...]) -> dict[str, Any]:
        rule = dict(zip(dtypes, values, strict=True))
        outputs, depths = run_early(graph.task, inputs, **rule)
        return answer(outputs) | {"depth": depths}

    return {
        f"serve_{name}": text_signature(
            lambda text, *values: run(graph.pack(text), values), dtypes
        ),
        f"serve_{name}_pair": text_signature(
            lambda text, text_pair, *values: run(graph.pack(text, text_pair), values),
            dtypes,
        ),
    }


def run_early(
    classifier: AlbertClassifier,
    inputs: dict[str, Any],
    patience: Any = None,
    threshold: Any = None,
    tolerance: Any = None,
) -> tuple[Any, Any]:
    """Run a classifier layer by layer: outputs of the exits, and depths, int32."""
    backbone = classifier.backbone
    checks = _checks(backbone.num_layers, patience, threshold, tolerance)
    with tf.control_dependencies(checks):
        token_ids = tf.identity(inputs["token_ids"])
    x = backbone.embedding(token_ids, segment_ids=inputs["segment_ids"])
    count = tf.shape(token_ids)[:1]

    def step(
        layer: Any, x: Any, is_left: Any, agreed: Any, outputs: Any, depths: Any
    ) -> tuple[Any, ...]:
        # `x` has a row for each text that is left, in their order.
        mask = tf.boolean_mask(inputs["padding_mask"], is_left)
        x = backbone.encoder.run_virtual_layer(x, mask, layer)
        pooled = backbone.pool(x, mask)
        found = classifier.output_dense(pooled, exit=layer)
        rows = tf.cumsum(tf.cast(is_left, tf.int32)) - 1
        found = tf.gather(found, tf.maximum(rows, 0))
        if threshold is not None:
            leaves = is_confident(classifier, found, threshold)
        else:
            same = agree(classifier, found, outputs, tolerance) & (layer > 0)
            agreed = tf.where(same, agreed + 1, 0)
            leaves = agreed >= patience
        outputs = tf.where(is_left[:, None], found, outputs)
        depths = tf.where(is_left, layer + 1, depths)
        stays = is_left & ~leaves
        x = tf.boolean_mask(x, tf.boolean_mask(stays, is_left))
        return layer + 1, x, stays, agreed, outputs, depths

    classes, zeros = classifier.num_classes, tf.zeros(count, tf.int32)
    outputs = tf.zeros(tf.concat([count, [classes]], axis=0))
    row, wide, of_classes = [None], [None, None, x.shape[-1]], [None, classes]
    *_, outputs, depths = tf.while_loop(
        lambda layer, _, is_left, *__: (
            (layer < backbone.num_layers) & tf.reduce_any(is_left)
        ),
        step,
        (tf.constant(0), x, tf.fill(count, value=True), zeros, outputs, zeros),
        shape_invariants=tuple(
            map(tf.TensorShape, ([], wide, row, row, of_classes, row))
        ),
    )
    return outputs, depths


def agree(
    classifier: AlbertClassifier, outputs: Any, previous: Any, tolerance: Any = None
) -> Any:
    """Return for each row whether two exits have the same answer; see `ExitRule`."""
    if tolerance is not None:
        return tf.abs(outputs - previous)[:, 0] <= tolerance
    if classifier.is_multi_label:
        return tf.reduce_all((outputs > 0.5) == (previous > 0.5), axis=-1)
    return tf.argmax(outputs, axis=-1) == tf.argmax(previous, axis=-1)


def is_confident(classifier: AlbertClassifier, outputs: Any, threshold: Any) -> Any:
    """Return for each row whether an exit is confident; see `ExitRule`."""
    probabilities = tf.nn.softmax(outputs) if classifier.returns_logits else outputs
    if classifier.is_multi_label:
        least = tf.maximum(probabilities, 1 - probabilities)
        return tf.reduce_all(least >= threshold, axis=-1)
    return tf.reduce_max(probabilities, axis=-1) >= threshold


def _checks(
    num_layers: int, patience: Any, threshold: Any, tolerance: Any
) -> list[Any]:
    """Return the operations that fail if a request sets an invalid number."""
    found = []

    def check(value: Any, is_valid: Any, message: str) -> None:
        found.append(tf.debugging.Assert(is_valid, [f"{message} Received:", value]))

    if patience is not None:
        most = num_layers - 2
        check(
            patience,
            (patience >= 1) & (patience <= most),
            f"`patience` must be a whole number from 1 to {most}: the first exit "
            f"agrees with none, and the model has {num_layers} layers.",
        )
    if threshold is not None:
        check(
            threshold,
            (threshold > 0) & (threshold < 1),
            "`threshold` must be a probability between 0 and 1.",
        )
    if tolerance is not None:
        check(
            tolerance,
            (tolerance > 0) & (tolerance < float("inf")),
            "`tolerance` must be a number above 0.",
        )
    return found
