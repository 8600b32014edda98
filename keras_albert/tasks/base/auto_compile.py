"""A `compile` that needs no arguments, and an optimizer that `fit` completes."""

from dataclasses import dataclass
from typing import Any

import keras

from keras_albert.tasks.distribution.replica_task import ReplicaTask
from keras_albert.tasks.optimizers.default_optimizer import (
    default_jit_compile,
    default_learning_rate,
    default_optimizer,
)

# They set the rate themselves, which no schedule allows.
_RATE_CALLBACKS = (
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
)


@dataclass(frozen=True)
class _Automatic:
    """What `fit` completes. No dict: Keras would take its metrics for the model's."""

    learning_rate: float | None
    arguments: dict[str, Any]


class AutomaticCompile(ReplicaTask):
    """How tasks are compiled, as a mixin that stands before `keras.Model`.

    A subclass has a `backbone`, and says what its default loss and metrics are.
    """

    backbone: Any
    compiled: bool
    trainable_variables: Any
    # Until `compile` sets them; `compile=False` in the constructor leaves it out.
    optimizer: Any = None
    _automatic: _Automatic | None = None

    def default_loss(self) -> Any:
        """Give the loss that `compile` uses if none is named."""
        raise NotImplementedError

    def default_metrics(self) -> Any:
        """Give the metrics that `compile` uses if none are named."""
        raise NotImplementedError

    def default_weighted_metrics(self) -> Any:
        """Give the metrics that heed sample weights, if `compile` names none."""
        return None

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
                AdamW whose rate warms up over the first tenth of the steps of each
                call of `fit`, and decays to zero over the others. It is constant
                where nobody knows the steps, or a callback sets it.
            loss: string or `keras.losses.Loss`. Defaults to `"auto"`, the task's own.
            metrics: A list. Defaults to `"auto"`, the task's own.
            weighted_metrics: A list. Defaults to `"auto"`, the task's own.
            learning_rate: float. The highest rate of the optimizer `"auto"`. Defaults
                to `None`: chosen by the model's width, and by whether its weights
                were loaded.
            **kwargs: Whatever else `keras.Model.compile` takes.

        Raises:
            ValueError: If `learning_rate` is given along with an optimizer, or is
                not above zero.
        """
        automatic = isinstance(optimizer, str) and optimizer == "auto"
        if learning_rate is not None and not automatic:
            msg = (
                "`learning_rate` belongs to the optimizer 'auto'. Give it to your own "
                f"optimizer instead. Received: optimizer={optimizer}, "
                f"learning_rate={learning_rate}"
            )
            raise ValueError(msg)
        if learning_rate is not None and not learning_rate > 0:
            msg = (
                f"`learning_rate` must be above 0. Received: {learning_rate}. To keep "
                "weights as they are, set `backbone.trainable = False`."
            )
            raise ValueError(msg)
        if isinstance(loss, str) and loss == "auto":
            loss = self.default_loss()
        if isinstance(metrics, str) and metrics == "auto":
            metrics = self.default_metrics()
        if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
            weighted_metrics = self.default_weighted_metrics()
        kwargs["weighted_metrics"] = weighted_metrics
        kwargs.setdefault("jit_compile", default_jit_compile())
        self._automatic = None
        if automatic:
            arguments = {"loss": loss, "metrics": metrics, **kwargs}
            self._automatic = _Automatic(learning_rate, arguments)
        with self.variable_scope():
            if automatic:
                optimizer = self._automatic_optimizer(learning_rate, None)
            super().compile(optimizer, loss, metrics=metrics, **kwargs)  # type: ignore[misc]

    def check_compiled(self, method: str) -> None:
        """Raise a `ValueError` if the model is not compiled.

        Args:
            method: string. The method that was called, for the message.
        """
        if not self.compiled:
            msg = (
                f"You must call `compile()` before `{method}()`. Received: a "
                f"{type(self).__name__} that is not compiled."
            )
            raise ValueError(msg)

    def _automatic_optimizer(self, rate: float | None, total_steps: int | None) -> Any:
        rate = rate or default_learning_rate(
            self.backbone.hidden_dim, self.backbone.pretrained
        )
        return default_optimizer(rate, total_steps)

    def _complete_optimizer(self, total_steps: int | None, callbacks: Any) -> None:
        """Start the optimizer `"auto"` anew, for one call of `fit`."""
        if self._automatic is None:
            return
        callbacks = getattr(callbacks, "callbacks", callbacks) or ()
        if any(isinstance(c, _RATE_CALLBACKS) for c in keras.tree.flatten(callbacks)):
            total_steps = None
        rate, arguments = self._automatic.learning_rate, self._automatic.arguments
        with self.variable_scope():
            optimizer = self._automatic_optimizer(rate, total_steps)
            super().compile(optimizer, **arguments)  # type: ignore[misc]

    def make_train_function(self, force: bool = False) -> Any:
        """Make what runs a training step, and the optimizer's variables before it.

        TensorFlow traces a step anew if tracing it made variables: half of the time to
        a first step.
        """
        self.check_scope()
        if not self.optimizer.built:
            with self.variable_scope():
                self.optimizer.build(self.trainable_variables)
        return super().make_train_function(force)

    def get_compile_config(self) -> dict[str, Any]:
        """Say how the model is compiled, and whether by the optimizer `"auto"`."""
        config: dict[str, Any] = super().get_compile_config()  # type: ignore[misc]
        if not config:
            return config
        config["has_state"] = bool(self.optimizer.built)
        if self._automatic is not None:
            config["automatic"] = {"learning_rate": self._automatic.learning_rate}
        return config

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments; it compiles what was compiled."""
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return config if self.compiled else config | {"compile": False}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compile as the saved model was, the optimizer's state to be filled in."""
        arguments = dict(config)
        automatic = arguments.pop("automatic", None)
        has_state = arguments.pop("has_state", True)
        arguments = keras.saving.deserialize_keras_object(arguments)
        self.compile(**arguments)
        if automatic is not None:
            # What was saved has a rate of zero; the next `fit` takes a new one.
            del arguments["optimizer"]
            self._automatic = _Automatic(automatic["learning_rate"], arguments)
        if has_state:
            with self.variable_scope():
                self.optimizer.build(self.trainable_variables)
