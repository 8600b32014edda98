"""Prediction with exits: no further layers run for texts that have exited."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.tasks.base.outputs import check_nan
from keras_albert.tasks.base.torch_program import TracedPrograms, trace
from keras_albert.tasks.classification.exit_rule import ExitRule
from keras_albert.tasks.distribution.model_state import call_with_values
from keras_albert.types import FloatArray, Int64Array


class EarlyExit:
    """A classifier with exits that runs one layer at a time.

    After each layer the texts that a rule lets go leave the batch. One program is
    compiled for the layer, which all depths share; PyTorch traces it after some small
    batches, see `TracedPrograms`.
    """

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier
        backbone = classifier.backbone

        def start(token_ids: Any, segment_ids: Any) -> Any:
            return backbone.embedding(token_ids, segment_ids=segment_ids)

        # A layer, so that weights are read in the precision of the model.
        run_layer = keras.layers.Lambda(
            lambda tensors: backbone.encoder.run_virtual_layer(*tensors),
            dtype=backbone.dtype_policy,
        )

        def step(x: Any, padding_mask: Any, layer: Any) -> Any:
            x = run_layer((x, padding_mask, layer))
            pooled = backbone.pool(x, padding_mask)
            return x, classifier.output_dense(pooled, exit=layer)

        def make_programs() -> tuple[Any, Any] | None:
            ids = "int32", ("rows", "length")
            hidden = backbone.compute_dtype, ("rows", "length", backbone.hidden_dim)
            longest = {"length": backbone.max_sequence_length}
            programs = (
                trace(start, [ids, ids], longest),
                trace(step, [hidden, ids, ("int32", ())], longest),
            )
            return programs if all(programs) else None

        self._start = _compile(classifier, start)
        self._step = _compile(classifier, step)
        self._make_programs = make_programs
        self.traced = TracedPrograms(classifier)
        self._layers = [
            ops.convert_to_tensor(layer, "int32")
            for layer in range(backbone.num_layers)
        ]

    def run(
        self, inputs: dict[str, npt.NDArray[Any]], rule: ExitRule
    ) -> tuple[FloatArray, Int64Array]:
        """Predict for a batch."""
        ids = {name: ops.convert_to_tensor(x, "int32") for name, x in inputs.items()}
        tokens = inputs["token_ids"]
        programs = self.traced.find("exits", tokens.size, self._make_programs)
        start, step = programs or (self._start, self._step)
        x, mask = start(ids["token_ids"], ids["segment_ids"]), ids["padding_mask"]
        count, num_layers = len(tokens), len(self._layers)
        outputs = np.zeros((count, self.classifier.num_classes), "float32")
        depths = np.full(count, num_layers)
        # The texts that are left, where they are in `x`, and how many exits in a row
        # have agreed on them.
        texts, places = np.arange(count), np.arange(count)
        agreed = np.zeros(count, int)
        for layer, number in enumerate(self._layers):
            x, answers = step(x, mask, number)
            found = ops.convert_to_numpy(answers)[places]
            if rule.threshold is not None:
                leaves = rule.is_confident(self.classifier, found)
            else:
                same = rule.agree(self.classifier, found, outputs[texts])
                agreed = np.where(same & (layer > 0), agreed + 1, 0)
                leaves = agreed >= rule.patience
            outputs[texts] = found
            depths[texts[leaves]] = layer + 1
            texts, places, agreed = texts[~leaves], places[~leaves], agreed[~leaves]
            if not len(texts):
                break
            if (size := _batch_size(len(texts))) < x.shape[0]:
                # Filled up with texts that are there.
                kept = ops.convert_to_tensor(np.resize(places, size), "int32")
                x, mask = ops.take(x, kept, axis=0), ops.take(mask, kept, axis=0)
                places = np.arange(len(texts))
        return check_nan(outputs), depths


def _batch_size(count: int) -> int:
    """Return the number of rows that `count` texts are computed in.

    JAX compiles a program for each; the next higher of 1, 2, 3, 4, 6, 8, 12, 16, ...
    leaves at most a third of the rows without a text.
    """
    if keras.config.backend() != "jax":
        return count
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power


def _compile(model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that reads the weights of a model, as for `predict`."""
    backend = keras.config.backend()
    if backend == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        # One program for all shapes.
        traced: Callable[..., Any] = tf.function(
            function, autograph=False, reduce_retracing=True
        )
        return traced
    if backend == "torch":
        import torch  # noqa: PLC0415  (it is the backend)

        eager: Callable[..., Any] = torch.no_grad()(function)
        return eager
    import jax  # noqa: PLC0415  (it is the backend)

    variables = model.variables

    @jax.jit
    def compiled(values: list[Any], *arguments: Any) -> Any:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return function(*arguments)

    return lambda *arguments: call_with_values(compiled, variables, *arguments)
