"""The ONNX graph of a classifier, also as a loop over layers that texts leave."""

from typing import Any

from keras_albert.exports.onnx.builder import OnnxBuilder
from keras_albert.exports.onnx.graph import OnnxTask
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
            return self._run_early(ids)
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

    def _run_early(self, ids: dict[str, Any]) -> Any:
        """Run the model layer by layer: outputs of the exits; and set `depths`."""
        op, builder = self.op, self.builder
        rule = self._add_inputs()
        x, bias = self.begin(ids)
        count = builder.size(ids["token_ids"], 0)
        zeros = op.Expand([0], count)
        is_left = op.Equal(zeros, 0)
        shape = builder.integers(count, self.task.num_classes)
        outputs = op.Expand([0.0], shape)
        around = OnnxBuilder(builder.quantize, around=builder)
        *_, outputs, depths = op.Loop(
            op.Constant(value_int=self.backbone.num_layers),
            self._any(is_left),
            *(x, is_left, zeros, outputs, zeros),
            body=ClassifierGraph(self.task, around)._layer(
                bias, ids["padding_mask"], rule
            ),
            _outputs=5,
        )
        self.depths = builder.cast(depths, "int32")
        return outputs

    def _add_inputs(self) -> dict[str, Any]:
        """Add the inputs of the rule, which are checked: ONNX has no assertion."""
        op, builder = self.op, self.builder
        if self.early == "threshold":
            value = builder.input("threshold", "float32")
            is_valid = op.And(op.Greater(value, 0.0), op.Less(value, 1.0))
            return {
                "threshold": self._checked(value, is_valid, "threshold_from_0_to_1")
            }
        value = builder.cast(builder.input("patience", "int32"), "int64")
        most = self.backbone.num_layers - 2
        is_valid = op.And(op.GreaterOrEqual(value, 1), op.LessOrEqual(value, most))
        rule = {
            "patience": self._checked(value, is_valid, f"patience_from_1_to_{most}")
        }
        if self.task.is_regression:
            value = builder.input("tolerance", "float32")
            is_valid = op.And(op.Greater(value, 0.0), op.Less(value, float("inf")))
            rule["tolerance"] = self._checked(value, is_valid, "tolerance_above_0")
        return rule

    def _checked(self, value: Any, is_valid: Any, name: str) -> Any:
        """Return a scalar; if it is invalid, the operation of this name fails."""
        index = self.op.Where(is_valid, 0, 2**31 - 1)
        return self.op.Gather(self.op.Unsqueeze(value, [0]), index, _name=name)

    def _layer(self, bias: Any, padding_mask: Any, rule: dict[str, Any]) -> Any:
        """Build the loop's body: a layer, its exit, and which texts leave."""
        op, builder = self.op, self.builder
        layer = builder.input("layer", "int64")
        builder.input("goes_on", "bool")
        x = builder.input("x", "float32", "left", "length", "width")
        is_left = builder.input("is_left", "bool", "batch")
        agreed = builder.input("agreed", "int64", "batch")
        outputs = builder.input("outputs", "float32", "batch", "classes")
        depths = builder.input("depths", "int64", "batch")

        # `x` has a row for each text that is left, in their order.
        x = self.run_layer(x, op.Compress(bias, is_left, axis=0), layer)
        heads = self.task.output_dense
        kernel, head_bias = (
            op.Gather(builder.weight(weights), layer, axis=0)
            for weights in (heads.kernel, heads.bias)
        )
        pooled = self.pool(x, op.Compress(padding_mask, is_left, axis=0))
        found = op.Add(op.MatMul(pooled, kernel), head_bias)
        found = builder.activate(heads.activation, found)
        rows = op.Sub(op.CumSum(builder.cast(is_left, "int64"), 0), 1)
        found = op.Gather(found, op.Max(rows, 0), axis=0)
        if "threshold" in rule:
            leaves = self._is_confident(found, rule["threshold"])
        else:
            same = self._agree(found, outputs, rule.get("tolerance"))
            same = op.And(same, op.Greater(layer, 0))
            agreed = op.Where(same, op.Add(agreed, 1), 0)
            leaves = op.GreaterOrEqual(agreed, rule["patience"])
        outputs = op.Where(op.Unsqueeze(is_left, [1]), found, outputs)
        depths = op.Where(is_left, op.Add(layer, 1), depths)
        stays = op.And(is_left, op.Not(leaves))
        x = op.Compress(x, op.Compress(stays, is_left, axis=0), axis=0)

        builder.output("goes_on_after", self._any(stays))
        builder.output("x_after", x, "left_after", "length", "width")
        builder.output("stays", stays, "batch")
        builder.output("agreed_after", agreed, "batch")
        builder.output("outputs_after", outputs, "batch", "classes")
        builder.output("depths_after", depths, "batch")
        return builder.graph

    def _agree(self, outputs: Any, previous: Any, tolerance: Any) -> Any:
        """Return for each row whether two exits have the same answer."""
        op = self.op
        if tolerance is not None:
            difference = op.Abs(op.Sub(outputs, previous))
            return op.LessOrEqual(op.Squeeze(difference, [1]), tolerance)
        both = outputs, previous
        if self.task.is_multi_label:
            same = op.Equal(*(op.Greater(x, 0.5) for x in both))
            least = op.ReduceMin(self.builder.cast(same, "int32"), [-1], keepdims=0)
            return self.builder.cast(least, "bool")
        return op.Equal(*(op.ArgMax(x, axis=-1, keepdims=0) for x in both))

    def _is_confident(self, outputs: Any, threshold: Any) -> Any:
        """Return for each row whether an exit is confident; see `ExitRule`."""
        op, certain = self.op, outputs
        if self.task.returns_logits:
            certain = op.Softmax(outputs, axis=-1)
        if self.task.is_multi_label:
            certain = op.Max(certain, op.Sub(1.0, certain))
            certain = op.ReduceMin(certain, [-1], keepdims=0)
        else:
            certain = op.ReduceMax(certain, [-1], keepdims=0)
        return op.GreaterOrEqual(certain, threshold)

    def _any(self, flags: Any) -> Any:
        """Return whether any of `(batch,)` is true, also of none."""
        ones = self.builder.cast(flags, "int64")
        return self.op.Greater(self.op.ReduceSum(ones, [0], keepdims=0), 0)
