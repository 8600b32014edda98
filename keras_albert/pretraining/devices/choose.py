"""Device layouts by name."""

import os
from collections.abc import Callable
from typing import Any

import keras

from keras_albert.pretraining.devices.jax import KerasDevices
from keras_albert.pretraining.devices.tensorflow import TensorflowReplicas
from keras_albert.pretraining.devices.torch import TorchProcesses
from keras_albert.tasks.distribution.processes import num_processes
from keras_albert.training.one_device import OneDevice

_NAMES = "'none', 'data_parallel', 'model_parallel:N' (JAX) and 'tpu'"


def choose_devices(distribution: str) -> Any:
    """Return the device layout of a name, as the backend implements it.

    Call it before anything runs on the backend: it connects the processes, if there
    are several.
    """
    backend = keras.config.backend()
    name, _, parts = distribution.partition(":")
    known: dict[tuple[str, str], Callable[[], Any]] = {
        ("none", "jax"): OneDevice,
        ("none", "torch"): OneDevice,
        ("none", "tensorflow"): _tensorflow_default,
        ("data_parallel", "jax"): KerasDevices,
        ("data_parallel", "torch"): TorchProcesses,
        ("data_parallel", "tensorflow"): _tensorflow_mirrored,
        ("tpu", "jax"): lambda: KerasDevices(finds_processes=True),
        ("tpu", "tensorflow"): _tensorflow_tpu,
    }
    if name == "model_parallel" and backend == "jax" and parts.isdecimal():
        return KerasDevices(int(parts))
    if parts or (name, backend) not in known:
        msg = (
            f"`distribution` must be one of {_NAMES}. Received: {distribution!r}, on "
            f"the backend {backend!r}"
        )
        raise ValueError(msg)
    if name == "none" and (count := num_processes()) > 1:
        msg = (
            f"`distribution` is 'none', and {count} processes were started, each of "
            "which would train a model of its own. Pass "
            "distribution='data_parallel', or start one process."
        )
        raise ValueError(msg)
    return known[name, backend]()


def _tensorflow_default() -> TensorflowReplicas:
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return TensorflowReplicas(tf.distribute.get_strategy())


def _tensorflow_mirrored() -> TensorflowReplicas:
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    if "TF_CONFIG" in os.environ:
        return TensorflowReplicas(tf.distribute.MultiWorkerMirroredStrategy())
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    return TensorflowReplicas(tf.distribute.MirroredStrategy(names))


def _tensorflow_tpu() -> TensorflowReplicas:
    """Connect to the TPU that the environment specifies."""
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    return TensorflowReplicas(tf.distribute.TPUStrategy(resolver))
