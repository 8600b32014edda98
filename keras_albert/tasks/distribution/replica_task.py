"""A task whose variables were made in the scope of a `tf.distribute` strategy."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from keras_albert.tasks.distribution.replica_steps import ReplicaSteps


class ReplicaTask:
    """Trains by the strategy in whose scope it was made, as a mixin.

    It stands before `keras.Model`. `fit`, `evaluate` and `predict` may be called
    inside and outside of the scope. Without a strategy nothing differs.
    """

    # Whether the loss of a row depends on the other rows of a batch.
    compares_rows = False

    strategy: Any = None
    train_function: Any
    test_function: Any
    predict_function: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Before `compile`, which the constructor calls.
        self.strategy = _current_strategy()
        super().__init__(*args, **kwargs)
        if self.strategy is not None:
            # Keras would build the model by a batch that is then not trained on.
            self._distribute_strategy = None

    @property
    def distribute_strategy(self) -> Any:
        """What Keras hands data sets to."""
        if self.strategy is None:
            return super().distribute_strategy  # type: ignore[misc]
        return _WholeBatches(self.strategy)

    def variable_scope(self) -> AbstractContextManager[Any]:
        """Give the context in which variables are made like the model's own."""
        if self.strategy is None:
            return nullcontext()
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def make_train_function(self, force: bool = False) -> Any:
        """Make what runs a training step; Keras calls this."""
        if (steps := self._steps()) is None:
            return super().make_train_function(force)  # type: ignore[misc]
        if self.train_function is None or force:
            self.train_function = steps.train_function()
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Make what evaluates a batch; Keras calls this."""
        if (steps := self._steps()) is None:
            return super().make_test_function(force)  # type: ignore[misc]
        if self.test_function is None or force:
            self.test_function = steps.test_function()
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Make what predicts for a batch; Keras calls this."""
        if (steps := self._steps()) is None:
            return super().make_predict_function(force)  # type: ignore[misc]
        if self.predict_function is None or force:
            self.predict_function = steps.predict_function()
        return self.predict_function

    def check_scope(self) -> None:
        """Refuse the scope of a strategy that the task was not made in.

        Raises:
            ValueError: If there is one.
        """
        current = _current_strategy()
        if current is not None and current is not self.strategy:
            msg = (
                "The task was made outside of the scope of the strategy in use, "
                f"{type(current).__name__}. Make the backbone and the task in `with "
                "strategy.scope():`, too."
            )
            raise ValueError(msg)

    def _steps(self) -> ReplicaSteps | None:
        self.check_scope()
        return None if self.strategy is None else ReplicaSteps(self, self.strategy)


def _current_strategy() -> Any:
    """Find the strategy whose scope is entered, if there is one."""
    if keras.config.backend() != "tensorflow":
        return None
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return tf.distribute.get_strategy() if tf.distribute.has_strategy() else None


class _WholeBatches:
    """A strategy whose replicas pick their rows themselves."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        del options
        return dataset
