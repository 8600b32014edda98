"""A classifier with a head behind each layer, where texts may leave."""

from itertools import islice
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.tasks.base.outputs import iterate, predict_all
from keras_albert.tasks.classification.early_exit import EarlyExit
from keras_albert.tasks.classification.exit_rule import ExitRule, read_exit_rule
from keras_albert.tasks.inputs.even_rows import real_rows
from keras_albert.tasks.inputs.model_input import read_model_input
from keras_albert.types import Tensor
from keras_albert.utils.arguments import check_positive, is_whole_number
from keras_albert.utils.keras_internals import all_layers


class ExitOutputs:
    """Training, prediction and evaluation with exits, as a mixin before `AlbertTask`.

    Without exits everything is as in `AlbertTask`, except for `return_depths`.
    """

    backbone: Any
    output_dense: Any
    output_dropout: Any
    # The number of heads; 0 is a model with one head, behind the last layer.
    exits: int
    loss: Any

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Run the model.

        Args:
            inputs: A dict of `token_ids`, `segment_ids` and `padding_mask`.
            training: bool. Whether dropout is active, and all heads run.
            mask: Not used.

        Returns:
            Float tensor `(batch, num_classes)`, of the last layer; in the training of a
            model with exits `(batch, num_layers, num_classes)`.
        """
        if not self.exits:
            return super().call(inputs, training=training, mask=mask)  # type: ignore[misc]
        if training:
            pooled = self.backbone.pooled_by_layer(inputs, training=True)
            return self.output_dense(self.output_dropout(pooled, training=True))
        pooled = self.backbone(inputs, training=False)["pooled_output"]
        return self.output_dense(pooled, exit=self.backbone.encoder.num_layers - 1)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Compute the loss; in the training with exits that of all heads."""
        if len(y_pred.shape) == 3:
            y, y_pred, sample_weight = join_exits(self.loss, y, y_pred, sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training)  # type: ignore[misc]

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Update the metrics, by the last head."""
        y_pred = y_pred[:, -1] if len(y_pred.shape) == 3 else y_pred
        return super().compute_metrics(x, y, y_pred, sample_weight)  # type: ignore[misc]

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        *,
        patience: int | None = None,
        threshold: float | None = None,
        tolerance: float | None = None,
        num_layers: int | None = None,
        return_depths: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Compute the model's outputs, in the order of the inputs.

        At most one of `patience`, `threshold` and `num_layers` is set. The first two
        need a model with `exits`. Texts that have left are not computed further; when a
        text leaves does not depend on the others.

        Args:
            x: See `fit`.
            batch_size: int. Defaults to `None`, 32.
            patience: int. A text leaves after the exit that is the `patience`-th in a
                row to agree with the one before it. Defaults to `None`.
            threshold: float. A text leaves after the first exit where the probability
                of its answer (with several labels, that of the least certain one) is
                at least this. Defaults to `None`.
            tolerance: float. The difference up to which scores agree, for the
                `patience` of a regression. Defaults to `None`.
            num_layers: int. How many layers to run. Defaults to `None`, the model's.
            return_depths: bool. Whether to return also the number of layers that each
                text ran through. Defaults to `False`.
            **kwargs: See `AlbertTask.predict`.

        Returns:
            float32 array `(examples, num_classes)`; with `return_depths` a tuple of it
            and an integer array `(examples,)`.

        Raises:
            TypeError: See `fit`.
            ValueError: See `AlbertTask.predict`; or if the model has no exits, or not
                that many, or the arguments are invalid.
        """
        rule = read_exit_rule(self, patience, threshold, tolerance, num_layers)
        if rule is not None:
            early = self._early_exit()
            found = predict_all(
                self, x, batch_size, lambda ids: early.run(ids, rule), **kwargs
            )
            # Without texts there is no batch.
            if not isinstance(found, tuple):
                found = found, np.zeros(0, int)
            outputs, depths = found
        else:
            self._check_exit(num_layers)
            outputs = super().predict(  # type: ignore[misc]
                x, batch_size, num_layers=num_layers, **kwargs
            )
            depths = np.full(len(outputs), num_layers or self.backbone.num_layers)
        return (outputs, depths) if return_depths else outputs

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        *,
        sample_weight: Any = None,
        patience: int | None = None,
        threshold: float | None = None,
        tolerance: float | None = None,
        num_layers: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the loss and the metrics.

        Args:
            x: See `fit`.
            y: See `fit`.
            batch_size: int. Defaults to `None`, 32.
            sample_weight: One weight per example. Defaults to `None`.
            patience: int. See `predict`.
            threshold: float. See `predict`.
            tolerance: float. See `predict`.
            num_layers: int. See `predict`.
            **kwargs: See `AlbertTask.evaluate`; with `patience` or `threshold` only
                `return_dict`, `steps` and `verbose`.

        Returns:
            The loss and the metrics, as in Keras; with `patience` or `threshold` also
            `depth`, the mean number of layers.

        Raises:
            TypeError: See `fit`.
            ValueError: See `predict`.
        """
        rule = read_exit_rule(self, patience, threshold, tolerance, num_layers)
        if rule is not None:
            data = (x, y, sample_weight, batch_size)
            return self._evaluate_early(rule, data, **kwargs)
        self._check_exit(num_layers)
        return super().evaluate(  # type: ignore[misc]
            *(x, y, batch_size),
            sample_weight=sample_weight,
            num_layers=num_layers,
            **kwargs,
        )

    def without_exits(self, num_layers: int | None = None) -> Any:
        """Return a classifier of a fixed depth, with the head behind its last layer.

        It can be converted to formats that know one head. LoRA's update is merged.

        Args:
            num_layers: int. The number of layers. Defaults to `None`, the model's.

        Returns:
            An `AlbertClassifier` with a copy of the weights.

        Raises:
            ValueError: If the model has no exits, or not that many.
        """
        task: Any = self
        num_layers = self.backbone.num_layers if num_layers is None else num_layers
        self._check_exit(num_layers)
        if not self.exits:
            msg = "This classifier has one head already; `num_layers` sets its depth."
            raise ValueError(msg)
        config = task.get_config() | {"exits": 0, "preprocessor": None}
        config["backbone"]["config"]["num_layers"] = num_layers
        copy = type(task).from_config(config)
        copy.preprocessor = task.preprocessor
        layers = all_layers(self.backbone), all_layers(copy.backbone)
        for layer, its_copy in zip(*layers, strict=True):
            # As in a file, where matrices contain LoRA's update.
            variables: dict[str, Any] = {}
            layer.save_own_variables(variables)
            its_copy.load_own_variables(variables)
        copy.backbone.pretrained = self.backbone.pretrained
        heads = self.output_dense.get_weights()
        copy.output_dense.set_weights([head[num_layers - 1] for head in heads])
        return copy

    def _check_exit(self, num_layers: int | None) -> None:
        if num_layers is None or not self.exits:
            return
        check_positive(num_layers=num_layers)
        if num_layers > self.exits:
            msg = (
                f"The model has heads behind {self.exits} layers. Received: "
                f"num_layers={num_layers}. Run fewer, or train a deeper model."
            )
            raise ValueError(msg)

    def _early_exit(self) -> Any:
        """Return the `EarlyExit`, a new one if the model has changed."""
        task: Any = self
        with task.depth_lock.own_depth():
            predict = task.batch_outputs.current_function()
            if not hasattr(predict, "early_exit"):
                predict.early_exit = EarlyExit(task)
            return predict.early_exit

    def _evaluate_early(
        self,
        rule: ExitRule,
        data: tuple[Any, Any, Any, int | None],
        return_dict: bool = False,
        steps: int | None = None,
        verbose: Any = None,
    ) -> Any:
        del verbose
        task: Any = self
        task.check_compiled("evaluate")
        dataset, batches = read_model_input(task, *data, steps=steps)
        early = self._early_exit()
        task.reset_metrics()
        means = {"loss": keras.metrics.Mean(), "depth": keras.metrics.Mean()}
        for batch in islice(iterate(batches or dataset), steps):
            x, y, weights = keras.utils.unpack_x_y_sample_weight(real_rows(batch))
            outputs, depths = early.run(keras.tree.map_structure(np.asarray, x), rule)
            y, outputs, weights = keras.tree.map_structure(
                ops.convert_to_tensor, (y, outputs, weights), none_is_leaf=False
            )
            loss = task.compute_loss(x, y, outputs, weights, training=False)
            means["loss"].update_state(loss, sample_weight=len(depths))
            means["depth"].update_state(depths)
            task.compute_metrics(x, y, outputs, weights)
        scores = task.get_metrics_result()
        scores |= {name: mean.result() for name, mean in means.items()}
        scores = {name: float(value) for name, value in scores.items()}
        return scores if return_dict else list(scores.values())


def count_exits(exits: Any, backbone: AlbertBackbone) -> int:
    """Check the argument `exits` of a task.

    Args:
        exits: bool or int. Whether there are exits, or how many.
        backbone: The backbone of the task.

    Returns:
        The number of heads, `0` if there are no exits.

    Raises:
        ValueError: If there are fewer heads than layers, or several groups of layers.

    Example:
        >>> backbone = AlbertBackbone(30, 6, 2, 4, 8, 16)
        >>> count_exits(True, backbone), count_exits(12, backbone)
        (6, 12)
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
    return exits


def join_exits(
    loss: Any, y: Tensor, y_pred: Tensor, sample_weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Make one row of each exit of each text, weighted by its depth.

    The mean loss of the rows is `sum(j * loss(j)) / sum(j)` over the exits `j`.
    Source: [Zhou et al., 2020](https://arxiv.org/abs/2006.04152), section 3.3.

    Args:
        loss: The loss, which is a mean over rows unless its `reduction` is `"sum"`.
        y: Tensor `(batch, ...)`.
        y_pred: Tensor `(batch, exits, classes)`.
        sample_weight: Tensor `(batch,)` or `None`.

    Returns:
        Targets, outputs and weights of `batch * exits` rows.
    """
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
