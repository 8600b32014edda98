"""Classifiers with a head after each layer, where texts may exit."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone import AlbertBackbone
from keras_albert.layers.torch_inference import fast_call
from keras_albert.tasks.cloning import remake
from keras_albert.tasks.predict import check_nan, compile_function, predict_all
from keras_albert.types import FloatArray, Int64Array, Tensor
from keras_albert.utils import arguments


def count_exits(exits: Any, backbone: AlbertBackbone) -> int:
    """Check the argument `exits` of a classifier, and return how many there are."""
    if not exits:
        return 0
    if backbone.num_groups > 1:
        raise ValueError(
            "Exits need layers that all share their weights. Received: a backbone with "
            f"num_groups={backbone.num_groups}"
        )
    if exits is True:
        return int(backbone.num_layers)
    if not arguments.is_whole_number(exits) or exits < backbone.num_layers:
        raise ValueError(
            "`exits` must be True, or the number of heads, at least one for each of "
            f"the {backbone.num_layers} layers. Received: exits={exits!r}. Run fewer "
            "layers with `num_layers`."
        )
    arguments.check_at_most(arguments.MAX_LAYERS, exits=exits)
    return exits


def join_exits(
    loss: Any, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Make one row of each exit of each text, weighted by its depth, if there are."""
    # The mean loss is `sum(j * loss(j)) / sum(j)` over the exits `j`. Source: [Zhou et
    # al., 2020](https://arxiv.org/abs/2006.04152), section 3.3.
    if len(y_pred.shape) != 3:
        return y, y_pred, sample_weight
    exits = y_pred.shape[1]
    by_depth = np.arange(1, exits + 1, dtype="float32")
    by_depth /= by_depth.sum()
    if getattr(loss, "reduction", None) != "sum":
        by_depth *= exits
    weights = ops.ones_like(y_pred[:, :, 0]) * ops.convert_to_tensor(by_depth)
    if sample_weight is not None:
        weights *= ops.reshape(ops.cast(sample_weight, weights.dtype), (-1, 1))
    return (
        ops.repeat(y, exits, axis=0),
        ops.reshape(y_pred, (-1, y_pred.shape[-1])),
        ops.reshape(weights, (-1,)),
    )


def with_last_head(classifier: Any) -> Any:
    """Return a model with the head of its last layer alone: itself without exits."""
    # Other formats have one head.
    if not getattr(classifier, "exits", 0):
        return classifier
    parts = {"backbone": classifier.backbone, "preprocessor": classifier.preprocessor}
    copy = remake(classifier, **parts, exits=0)
    last = classifier.backbone.num_layers - 1
    heads = classifier.output_dense.get_weights()
    copy.output_dense.set_weights([head[last] for head in heads])
    return copy


def check_rule(
    classifier: Any,
    patience: int | None,
    threshold: float | None,
    num_layers: int | None = None,
) -> None:
    """Check the arguments of `predict` that let texts exit early."""
    if patience is None and threshold is None:
        return
    if not classifier.exits:
        raise ValueError(
            "`patience` and `threshold` need a head after each layer, but this "
            "classifier has only the last one. Train one that is built with "
            "`exits=True`, or run fewer layers with `num_layers`."
        )
    is_both = patience is not None and threshold is not None
    if num_layers is not None or is_both != classifier.is_regression:
        raise ValueError(
            "Pass one of `patience`, `threshold` and `num_layers`; for a regression, "
            "`num_layers` or `patience` with `threshold`. Received: "
            f"{patience=}, {threshold=}, {num_layers=}"
        )
    if patience is not None:
        arguments.check_positive(patience=patience)
    if classifier.is_regression:
        arguments.check_finite_and_positive(threshold=threshold)
    elif threshold is not None:
        arguments.check_rates(threshold=threshold)


def predict_with_exits(
    classifier: Any,
    x: Any,
    batch_size: int | None,
    patience: int | None,
    threshold: float | None,
    **kwargs: Any,
) -> tuple[FloatArray, Int64Array]:
    """Return the outputs, and the number of layers that each text ran through."""

    def run_batch(inputs: dict[str, npt.NDArray[Any]]) -> Any:
        return _run_batch(classifier, inputs, patience, threshold)

    found = predict_all(classifier, x, batch_size, run_batch, **kwargs)
    # Without texts there is no batch.
    return found if isinstance(found, tuple) else (found, np.zeros(0, int))


def _run_batch(
    classifier: Any,
    inputs: dict[str, npt.NDArray[Any]],
    patience: int | None,
    threshold: float | None,
) -> tuple[FloatArray, Int64Array]:
    """Run layer by layer; after each, some texts leave the batch."""
    start, run_layer = classifier.run_batch.cached(
        "early_exit", lambda: compile_layers(classifier)
    )
    ids = {name: ops.convert_to_tensor(x, "int32") for name, x in inputs.items()}
    x, mask = start(ids["token_ids"], ids["segment_ids"]), ids["padding_mask"]
    count, num_layers = len(inputs["token_ids"]), classifier.backbone.num_layers
    outputs = np.zeros((count, classifier.num_classes), "float32")
    depths = np.full(count, num_layers)
    # The texts that are left, where they are in `x`, and how many exits in a row have
    # agreed on them.
    texts, places = np.arange(count), np.arange(count)
    agreed = np.zeros(count, int)
    for layer in range(num_layers):
        x, answers = run_layer(x, mask, ops.convert_to_tensor(layer, "int32"))
        found = ops.convert_to_numpy(answers)[places]
        if patience is None:
            leaves = _is_confident(classifier, found, threshold)
        else:
            same = _agree(classifier, found, outputs[texts], threshold)
            agreed = np.where(same & (layer > 0), agreed + 1, 0)
            leaves = agreed >= patience
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


def compile_layers(classifier: Any) -> tuple[Any, Any]:
    """Compile the embedding, and a layer with its head."""
    backbone = classifier.backbone

    def start(token_ids: Any, segment_ids: Any) -> Any:
        return fast_call(backbone.embedding, token_ids, segment_ids=segment_ids)

    # A layer, so that weights are read in the precision of the model.
    virtual_layer = keras.layers.Lambda(
        lambda tensors: backbone.encoder.run_virtual_layer(*tensors),
        dtype=backbone.dtype_policy,
    )

    def run_layer(x: Any, padding_mask: Any, layer: Any) -> Any:
        x = fast_call(virtual_layer, (x, padding_mask, layer))
        pooled = backbone.pool(x, padding_mask)
        return x, fast_call(classifier.output_dense, pooled, exit=layer)

    return (
        compile_function(classifier, start),
        compile_function(classifier, run_layer),
    )


def _agree(
    classifier: Any, outputs: FloatArray, previous: FloatArray, threshold: Any
) -> npt.NDArray[np.bool_]:
    """Return for each row whether two exits have the same answer."""
    if classifier.is_regression:
        return np.abs(outputs - previous)[:, 0] <= threshold
    if classifier.is_multi_label:
        return np.all((outputs > 0.5) == (previous > 0.5), axis=-1)
    return np.argmax(outputs, axis=-1) == np.argmax(previous, axis=-1)


def _is_confident(
    classifier: Any, outputs: FloatArray, threshold: Any
) -> npt.NDArray[np.bool_]:
    """Return for each row whether an exit is confident, in its least certain label."""
    chances = classifier.probabilities(outputs)
    if classifier.is_multi_label:
        return np.maximum(chances, 1 - chances).min(axis=-1) >= threshold
    return chances.max(axis=-1) >= threshold


def _batch_size(count: int) -> int:
    """Return the number of rows that `count` texts are computed in."""
    # JAX compiles a program for 1, 2, 3, 4, 6, 8, 12, 16, ... rows.
    if keras.config.backend() != "jax":
        return count
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power
