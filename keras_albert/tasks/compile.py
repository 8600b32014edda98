"""A `compile` without required arguments, with an optimizer that `fit` completes."""

from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras

from keras_albert.data.datasets import depends_on
from keras_albert.devices import batch_sharding
from keras_albert.devices.processes import (
    WholeBatches,
    check_scope,
    check_supported,
    current_strategy,
)
from keras_albert.layers.torch_inference import fast_call
from keras_albert.tasks.losses_and_metrics import check_metric_names, match_loss
from keras_albert.tasks.optimizers import (
    default_jit_compile,
    default_learning_rate,
    default_optimizer,
    default_schedule,
)
from keras_albert.types import Task
from keras_albert.utils.arguments import (
    check_at_least,
    check_finite_and_positive,
    check_options,
    check_positive,
)
from keras_albert.utils.keras_internals import (
    defer_building,
    optimized_variables,
    register_parameters,
)

# They set the rate, which is not possible with a schedule.
_RATE_CALLBACKS = (
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
)


@dataclass(frozen=True)
class _Automatic:
    """Arguments of the deferred compile; Keras would track the metrics of a dict."""

    learning_rate: float | None
    arguments: dict[str, Any]


class CompiledTask:
    """Compiling of tasks, as a mixin before `keras.Model` in the list of bases."""

    # Attributes of `keras.Model`.
    backbone: Any
    traits: Any
    compiled: bool
    metrics: list[Any]
    trainable: bool
    variables: list[Any]
    weights: list[Any]
    train_function: Any
    test_function: Any
    predict_function: Any
    uses_pooler: bool
    # That in whose scope the task was created, and the processes with which it is
    # trained or evaluated at the moment; see `Processes`.
    strategy: Any = None
    processes: Any = None
    # How many layers Keras' steps run, unless it is all of them; see `steps_at_depth`.
    _depth: int | None = None
    # Whether the loss of a row depends on the other rows of a batch.
    compares_rows = False
    # Until `compile` sets them; the constructor may not call it (`compile=False`).
    optimizer: Any = None
    loss: Any
    _automatic: _Automatic | None = None
    # `None` if they are neither logits nor probabilities.
    outputs_are_logits: bool | None = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Before `compile`, which the constructor calls.
        self.strategy, self.processes = current_strategy(), None
        check_supported(self.strategy)
        super().__init__(*args, **kwargs)
        if self.strategy is not None:
            defer_building(self)

    @property
    def distribute_strategy(self) -> Any:
        """The strategy to which Keras passes data sets."""
        if self.strategy is None:
            return super().distribute_strategy  # type: ignore[misc]
        return WholeBatches(self.strategy)

    def _variable_scope(self) -> AbstractContextManager[Any]:
        """Return the context for variables on the same devices as the model's."""
        return nullcontext() if self.strategy is None else self.strategy.scope()

    def default_loss(self) -> Any:
        """Return the loss of `compile` if none is given."""
        raise NotImplementedError

    def default_metrics(self) -> Any:
        """Return the metrics of `compile` if none are given."""
        raise NotImplementedError

    def default_weighted_metrics(self) -> Any:
        """Return the weighted metrics of `compile` if none are given."""
        return None

    def match_metrics(self, metrics: Any) -> Any:
        """Return metrics that read outputs and targets in the form of the task."""
        return metrics

    def _split(self, variables: list[Any], trained: bool) -> list[Any]:
        # An unused pooler has no gradient, and weight decay would change it. The
        # backbone stays trainable: another task on it may train the pooler.
        unused = () if self.uses_pooler else self.backbone.pooler.variables
        ids = {id(variable) for variable in unused}
        return [v for v in variables if (v.trainable and id(v) not in ids) == trained]

    @property
    def trainable_variables(self) -> list[Any]:
        """The variables that training changes, without an unused pooler."""
        return self._split(self.variables, True) if self.trainable else []

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The variables that training leaves unchanged, or that are no weights."""
        return self._split(self.variables, False) if self.trainable else self.variables

    @property
    def trainable_weights(self) -> list[Any]:
        """The weights that training changes, without an unused pooler."""
        return self._split(self.weights, True) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The weights that training leaves unchanged."""
        return self._split(self.weights, False) if self.trainable else self.weights

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        metrics: Any = "auto",
        weighted_metrics: Any = "auto",
        learning_rate: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Configure training; the constructor calls this without arguments.

        Args:
            optimizer: string or `keras.optimizers.Optimizer`. Defaults to `"auto"`:
                AdamW whose rate warms up over the first tenth of the steps of each call
                of `fit`, and decays to zero over the others. If the number of steps is
                unknown, or a callback sets the rate, it is constant. With
                `initial_epoch` the last schedule continues, and is extended if `epochs`
                goes beyond its end.
            loss: string or `keras.losses.Loss`. A name, such as
                `"sparse_categorical_crossentropy"`, reads outputs as the model returns
                them, logits or probabilities. Defaults to `"auto"`, the default of the
                task.
            metrics: A list. Metrics by class, such as `keras.metrics.F1Score()`, read
                class numbers and logits, too. The names `"f1"`, `"precision"`,
                `"recall"` (means over classes), `"mcc"` and `"auc"` are scikit-learn's
                scores of classes. Defaults to `"auto"`, the default of the task.
            weighted_metrics: A list, as `metrics`. Defaults to `"auto"`, the default of
                the task.
            learning_rate: float. The highest rate of the optimizer `"auto"`. Defaults
                to `None`: it depends on the width of the model, and on whether its
                weights were loaded.
            **kwargs: Other arguments of `keras.Model.compile`.

        Raises:
            TypeError: If an argument has an unknown name or the wrong type.
            ValueError: If `learning_rate` is given with another optimizer, or is not
                positive; if Keras has no loss or metric of a name; or if the loss
                contradicts the outputs of the model.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_tiny_en_uncased", num_classes=2)
            >>> classifier.compile(learning_rate=1e-4, metrics=["accuracy"])
        """
        check_options(type(self), "compile", kwargs)
        automatic = isinstance(optimizer, str) and optimizer == "auto"
        if learning_rate is not None and not automatic:
            raise ValueError(
                "`learning_rate` belongs to the optimizer 'auto'. Give it to your own "
                f"optimizer instead. Received: optimizer={optimizer}, "
                f"learning_rate={learning_rate}"
            )
        if learning_rate is not None:
            check_finite_and_positive(learning_rate=learning_rate)
        check_positive(steps_per_execution=kwargs.get("steps_per_execution", 1))
        check_metric_names(metrics=metrics, weighted_metrics=weighted_metrics)
        loss = match_loss(loss, self.outputs_are_logits)
        has_own = weighted_metrics not in (None, "auto")
        # Defaults may depend on it.
        self.loss = loss
        with self._variable_scope():
            if isinstance(loss, str) and loss == "auto":
                loss = self.default_loss()
            if isinstance(metrics, str) and metrics == "auto":
                metrics = self.default_metrics()
            else:
                metrics = self.match_metrics(metrics)
            if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
                weighted_metrics = self.default_weighted_metrics()
            else:
                weighted_metrics = self.match_metrics(weighted_metrics)
            if self.traits.metrics_need_weights and metrics:
                weighted_metrics = [metrics, weighted_metrics if has_own else []]
                metrics, weighted_metrics = None, keras.tree.flatten(weighted_metrics)
        kwargs["weighted_metrics"] = weighted_metrics
        kwargs.setdefault("jit_compile", default_jit_compile())
        self._automatic = None
        if automatic:
            arguments = {"loss": loss, "metrics": metrics, **kwargs}
            self._automatic = _Automatic(learning_rate, arguments)
        with self._variable_scope():
            if automatic:
                optimizer = self._automatic_optimizer(learning_rate, None)
            super().compile(optimizer, loss, metrics=metrics, **kwargs)  # type: ignore[misc]
        # LoRA may have added some.
        register_parameters(self)

    def _check_compiled(self, method: str) -> None:
        """Raise a `ValueError` if the model is not compiled, for a `method`."""
        if not self.compiled:
            raise ValueError(
                f"You must call `compile()` before `{method}()`. Received: an "
                f"{type(self).__name__} that is not compiled."
            )

    def _automatic_optimizer(self, rate: float | None, total_steps: int | None) -> Any:
        rate = rate or default_learning_rate(
            self.backbone.hidden_dim, self.backbone.pretrained
        )
        return default_optimizer(rate, total_steps)

    def _complete_optimizer(self, num_steps: int | None, callbacks: Any) -> None:
        """Create the optimizer `"auto"` anew, for the steps of one call of `fit`."""
        if self._automatic is None:
            return
        rate, arguments = self._automatic.learning_rate, self._automatic.arguments
        if _sets_rate(callbacks):
            num_steps = None
        with self._variable_scope():
            optimizer = self._automatic_optimizer(rate, num_steps)
            if self._starts_like(optimizer):
                # A new optimizer would need a new training step: with XLA, seconds.
                for variable in self.optimizer.variables:
                    variable.assign(keras.ops.zeros(variable.shape, variable.dtype))
            else:
                super().compile(optimizer, **arguments)  # type: ignore[misc]

    def _starts_like(self, new: Any) -> bool:
        """Return whether the optimizer, with its state at zero, would equal a new one.

        It would not with a constant rate, which is a part of the state, nor in a
        wrapper for float16, nor if other weights are to be trained.
        """
        old = self.optimizer
        if type(old) is not type(new) or not (old.built and self.train_function):
            return False
        settings, new_settings = old.get_config(), new.get_config()
        # Keras numbers the names.
        settings["name"] = new_settings["name"]
        return (
            isinstance(new_settings["learning_rate"], dict)
            and settings == new_settings
            and [id(v) for v in optimized_variables(old)]
            == [id(v) for v in self.trainable_variables]
        )

    def _continue_optimizer(self, num_steps: int | None, callbacks: Any) -> bool:
        """Let the optimizer `"auto"` of an earlier `fit` make more steps."""
        if self._automatic is None:
            return True
        # Keras wraps it for float16.
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if not (made := int(optimizer.iterations)):
            return False
        schedule = optimizer.get_config()["learning_rate"]
        if not isinstance(schedule, dict) or schedule["class_name"] != "CosineDecay":
            return True
        if num_steps is None or _sets_rate(callbacks):
            return False
        planned = schedule["config"]
        if made + num_steps > planned["warmup_steps"] + planned["decay_steps"]:
            optimizer.learning_rate = default_schedule(
                planned["warmup_target"], made + num_steps
            )
            # It has the old schedule.
            self.train_function = None
        return True

    def _before_training(self) -> None:
        """Prepare for training, however it is started."""

    def make_train_function(self, force: bool = False) -> Any:
        """Create the function of a training step, and first the optimizer's state."""
        self._before_training()
        # TensorFlow traces a step again if tracing it created variables.
        if not self.optimizer.built:
            self._check_scope()
            with self._variable_scope():
                self.optimizer.build(self.trainable_variables)
        return self._step_function("train", force)

    def make_test_function(self, force: bool = False) -> Any:
        """Create the function of an evaluation step; Keras calls this."""
        return self._step_function("test", force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Create the function of a prediction step; Keras calls this."""
        return self._step_function("predict", force)

    def _check_scope(self) -> None:
        if keras.config.backend() == "tensorflow":
            check_scope(self.strategy)

    def _step_function(self, kind: str, force: bool) -> Any:
        """Let Keras create a function, or the trainer of the strategy."""
        name = f"{kind}_function"
        self._check_scope()
        if self.strategy is None:
            return getattr(super(), f"make_{name}")(force)
        if getattr(self, name) is None or force:
            # Imports TensorFlow, which may not be installed.
            from keras_albert.devices.strategy_trainer import StrategyTrainer  # noqa: PLC0415

            setattr(self, name, getattr(StrategyTrainer(self, self.strategy), name)())
        return getattr(self, name)

    def train_step(self, *state_and_data: Any) -> Any:
        """Train on a batch of a data set; Keras calls this."""
        return self._run_step(super().train_step, state_and_data, training=True)  # type: ignore[misc]

    def test_step(self, *state_and_data: Any) -> Any:
        """Evaluate on a batch of a data set; Keras calls this."""
        return self._run_step(super().test_step, state_and_data, training=False)  # type: ignore[misc]

    def _run_step(
        self, step: Callable[..., Any], state_and_data: Any, training: bool
    ) -> Any:
        *state, data = state_and_data
        backend = keras.config.backend()
        if backend == "torch" and self.processes is not None:
            return self._step_together(data, training)
        x = data[0] if isinstance(data, list | tuple) else data
        if backend == "torch" and batch_sharding.MASKED_TOKENS not in x:
            return step(data)
        batch_sharding.build_metrics_before_xla(self, data)
        with depends_on(data):
            batch = batch_sharding.unpad_batch(data)
            if training:
                batch = batch_sharding.weigh_processes(batch)
            return step(*state, batch)

    def _step_together(self, data: Any, training: bool) -> dict[str, Any]:
        """Train or evaluate on the rows of this process, with other processes."""
        # Imports PyTorch, which may not be installed.
        from keras_albert.devices import torch_steps  # noqa: PLC0415

        # PyTorch's loader makes a list of a tuple.
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        counts = self.processes.index == 0 or not batch_sharding.is_replicated(x)
        batch = batch_sharding.without_mark(x), y, weights
        if training:
            batch = batch_sharding.weigh_processes(batch, self.processes)
            return torch_steps.train_together(self, batch, counts)
        return torch_steps.evaluate_together(self, batch, counts)

    def predict_step(self, *state_and_data: Any) -> Any:
        """Predict for a batch of a data set; Keras calls this."""
        *state, data = state_and_data
        data = batch_sharding.unpad_batch(data)
        if keras.config.backend() != "torch":
            return super().predict_step(*state, data)  # type: ignore[misc]
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        return fast_call(self, x, training=False)

    def get_metrics_result(self) -> dict[str, Any]:
        """Return the metrics of this process; Keras 3.16 would wait for the others."""
        results: dict[str, Any] = {}
        for metric in self.metrics:
            value = metric.result()
            results |= value if isinstance(value, dict) else {metric.name: value}
        return results

    def get_compile_config(self) -> dict[str, Any]:
        """Return the arguments of `compile`, and whether the optimizer is automatic."""
        config: dict[str, Any] = super().get_compile_config()  # type: ignore[misc]
        if not config or self.optimizer is None:
            return config
        # Keras takes it out of a model that it saves as `.h5`.
        config.setdefault("optimizer", keras.optimizers.serialize(self.optimizer))
        # Keras ignores keys that it does not know only here, as in `clone_model`.
        config["optimizer"]["has_state"] = bool(self.optimizer.built)
        if self._automatic is not None:
            rate = self._automatic.learning_rate
            config["optimizer"]["automatic"] = {"learning_rate": rate}
        return config

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments; it compiles if the model is compiled."""
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return config if self.compiled else config | {"compile": False}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as the saved model was, with variables for the optimizer's state."""
        arguments = dict(config)
        # Version 0.1 stored these two next to the arguments.
        optimizer = arguments.get("optimizer")
        known = arguments | (optimizer if isinstance(optimizer, dict) else {})
        automatic, has_state = known.get("automatic"), known.get("has_state", True)
        for name in ("automatic", "has_state"):
            arguments.pop(name, None)
        arguments = keras.saving.deserialize_keras_object(arguments)
        self.compile(**arguments)
        if automatic is not None:
            # The saved rate is zero; the next `fit` creates a new optimizer.
            del arguments["optimizer"]
            self._automatic = _Automatic(automatic["learning_rate"], arguments)
        if has_state:
            with self._variable_scope():
                self.optimizer.build(self.trainable_variables)


def _sets_rate(callbacks: Any) -> bool:
    """Return whether one of the callbacks of `fit` sets the learning rate."""
    callbacks = getattr(callbacks, "callbacks", callbacks) or ()
    return any(isinstance(c, _RATE_CALLBACKS) for c in keras.tree.flatten(callbacks))


_STEPS = ("train_step", "test_step")


@contextmanager
def steps_at_depth(task: Task, num_layers: int | None) -> Iterator[None]:
    """Let the steps of Keras, made or traced in this block, run some layers."""
    task._depth = num_layers
    own = task.__dict__
    if num_layers is not None:
        # JAX keeps one program for equal methods, at whatever depth it was traced.
        for name in _STEPS:
            own[name] = partial(getattr(type(task), name), task)
    try:
        yield
    finally:
        task._depth = None
        for name in _STEPS:
            own.pop(name, None)


def check_epochs(
    epochs: int, initial_epoch: Any = None, validation_freq: Any = 1, **_: Any
) -> int:
    """Check numbers of epochs, and return the first one."""
    first = initial_epoch or 0
    check_at_least(0, epochs=epochs, initial_epoch=first)
    if not isinstance(validation_freq, Container):
        check_positive(validation_freq=validation_freq)
    return int(first)
