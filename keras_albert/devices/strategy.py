"""Strategies of TensorFlow: which one is in use, and how it is given batches."""

from typing import Any

import keras

# Strategies whose replicas train in step, each with all weights.
_SUPPORTED = (
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "OneDeviceStrategy",
    "TPUStrategy",
)


def current_strategy() -> Any:
    """Return the strategy of the current scope, or `None`."""
    if keras.config.backend() != "tensorflow":
        return None
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return tf.distribute.get_strategy() if tf.distribute.has_strategy() else None


def check_supported(strategy: Any) -> None:
    """Raise if tasks do not train with a strategy."""
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


def check_scope(strategy: Any) -> None:
    """Raise if a task, created with a strategy, runs in the scope of another one."""
    current = current_strategy()
    if current is not None and current is not strategy:
        raise ValueError(
            "The task was made outside of the scope of the strategy in use, "
            f"{type(current).__name__}. Make the backbone and the task in `with "
            "strategy.scope():`."
        )


class WholeBatches:
    """A strategy whose replicas select their rows themselves."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._strategy, name)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """Return the data set."""
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
