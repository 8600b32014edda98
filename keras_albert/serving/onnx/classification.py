"""The ONNX graph of a classifier, also as a loop over layers that texts leave."""

from typing import Any

from keras_albert.serving.onnx.builder import OnnxBuilder, begin, pool, run_layer
from keras_albert.serving.onnx.graph import OnnxTask
from keras_albert.tasks import AlbertClassifier


class ClassifierGraph(OnnxTask):
    """The graph of an `AlbertClassifier`."""

    def __init__(
        self, task: AlbertClassifier, builder: OnnxBuilder, early: str | None = None
    ) -> None:
        super().__init__(task, builder)
        self.early = early
        self.depths: Any = None

    def run(self, ids: dict[str, Any]) -> Any:
        if self.early is not None:
            outputs, self.depths = run_early(self.builder, self.task, ids, self.early)
            return outputs
        pooled = self.encode_pooled(ids)
        return self.builder.dense(self.task.output_dense, pooled, keep_float=True)

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        # Clients apply the softmax, or the sigmoid.
        logits = self.builder.dense(
            self.task.output_dense,
            self.encode_pooled(ids),
            keep_float=True,
            activate=False,
        )
        return {"logits": (logits, "batch", self.task.num_classes)}

    def answer_tokens(self, outputs: Any) -> None:
        self._answer(outputs)

    def answer_texts(self, *columns: Any) -> None:
        index = self._answer(self.run(self.pack(*columns)))
        if index is not None:
            names = self.builder.constant(self.task.class_names, "labels")
            self.builder.output("label", self.op.Gather(names, index), "batch")

    def _answer(self, outputs: Any) -> Any:
        builder, classes = self.builder, self.task.num_classes
        if self.depths is not None:
            builder.output("depth", self.depths, "batch")
        if self.task.is_regression:
            builder.output("score", self.op.Squeeze(outputs, [1]), "batch")
            return None
        probabilities = outputs
        if self.task.returns_logits:
            probabilities = self.op.Softmax(outputs, axis=-1)
            builder.output("logits", outputs, "batch", classes)
        score, index = self.largest(probabilities)
        builder.output("probabilities", probabilities, "batch", classes)
        builder.output("score", score, "batch")
        builder.output("index", index, "batch")
        if (threshold := self.task.set_threshold) is not None:
            least = self.op.Unsqueeze(self.op.Min(score, threshold), [1])
            inside = self.op.GreaterOrEqual(probabilities, least)
            builder.output("in_set", inside, "batch", classes)
        return index


_LARGE = 2**31 - 1


def run_early(
    builder: OnnxBuilder, classifier: AlbertClassifier, ids: dict[str, Any], early: str
) -> tuple[Any, Any]:
    """Run a classifier layer by layer: outputs of the exits, and depths, int32."""
    op, num_layers = builder.op, classifier.backbone.num_layers
    rule = _add_inputs(builder, classifier, early)
    x, bias = begin(builder, classifier.backbone, ids)
    count = builder.size(ids["token_ids"], 0)
    zeros = op.Expand([0], count)
    is_left = op.Equal(zeros, 0)
    shape = builder.integers(count, classifier.num_classes)
    outputs = op.Expand([0.0], shape)
    *_, outputs, depths = op.Loop(
        op.Constant(value_int=num_layers),
        _any(builder, is_left),
        *(x, is_left, zeros, outputs, zeros),
        body=_layer(builder, classifier, bias, ids["padding_mask"], rule),
        _outputs=5,
    )
    return outputs, builder.cast(depths, "int32")


def _add_inputs(
    builder: OnnxBuilder, classifier: AlbertClassifier, early: str
) -> dict[str, Any]:
    """Add the inputs of the rule, which are checked: ONNX has no assertion."""
    op = builder.op
    if early == "threshold":
        value = builder.input("threshold", "float32")
        is_valid = op.And(op.Greater(value, 0.0), op.Less(value, 1.0))
        return {
            "threshold": _checked(builder, value, is_valid, "threshold_from_0_to_1")
        }
    value = builder.cast(builder.input("patience", "int32"), "int64")
    most = classifier.backbone.num_layers - 2
    is_valid = op.And(op.GreaterOrEqual(value, 1), op.LessOrEqual(value, most))
    name = f"patience_from_1_to_{most}"
    rule = {"patience": _checked(builder, value, is_valid, name)}
    if classifier.is_regression:
        value = builder.input("tolerance", "float32")
        is_valid = op.And(op.Greater(value, 0.0), op.Less(value, float("inf")))
        rule["tolerance"] = _checked(builder, value, is_valid, "tolerance_above_0")
    return rule


def _checked(builder: OnnxBuilder, value: Any, is_valid: Any, name: str) -> Any:
    """Return a scalar; if it is invalid, the operation of this name fails."""
    op = builder.op
    index = op.Where(is_valid, 0, _LARGE)
    return op.Gather(op.Unsqueeze(value, [0]), index, _name=name)


def _layer(
    around: OnnxBuilder,
    classifier: AlbertClassifier,
    bias: Any,
    padding_mask: Any,
    rule: dict[str, Any],
) -> Any:
    """Build the loop's body: a layer, its exit, and which texts leave."""
    builder = OnnxBuilder(around.quantize, around=around)
    op, backbone = builder.op, classifier.backbone
    layer = builder.input("layer", "int64")
    builder.input("goes_on", "bool")
    x = builder.input("x", "float32", "left", "length", "width")
    is_left = builder.input("is_left", "bool", "batch")
    agreed = builder.input("agreed", "int64", "batch")
    outputs = builder.input("outputs", "float32", "batch", "classes")
    depths = builder.input("depths", "int64", "batch")

    # `x` has a row for each text that is left, in their order.
    x = run_layer(builder, backbone, x, op.Compress(bias, is_left, axis=0), layer)
    heads = classifier.output_dense
    kernel, head_bias = (
        op.Gather(builder.weight(weights), layer, axis=0)
        for weights in (heads.kernel, heads.bias)
    )
    pooled = pool(builder, backbone, x, op.Compress(padding_mask, is_left, axis=0))
    found = op.Add(op.MatMul(pooled, kernel), head_bias)
    found = builder.activate(heads.activation, found)
    rows = op.Sub(op.CumSum(builder.cast(is_left, "int64"), 0), 1)
    found = op.Gather(found, op.Max(rows, 0), axis=0)
    if "threshold" in rule:
        leaves = _is_confident(builder, classifier, found, rule["threshold"])
    else:
        same = _agree(builder, classifier, found, outputs, rule.get("tolerance"))
        same = op.And(same, op.Greater(layer, 0))
        agreed = op.Where(same, op.Add(agreed, 1), 0)
        leaves = op.GreaterOrEqual(agreed, rule["patience"])
    outputs = op.Where(op.Unsqueeze(is_left, [1]), found, outputs)
    depths = op.Where(is_left, op.Add(layer, 1), depths)
    stays = op.And(is_left, op.Not(leaves))
    x = op.Compress(x, op.Compress(stays, is_left, axis=0), axis=0)

    builder.output("goes_on_after", _any(builder, stays))
    builder.output("x_after", x, "left_after", "length", "width")
    builder.output("stays", stays, "batch")
    builder.output("agreed_after", agreed, "batch")
    builder.output("outputs_after", outputs, "batch", "classes")
    builder.output("depths_after", depths, "batch")
    return builder.graph


def _agree(
    builder: OnnxBuilder,
    classifier: AlbertClassifier,
    outputs: Any,
    previous: Any,
    tolerance: Any,
) -> Any:
    """Return for each row whether two exits have the same answer; see `ExitRule`."""
    op = builder.op
    if tolerance is not None:
        difference = op.Abs(op.Sub(outputs, previous))
        return op.LessOrEqual(op.Squeeze(difference, [1]), tolerance)
    both = outputs, previous
    if classifier.is_multi_label:
        same = op.Equal(*(op.Greater(x, 0.5) for x in both))
        least = op.ReduceMin(builder.cast(same, "int32"), [-1], keepdims=0)
        return builder.cast(least, "bool")
    return op.Equal(*(op.ArgMax(x, axis=-1, keepdims=0) for x in both))


def _is_confident(
    builder: OnnxBuilder, classifier: AlbertClassifier, outputs: Any, threshold: Any
) -> Any:
    """Return for each row whether an exit is confident; see `ExitRule`."""
    op = builder.op
    probabilities = outputs
    if classifier.returns_logits:
        probabilities = op.Softmax(outputs, axis=-1)
    if classifier.is_multi_label:
        certain = op.Max(probabilities, op.Sub(1.0, probabilities))
        certain = op.ReduceMin(certain, [-1], keepdims=0)
    else:
        certain = op.ReduceMax(probabilities, [-1], keepdims=0)
    return op.GreaterOrEqual(certain, threshold)


def _any(builder: OnnxBuilder, flags: Any) -> Any:
    """Return whether any of `(batch,)` is true, also of none."""
    op = builder.op
    count = op.ReduceSum(builder.cast(flags, "int64"), [0], keepdims=0)
    return op.Greater(count, 0)
