"""Tasks on several devices: strategies of TensorFlow."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from keras_albert.utils.keras_internals import defer_building

# Strategies whose replicas train in step, each with all weights.
_SUPPORTED = (
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "OneDeviceStrategy",
    "TPUStrategy",
)


class StrategyMixin:
    """Training with the strategy in whose scope the task was created, as a mixin."""

    # Whether the loss of a row depends on the other rows of a batch.
    compares_rows = False
    strategy: Any = None
    # Those with which it is trained or evaluated at the moment; see `Processes`.
    processes: Any = None
    train_function: Any
    test_function: Any
    predict_function: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Before `compile`, which the constructor calls.
        self.strategy, self.processes = _current_strategy(), None
        _check_supported(self.strategy)
        super().__init__(*args, **kwargs)
        if self.strategy is not None:
            defer_building(self)

    @property
    def distribute_strategy(self) -> Any:
        """The strategy to which Keras passes data sets."""
        if self.strategy is None:
            return super().distribute_strategy  # type: ignore[misc]
        return _WholeBatches(self.strategy)

    def variable_scope(self) -> AbstractContextManager[Any]:
        """Return the context for variables on the same devices as the model's."""
        if self.strategy is None:
            return nullcontext()
        return self.strategy.scope()

    def make_train_function(self, force: bool = False) -> Any:
        """Create the function of a training step; Keras calls this."""
        if (steps := self._steps()) is None:
            return super().make_train_function(force)  # type: ignore[misc]
        if self.train_function is None or force:
            self.train_function = steps.train_function()
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Create the function of an evaluation step; Keras calls this."""
        if (steps := self._steps()) is None:
            return super().make_test_function(force)  # type: ignore[misc]
        if self.test_function is None or force:
            self.test_function = steps.test_function()
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Create the function of a prediction step; Keras calls this."""
        if (steps := self._steps()) is None:
            return super().make_predict_function(force)  # type: ignore[misc]
        if self.predict_function is None or force:
            self.predict_function = steps.predict_function()
        return self.predict_function

    def check_scope(self) -> None:
        """Raise if the task was created outside of the current strategy."""
        current = _current_strategy()
        if current is not None and current is not self.strategy:
            raise ValueError(
                "The task was made outside of the scope of the strategy in use, "
                f"{type(current).__name__}. Make the backbone and the task in `with "
                "strategy.scope():`, too."
            )

    def _steps(self) -> Any:
        """Return the `StrategyTrainer` of the strategy, or `None` if there is none."""
        self.check_scope()
        if self.strategy is None:
            return None
        # Imports TensorFlow, which may not be installed.
        from keras_albert.devices.strategy_trainer import StrategyTrainer  # noqa: PLC0415

        return StrategyTrainer(self, self.strategy)


def _current_strategy() -> Any:
    """Return the strategy of the current scope, or `None`."""
    if keras.config.backend() != "tensorflow":
        return None
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return tf.distribute.get_strategy() if tf.distribute.has_strategy() else None


def _check_supported(strategy: Any) -> None:
    if strategy is None:
        return
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    if not isinstance(
        strategy, tuple(getattr(tf.distribute, name) for name in _SUPPORTED)
    ):
        raise ValueError(
            f"Tasks do not train with {type(strategy).__name__}. Create the backbone "
            f"and the task in the scope of one of: {', '.join(_SUPPORTED)}."
        )


class _WholeBatches:
    """A strategy whose replicas select their rows themselves."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        del options
        return dataset


def refuse_sharded(cls: type) -> None:
    """Raise for a class of `fully_shard`, whose parameters Keras would not train."""
    if any(base.__name__ == "FSDPModule" for base in cls.__mro__):
        raise ValueError(
            "`fully_shard` replaces parameters, but Keras's layers would train the old "
            "ones. Load the model again, and wrap it in "
            "`torch.nn.parallel.DistributedDataParallel` instead."
        )
