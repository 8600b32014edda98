"""Tasks on several devices: strategies of TensorFlow, and checks of processes."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from keras_albert.types import Mode
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
    train_function: Any
    test_function: Any
    predict_function: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Before `compile`, which the constructor calls.
        self.strategy = _current_strategy()
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
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

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
        from keras_albert.tasks.distribution.strategy_trainer import (  # noqa: PLC0415
            StrategyTrainer,
        )

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


_REMEDY = (
    "Start one process; several devices of a process are supported on TensorFlow and "
    "JAX. `evaluate` and `predict` may run in each process."
)


def num_processes() -> int:
    """Return how many processes were started together, by the backend or a launcher."""
    backend = keras.config.backend()
    if backend == "torch":
        import torch  # noqa: PLC0415  (it is the backend)

        group = torch.distributed
        if group.is_available() and group.is_initialized():
            return int(group.get_world_size())
        return int(os.environ.get("WORLD_SIZE") or 1)
    if backend == "jax":
        import jax  # noqa: PLC0415  (it is the backend)

        named = os.environ.get("KERAS_DISTRIBUTION_NUM_PROCESSES") or 1
        return max(int(jax.process_count()), int(named))
    if "TF_CONFIG" not in os.environ:
        return 1
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    jobs = {"chief", "worker"} & set(cluster.jobs)
    return max(1, sum(int(cluster.num_tasks(job)) for job in jobs))


def check_processes(mode: Mode, strategy: Any = None) -> None:
    """Check that a task can be trained or used in this process."""
    count = num_processes()
    if count == 1:
        return
    is_jax = keras.config.backend() == "jax"
    if is_jax and keras.distribution.distribution() is not None:
        raise ValueError(
            f"The distribution of Keras spans {count} processes, and tasks are trained "
            "and used on the devices of one process. Start one process, or leave out "
            "`set_distribution` to call `evaluate` and `predict` in each."
        )
    if mode == "training" and not _connects_processes(strategy):
        raise ValueError(
            f"This is one of {count} processes, each of which would train a model of "
            f"its own. {_REMEDY}"
        )


def refuse_sharded(cls: type) -> None:
    """Raise for a class of `fully_shard`, whose parameters Keras would not train."""
    if any(base.__name__ == "FSDPModule" for base in cls.__mro__):
        raise ValueError(
            "`fully_shard` replaces parameters, and the layers of Keras would train "
            "the former ones. Load the model again, and wrap it in "
            "`torch.nn.parallel.DistributedDataParallel` instead."
        )


def _connects_processes(strategy: Any) -> bool:
    if strategy is None:
        return False
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
