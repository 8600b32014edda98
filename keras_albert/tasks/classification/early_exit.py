"""Classifiers with a head after each layer, where texts may exit."""

from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone import AlbertBackbone
from keras_albert.data.datasets import Steps
from keras_albert.data.model_input import make_batches
from keras_albert.data.tables import Columns, read_table
from keras_albert.devices.model_state import exclusive
from keras_albert.layers.torch_inference import fast_call
from keras_albert.tasks.base.cloning import at_depth, remake
from keras_albert.tasks.base.outputs import check_nan, iterate, predict_all
from keras_albert.tasks.base.predict_function import compile_function
from keras_albert.types import FloatArray, Int64Array, Tensor
from keras_albert.utils import arguments

if TYPE_CHECKING:
    from keras_albert.tasks.base.task import AlbertTask as _Task
else:
    # Keras rewrites bases; see `AlbertTask`.
    _Task = object


@dataclass(frozen=True)
class ExitRule:
    """A rule by which texts leave a classifier; one of the first two is set."""

    # Its methods take arrays, or tensors with a module like NumPy as `xp`.

    patience: Any
    threshold: Any
    tolerance: Any = None

    def agree(self, classifier: Any, outputs: Any, previous: Any, xp: Any = np) -> Any:
        """Return for each row whether two exits have the same answer."""
        if self.tolerance is not None:
            return xp.abs(outputs - previous)[:, 0] <= self.tolerance
        if classifier.is_multi_label:
            return xp.all((outputs > 0.5) == (previous > 0.5), axis=-1)
        return xp.argmax(outputs, axis=-1) == xp.argmax(previous, axis=-1)

    def is_confident(self, classifier: Any, probabilities: Any, xp: Any = np) -> Any:
        """Return whether an exit is confident, in its least certain label."""
        if classifier.is_multi_label:
            certain = xp.maximum(probabilities, 1 - probabilities)
            return xp.all(certain >= self.threshold, axis=-1)
        return xp.max(probabilities, axis=-1) >= self.threshold


def read_exit_rule(
    classifier: "EarlyExits",
    patience: Any = None,
    threshold: Any = None,
    tolerance: Any = None,
    num_layers: Any = None,
) -> ExitRule | None:
    """Check the arguments that let texts leave early; see `ExitRule`."""
    given = {"patience": patience, "threshold": threshold, "num_layers": num_layers}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        msg = f"Pass one of `patience`, `threshold` and `num_layers`. Received: {names}"
        raise ValueError(msg)
    is_scored = patience is not None and classifier.is_regression
    if is_scored != (tolerance is not None):
        raise ValueError(
            "`tolerance` is the largest difference between scores that agree, for a "
            f"regression with `patience`. Received: patience={patience!r}, "
            f"tolerance={tolerance!r}, num_classes={classifier.num_classes}"
        )
    if num_layers is not None and classifier.exits:
        arguments.check_positive(num_layers=num_layers)
        if num_layers > classifier.exits:
            raise ValueError(
                f"The model has heads after {classifier.exits} layers. Received: "
                f"num_layers={num_layers}. Run fewer, or train a deeper model."
            )
    if patience is None and threshold is None:
        return None
    if not classifier.exits:
        raise ValueError(
            f"`{names[0]}` needs a head after each layer, but this classifier has only "
            "the last one. Train one that is built with `exits=True`, or run fewer "
            "layers with `num_layers`."
        )
    if threshold is None:
        _check_patience(patience, tolerance, classifier.backbone.num_layers)
    elif classifier.is_regression:
        raise ValueError(
            "A score has no probability to compare with `threshold`. Pass `patience` "
            "and `tolerance`."
        )
    elif not (isinstance(threshold, Real) and 0 < float(threshold) < 1):
        raise ValueError(
            "`threshold` must be a probability between 0 and 1. Received: "
            f"threshold={threshold!r}"
        )
    return ExitRule(patience, threshold, tolerance)


def _check_patience(patience: Any, tolerance: Any, num_layers: int) -> None:
    arguments.check_positive(patience=patience)
    if patience > num_layers - 2:
        raise ValueError(
            f"With `patience={patience}` no text can leave a model of {num_layers} "
            "layers before the last one, because the first exit agrees with none. The "
            f"largest patience is {num_layers - 2}."
        )
    if tolerance is not None:
        arguments.check_finite_and_positive(tolerance=tolerance)


class EarlyExit:
    """Runs a classifier layer by layer; after each, some texts leave the batch."""

    def __init__(self, classifier: "EarlyExits") -> None:
        self.classifier = classifier
        backbone = classifier.backbone

        def start(token_ids: Any, segment_ids: Any) -> Any:
            return fast_call(backbone.embedding, token_ids, segment_ids=segment_ids)

        # A layer, so that weights are read in the precision of the model.
        run_layer = keras.layers.Lambda(
            lambda tensors: backbone.encoder.run_virtual_layer(*tensors),
            dtype=backbone.dtype_policy,
        )

        def step(x: Any, padding_mask: Any, layer: Any) -> Any:
            x = fast_call(run_layer, (x, padding_mask, layer))
            pooled = backbone.pool(x, padding_mask)
            return x, fast_call(classifier.output_dense, pooled, exit=layer)

        self._start = compile_function(classifier, start)
        self._step = compile_function(classifier, step)
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
        x, mask = self._start(ids["token_ids"], ids["segment_ids"]), ids["padding_mask"]
        count, num_layers = len(tokens), len(self._layers)
        outputs = np.zeros((count, self.classifier.num_classes), "float32")
        depths = np.full(count, num_layers)
        # The texts that are left, where they are in `x`, and how many exits in a row
        # have agreed on them.
        texts, places = np.arange(count), np.arange(count)
        agreed = np.zeros(count, int)
        for layer, number in enumerate(self._layers):
            x, answers = self._step(x, mask, number)
            found = ops.convert_to_numpy(answers)[places]
            if rule.threshold is not None:
                chances = self.classifier.probabilities(found)
                leaves = rule.is_confident(self.classifier, chances)
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
    """Return the number of rows that `count` texts are computed in."""
    # JAX compiles a program for 1, 2, 3, 4, 6, 8, 12, 16, ... rows.
    if keras.config.backend() != "jax":
        return count
    power = 1 << (count - 1).bit_length()
    return power * 3 // 4 if count <= power * 3 // 4 else power


def current_early_exit(classifier: "EarlyExits") -> EarlyExit:
    """Return the `EarlyExit`, a new one if the model has changed."""
    return classifier.batch_outputs.cached("early_exit", lambda: EarlyExit(classifier))


def count_exits(exits: Any, backbone: AlbertBackbone) -> int:
    """Check the argument `exits` of a task, and return how many there are."""
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


def _join_exits(
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


class EarlyExits(_Task):
    """What `exits` adds to a classifier, as a mixin before `AlbertTask`."""

    exits: int
    output_dense: Any
    output_dropout: keras.layers.Dropout

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Run the model; in training with exits, return the outputs of all heads."""
        if not (self.exits and training):
            return super().call(inputs, training=training, mask=mask)
        pooled = self.backbone.pooled_by_layer(inputs, training=True)
        return self.output_dense(self.output_dropout(pooled, training=True))

    def compute_output_spec(
        self, inputs: Any, training: bool | None = None, mask: Any = None
    ) -> keras.KerasTensor:
        """Return symbolic outputs; in training with exits, of all heads."""
        spec = super().compute_output_spec(inputs, training=training, mask=mask)
        if not (self.exits and training):
            return spec
        batch, units = spec.shape
        return keras.KerasTensor((batch, self.backbone.num_layers, units), spec.dtype)

    def compute_loss(  # noqa: D102  (see `keras.Model`)
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        rows = _join_exits(self.loss, y, y_pred, sample_weight)
        return super().compute_loss(x, *rows, training)

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> Any:
        """Update the metrics, by the last head."""
        y_pred = y_pred[:, -1] if len(y_pred.shape) == 3 else y_pred
        return super().compute_metrics(x, y, y_pred, sample_weight)

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

        At most one of `patience`, `threshold` and `num_layers` is set; the first two
        need `exits`. No further layers run for texts that have exited.

        Args:
            x: See `fit`.
            batch_size: int. Defaults to `None`, which means 32.
            patience: int. A text leaves after this many exits in a row that agree with
                the exit before them. Defaults to `None`.
            threshold: float. A text leaves after the first exit where the probability
                of its answer (of its least certain label) is at least this. Defaults
                to `None`.
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
            ValueError: See `AlbertTask.predict`; or if the model lacks the exits.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2, exits=True)
            >>> outputs, depths = classifier.predict(
            ...     ["a fine film"], patience=1, return_depths=True, verbose=0)
            >>> outputs.shape, depths.shape
            ((1, 2), (1,))
        """
        rule = read_exit_rule(self, patience, threshold, tolerance, num_layers)
        if rule is None:
            outputs = super().predict(x, batch_size, num_layers=num_layers, **kwargs)
            depths = np.full(len(outputs), num_layers or self.backbone.num_layers)
        else:
            early = current_early_exit(self)
            found = predict_all(
                self, x, batch_size, lambda ids: early.run(ids, rule), **kwargs
            )
            # Without texts there is no batch.
            is_empty = not isinstance(found, tuple)
            outputs, depths = (found, np.zeros(0, int)) if is_empty else found
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
            batch_size: int. Defaults to `None`, which means 32.
            sample_weight: One weight per example. Defaults to `None`.
            patience: int. See `predict`. Defaults to `None`.
            threshold: float. See `predict`. Defaults to `None`.
            tolerance: float. See `predict`. Defaults to `None`.
            num_layers: int. See `predict`. Defaults to `None`.
            **kwargs: See `AlbertTask.evaluate`; for exits only `return_dict`, `steps`
                and `verbose`.

        Returns:
            The loss and the metrics, as in Keras; with exits also `depth`, the mean.

        Raises:
            TypeError: See `fit`.
            ValueError: See `predict`.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> scores = sentiment.evaluate(
            ...     ["a fine film", "so boring"], ["positive", "negative"],
            ...     num_layers=6,
            ...     return_dict=True, verbose=0)
            >>> scores["accuracy"]
            1.0
        """
        rule = read_exit_rule(self, patience, threshold, tolerance, num_layers)
        if rule is not None:
            data = (x, y, sample_weight, batch_size)
            with exclusive(self):
                return self._evaluate_early(rule, data, **kwargs)
        kwargs |= {"sample_weight": sample_weight, "num_layers": num_layers}
        return super().evaluate(x, y, batch_size, **kwargs)

    def _evaluate_early(
        self,
        rule: ExitRule,
        data: tuple[Any, Any, Any, int | None],
        return_dict: bool = False,
        steps: int | None = None,
        verbose: Any = None,
        text: Any = None,
        label: Any = None,
    ) -> Any:
        """Evaluate `(x, y, sample_weight, batch_size)` with exits."""
        del verbose
        self.check_compiled("evaluate")
        x, y, weights, size = data
        raw = read_table(self, x, y, weights, Columns(text, label), size)
        batches = make_batches(self, raw, size, steps=Steps(steps), may_pack=False)
        early = current_early_exit(self)
        self.reset_metrics()
        means = {"loss": keras.metrics.Mean(), "depth": keras.metrics.Mean()}
        for batch in islice(iterate(batches), steps):
            x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
            outputs, depths = early.run(keras.tree.map_structure(np.asarray, x), rule)
            y, outputs, weights = keras.tree.map_structure(
                ops.convert_to_tensor, (y, outputs, weights), none_is_leaf=False
            )
            loss = self.compute_loss(x, y, outputs, weights, training=False)
            means["loss"].update_state(loss, sample_weight=len(depths))
            means["depth"].update_state(depths)
            self.compute_metrics(x, y, outputs, weights)
        scores = self.get_metrics_result()
        scores |= {name: mean.result() for name, mean in means.items()}
        scores = {name: float(value) for name, value in scores.items()}
        return scores if return_dict else list(scores.values())

    def without_exits(self, num_layers: int | None = None) -> Any:
        """Return a classifier of a fixed depth, with the head after its last layer.

        It can be converted to formats that have one head. LoRA's update is merged.

        Args:
            num_layers: int. The number of layers. Defaults to `None`, the model's.

        Returns:
            An `AlbertClassifier` with a copy of the weights.

        Raises:
            ValueError: If the model has no exits, or not that many.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2, exits=True)
            >>> classifier.without_exits(3).backbone.num_layers
            3
        """
        if not self.exits:
            msg = "This classifier has one head already; `num_layers` sets its depth."
            raise ValueError(msg)
        read_exit_rule(self, num_layers=num_layers)
        num_layers = num_layers or int(self.backbone.num_layers)
        copy = remake(
            self,
            backbone=at_depth(self.backbone, num_layers),
            preprocessor=self.preprocessor,
            exits=0,
        )
        heads = self.output_dense.get_weights()
        copy.output_dense.set_weights([head[num_layers - 1] for head in heads])
        return copy
