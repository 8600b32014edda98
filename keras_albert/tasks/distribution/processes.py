"""What several processes do not support yet: `fit` of tasks, except on TensorFlow."""

import os
from typing import Any

import keras

from keras_albert.types import Purpose

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


def check_processes(purpose: Purpose, strategy: Any = None) -> None:
    """Check that a task can be trained or used in this process."""
    count = num_processes()
    if count == 1:
        return
    is_jax = keras.config.backend() == "jax"
    if is_jax and keras.distribution.distribution() is not None:
        msg = (
            f"The distribution of Keras spans {count} processes, and tasks are trained "
            "and used on the devices of one process. Start one process, or leave out "
            "`set_distribution` to call `evaluate` and `predict` in each."
        )
        raise ValueError(msg)
    if purpose == "training" and not _connects_processes(strategy):
        msg = (
            f"This is one of {count} processes, each of which would train a model of "
            f"its own. {_REMEDY}"
        )
        raise ValueError(msg)


def refuse_sharded(cls: type) -> None:
    """Raise if `torch.distributed.fsdp.fully_shard` has made a class of a task.

    Keras' layers would keep the parameters that it replaces, and no new one would get a
    gradient.
    """
    if any(base.__name__ == "FSDPModule" for base in cls.__mro__):
        msg = (
            "`fully_shard` replaces parameters, and the layers of Keras would train "
            "the former ones. Load the model again, and wrap it in "
            "`torch.nn.parallel.DistributedDataParallel` instead."
        )
        raise ValueError(msg)


def _connects_processes(strategy: Any) -> bool:
    if strategy is None:
        return False
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
