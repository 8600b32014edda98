"""What a classifier does with a head after each layer, where texts may leave."""

from itertools import islice
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.layers.exit_heads import ExitHeads
from keras_albert.layers.randomness import albert_initializer
from keras_albert.tasks.base.other_backbone import at_depth, remake
from keras_albert.tasks.base.outputs import iterate, predict_all
from keras_albert.tasks.classification.early_exit import EarlyExit
from keras_albert.tasks.classification.exit_rule import ExitRule, read_exit_rule
from keras_albert.tasks.inputs.even_rows import real_rows
from keras_albert.tasks.inputs.model_input import read_model_input
from keras_albert.tasks.inputs.tables import Columns, read_table
from keras_albert.types import Activation, FloatArray, Int64Array, Tensor
from keras_albert.utils.arguments import MAX_LAYERS, check_at_most, is_whole_number


def build_head(
    exits: int, num_classes: int, activation: Activation | None
) -> keras.layers.Layer:
    """Return the last layer of a classifier, with a head for each exit if there are.

    It computes in float32 under any policy, for the precision of softmax and loss.
    """
    if exits:
        return ExitHeads(exits, num_classes, activation, dtype="float32", name="exits")
    return keras.layers.Dense(
        num_classes,
        activation=activation,
        kernel_initializer=albert_initializer(),
        dtype="float32",
        name="logits",
    )


def exit_outputs(classifier: Any, inputs: Any, training: bool | None) -> Tensor:
    """Run a classifier with exits.

    `(batch, num_classes)` of the last layer; in training `(batch, num_layers,
    num_classes)`.
    """
    head, backbone = classifier.output_dense, classifier.backbone
    if training:
        pooled = backbone.pooled_by_layer(inputs, training=True)
        return head(classifier.output_dropout(pooled, training=True))
    pooled = backbone(inputs, training=False)["pooled_output"]
    return head(pooled, exit=backbone.num_layers - 1)


def predict_early(
    classifier: Any, rule: ExitRule, x: Any, batch_size: int | None, **kwargs: Any
) -> tuple[FloatArray, Int64Array]:
    """Predict with exits; see `AlbertTask.predict`.

    Returns the outputs and the number of layers that each text ran through.
    """
    early = current_early_exit(classifier)
    found = predict_all(
        classifier, x, batch_size, lambda ids: early.run(ids, rule), **kwargs
    )
    # Without texts there is no batch.
    return found if isinstance(found, tuple) else (found, np.zeros(0, int))


def evaluate_early(
    classifier: Any,
    rule: ExitRule,
    data: tuple[Any, Any, Any, int | None],
    return_dict: bool = False,
    steps: int | None = None,
    verbose: Any = None,
    text: Any = None,
    label: Any = None,
) -> Any:
    """Evaluate with exits.

    `data` is `(x, y, sample_weight, batch_size)`; `depth` is the mean number of layers.
    """
    del verbose
    classifier.check_compiled("evaluate")
    x, y, weights, size = data
    x, y, weights, columns = read_table(
        *(classifier, x, y, weights, Columns(text, label), size)
    )
    dataset, batches = read_model_input(
        *(classifier, x, y, weights, size),
        steps=steps,
        may_share_rows=False,
        columns=columns,
    )
    early = current_early_exit(classifier)
    classifier.reset_metrics()
    means = {"loss": keras.metrics.Mean(), "depth": keras.metrics.Mean()}
    for batch in islice(iterate(batches or dataset), steps):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(real_rows(batch))
        outputs, depths = early.run(keras.tree.map_structure(np.asarray, x), rule)
        y, outputs, weights = keras.tree.map_structure(
            ops.convert_to_tensor, (y, outputs, weights), none_is_leaf=False
        )
        loss = classifier.compute_loss(x, y, outputs, weights, training=False)
        means["loss"].update_state(loss, sample_weight=len(depths))
        means["depth"].update_state(depths)
        classifier.compute_metrics(x, y, outputs, weights)
    scores = classifier.get_metrics_result()
    scores |= {name: mean.result() for name, mean in means.items()}
    scores = {name: float(value) for name, value in scores.items()}
    return scores if return_dict else list(scores.values())


def copy_without_exits(classifier: Any, num_layers: int | None) -> Any:
    """Return a copy of a fixed depth; see `AlbertClassifier.without_exits`."""
    if not classifier.exits:
        msg = "This classifier has one head already; `num_layers` sets its depth."
        raise ValueError(msg)
    read_exit_rule(classifier, num_layers=num_layers)
    num_layers = num_layers or int(classifier.backbone.num_layers)
    copy = remake(
        classifier,
        backbone=at_depth(classifier.backbone, num_layers),
        preprocessor=classifier.preprocessor,
        exits=0,
    )
    heads = classifier.output_dense.get_weights()
    copy.output_dense.set_weights([head[num_layers - 1] for head in heads])
    return copy


def current_early_exit(classifier: Any) -> EarlyExit:
    """Return the `EarlyExit`, a new one if the model has changed."""
    predict = classifier.batch_outputs.current_function()
    if not hasattr(predict, "early_exit"):
        predict.early_exit = EarlyExit(classifier)
    early: EarlyExit = predict.early_exit
    return early


def count_exits(exits: Any, backbone: AlbertBackbone) -> int:
    """Check the argument `exits` of a task.

    0 if there are no exits.
    """
    if not exits:
        return 0
    if backbone.num_groups > 1:
        msg = (
            "Exits need layers that all share their weights. Received: a backbone with "
            f"num_groups={backbone.num_groups}"
        )
        raise ValueError(msg)
    if exits is True:
        return int(backbone.num_layers)
    if not is_whole_number(exits) or exits < backbone.num_layers:
        msg = (
            "`exits` must be True, or the number of heads, at least one for each of "
            f"the {backbone.num_layers} layers. Received: exits={exits!r}. Run fewer "
            "layers with `num_layers`."
        )
        raise ValueError(msg)
    check_at_most(MAX_LAYERS, exits=exits)
    return exits


def join_exits(
    loss: Any, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Make one row of each exit of each text, weighted by its depth, if there are.

    The mean loss of the rows is `sum(j * loss(j)) / sum(j)` over the exits `j`.
    `y_pred` is `(batch, exits, classes)`; that of one head, `(batch, classes)`, is
    returned as it is.

    Source: [Zhou et al., 2020](https://arxiv.org/abs/2006.04152), section 3.3.
    """
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
