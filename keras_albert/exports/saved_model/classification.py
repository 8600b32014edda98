"""The TensorFlow graph of a served classifier, also one whose texts leave early."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model.graph import (
    TaskGraph,
    run_documents,
    text_signature,
)
from keras_albert.tasks.classification.early_exit import ExitRule


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
            served |= self._early_signatures()
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

    def _early_signatures(self) -> dict[str, Any]:
        """Return the functions that stop when all texts have left, also for pairs."""
        # `serve_early` takes `patience` and, of a regression, `tolerance`;
        # `serve_confident` takes `threshold`.
        rules = {
            "confident": {"threshold": tf.float32},
            "early": {"patience": tf.int32},
        }
        if self.task.is_regression:
            del rules["confident"]
            rules["early"]["tolerance"] = tf.float32
        if self.task.backbone.num_layers <= 2:
            del rules["early"]
        served: dict[str, Any] = {}
        for name, dtypes in rules.items():
            served |= self._signatures(name, dtypes)
        return served

    def _signatures(self, name: str, dtypes: Mapping[str, Any]) -> dict[str, Any]:
        def run(values: tuple[Any, ...], *texts: Any) -> dict[str, Any]:
            rule = dict(zip(dtypes, values, strict=True))
            outputs, depths = self._run_early(self.pack(*texts), **rule)
            return self._classify(outputs) | {"depth": depths}

        return {
            f"serve_{name}": text_signature(
                lambda text, *values: run(values, text), dtypes
            ),
            f"serve_{name}_pair": text_signature(
                lambda text, text_pair, *values: run(values, text, text_pair), dtypes
            ),
        }

    def _run_early(
        self,
        inputs: dict[str, Any],
        patience: Any = None,
        threshold: Any = None,
        tolerance: Any = None,
    ) -> tuple[Any, Any]:
        """Run a classifier layer by layer: outputs of the exits, and depths, int32."""
        classifier, backbone = self.task, self.task.backbone
        rule = ExitRule(patience, threshold, tolerance)
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
                is_logits = classifier.returns_logits
                chances = tf.nn.softmax(found) if is_logits else found
                leaves = rule.is_confident(classifier, chances, tf.experimental.numpy)
            else:
                same = rule.agree(classifier, found, outputs, tf.experimental.numpy) & (
                    layer > 0
                )
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


def _checks(
    num_layers: int, patience: Any, threshold: Any, tolerance: Any
) -> list[Any]:
    """Return the operations that fail if a request sets an invalid number."""
    most = num_layers - 2
    checks: tuple[tuple[Any, Callable[[Any], Any], str], ...] = (
        (
            patience,
            lambda value: (value >= 1) & (value <= most),
            f"`patience` must be a whole number from 1 to {most}: the first exit "
            f"agrees with none, and the model has {num_layers} layers.",
        ),
        (
            threshold,
            lambda value: (value > 0) & (value < 1),
            "`threshold` must be a probability between 0 and 1.",
        ),
        (
            tolerance,
            lambda value: (value > 0) & (value < float("inf")),
            "`tolerance` must be a number above 0.",
        ),
    )
    return [
        tf.debugging.Assert(is_valid(value), [f"{message} Received:", value])
        for value, is_valid, message in checks
        if value is not None
    ]
