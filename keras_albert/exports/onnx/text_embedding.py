"""The ONNX graph of a text embedder."""

from typing import Any

import keras

from keras_albert.exports.onnx.graph import OnnxTask


class TextEmbedderGraph(OnnxTask):
    """The graph of an `AlbertTextEmbedder`: `embedding`, `(batch, width)`."""

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        op, sequence = self.op, self.encode(ids)
        weights = self._token_weights(ids)
        if weights is not None:
            # Clients know no weights: their mean over a text becomes 1.
            weights = op.Unsqueeze(weights, [-1])
            mean = self.masked_mean(weights, ids["padding_mask"])
            weights = op.Div(weights, op.Unsqueeze(mean, [-1]))
            sequence = op.Mul(sequence, weights)
        width = self.backbone.hidden_dim
        return {"last_hidden_state": (sequence, "batch", "length", width)}

    def run(self, ids: dict[str, Any]) -> Any:
        op = self.op
        vectors = self._pool(self.encode(ids), ids)
        if self.task.dim is not None:
            vectors = op.Slice(vectors, [0], [self.task.dim], [1])
        return self.normalize(vectors) if self.task.normalize else vectors

    def _pool(self, sequence: Any, ids: dict[str, Any]) -> Any:
        op, mode = self.op, self.task.pooling_mode
        if mode == "cls":
            return op.Gather(sequence, 0, axis=1)
        if mode == "max":
            is_real = op.Unsqueeze(self.builder.cast(ids["padding_mask"], "bool"), [-1])
            return op.ReduceMax(op.Where(is_real, sequence, -1e9), [1], keepdims=0)
        weights = self._token_weights(ids)
        return self.masked_mean(sequence, ids["padding_mask"], weights)

    def _token_weights(self, ids: dict[str, Any]) -> Any:
        """Return the weight of each token in the mean, or `None`."""
        pooling = self.task.pooling
        if pooling.inverse_frequency is None:
            return None
        found = keras.ops.convert_to_numpy(pooling.token_probabilities)
        values = pooling.inverse_frequency / (pooling.inverse_frequency + found)
        table = self.builder.constant(values, "token_weights")
        return self.op.Gather(table, ids["token_ids"])

    def answer_tokens(self, outputs: Any) -> None:
        width = self.task.output.shape[-1]
        self.builder.output("embedding", outputs, "batch", width)

    def answer_texts(self, *columns: Any) -> None:
        """Add the vectors of texts, or the similarities of pairs."""
        if len(columns) == 1:
            self.answer_tokens(self.run(self.pack(*columns)))
            return
        op = self.op
        # Each text is embedded independently, in a separate row.
        vectors = self.run(self.pack(op.Concat(*columns, axis=0)))
        vectors = self.normalize(vectors)
        sizes = op.Concat(*(op.Shape(column) for column in columns), axis=0)
        first, second = op.Split(vectors, sizes, _outputs=2)
        cosine = op.ReduceSum(op.Mul(first, second), [1], keepdims=0)
        self.builder.output("similarity", cosine, "batch")
