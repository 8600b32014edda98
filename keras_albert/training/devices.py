"""Layouts of devices: JAX's meshes, PyTorch's processes, TensorFlow's replicas."""

import faulthandler
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data.datasets import map_dataset, without_autotune
from keras_albert.devices.batch_sharding import build_metrics
from keras_albert.devices.processes import (
    SECONDS_TO_CONNECT,
    JaxProcesses,
    TensorflowWorkers,
    TorchGroup,
    num_processes,
    num_workers,
)
from keras_albert.tasks.task import AlbertTask
from keras_albert.types import Batch
from keras_albert.utils.arguments import check_choice

Result = TypeVar("Result")


class OneDevice:
    """The layout of one process with one device, and base class of all layouts."""

    # The part of a batch that this process reads, and the number of parts.
    shard = 0
    num_shards = 1

    # The processes that train together, if there are several.
    processes: Any = None

    # The devices of this process that a batch is split among.
    num_replicas = 1

    # Whether this process writes files and shows progress.
    is_chief = True

    # Whether all batches of a run have as many rows and columns.
    has_one_shape = True

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model is built and trained."""
        return nullcontext()

    def prepare(self, model: AlbertTask, batch: Batch) -> None:
        """Set up the training of a compiled model, before its state is restored."""
        # Keras would take a batch for the metrics that is then not trained on.
        build_metrics(model, batch)

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Convert the endless batches of this process to an input of `fit`."""
        self.check_rows(example)
        # Keras accepts no iterators but generators and TensorFlow data sets.
        return map_dataset(batches, lambda batch: batch)

    def check_rows(self, example: Batch) -> None:
        """Raise if a batch cannot be split equally among the devices."""
        rows = len(keras.tree.flatten(example)[0])
        if rows % self.num_replicas:
            raise ValueError(
                f"{rows} rows cannot be divided among {self.num_replicas} devices. "
                "Choose a `batch_size` that is a multiple of the number of devices "
                "times `accumulation_steps`."
            )

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Return the whole values of variables."""
        return [np.asarray(variable.numpy()) for variable in variables]

    def assign(self, variables: list[Any], values: list[npt.NDArray[Any]]) -> None:
        """Assign whole values to variables."""
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    @property
    def num_processes(self) -> int:
        """The number of processes that train together."""
        return 1 if self.processes is None else int(self.processes.count)

    def sum(self, numbers: list[float]) -> list[float]:
        """Return the sums of each number over all processes, which all call it."""
        if self.num_processes > 1:
            numbers = self.processes.sum(numbers).tolist()
        return numbers

    def check_same(self, facts: Mapping[str, Any], remedy: str) -> None:
        """Raise in all processes if a fact differs between them."""
        if self.num_processes > 1:
            self.processes.check_same(facts, remedy)

    def on_chief(self, work: Callable[[], None]) -> None:
        """Let the first process do something, and raise in all if it fails."""
        self.on_all(work if self.is_chief else lambda: None)

    def on_all(self, work: Callable[[], Result]) -> Result:
        """Let each process do something, and raise in all if one fails."""
        failure: Exception | None = None
        try:
            result = work()
        except Exception as error:  # the others would wait
            failure = error
        (failed,) = self.sum([float(failure is not None)])
        if failure is not None:
            raise failure
        if failed:
            raise RuntimeError("Another process has failed: see its error.")
        return result


# Matrices of a block are split such that no device needs a whole one: the first of two
# products along its output axis, the second along its input axis.
_OUTGOING = "(query|key|value|feedforward_intermediate)"
_INCOMING = "(attention_output|feedforward_output)"


class KerasDevices(OneDevice):
    """A mesh of all devices of all processes; `parts` of them share a copy's blocks."""

    def __init__(self, parts: int = 1, finds_processes: bool = False) -> None:
        names = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")
        import jax  # noqa: PLC0415  (it is the backend)

        is_one_of_many = finds_processes or any(name in os.environ for name in names)
        if is_one_of_many and not jax.distributed.is_initialized():
            if hasattr(jax.config, "jax_enable_preemption_service"):
                # It would take SIGTERM away from `StopSignals`.
                jax.config.update("jax_enable_preemption_service", False)
            keras.distribution.initialize()

        devices = keras.distribution.list_devices()
        if parts < 1 or len(devices) % parts:
            raise ValueError(
                f"{len(devices)} devices cannot be divided into groups of {parts}. "
                "Choose a divisor of the number of devices."
            )
        shape = (len(devices) // parts, parts)
        if parts == 1:
            self.distribution = keras.distribution.DataParallel(
                devices=devices, auto_shard_dataset=False
            )
        else:
            mesh = keras.distribution.DeviceMesh(shape, ("batch", "model"), devices)
            self.distribution = keras.distribution.ModelParallel(
                layout_map=_cut_blocks(mesh),
                batch_dim_name="batch",
                auto_shard_dataset=False,
            )
        self.is_chief = jax.process_index() == 0
        self.processes = JaxProcesses()
        self.num_shards = min(jax.process_count(), shape[0])
        self.shard = self.distribution.data_shard_id
        # The devices that share the rows of this process.
        self.num_replicas = shape[0] // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Return the distribution's scope."""
        return self.distribution.scope()

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Return the whole values of variables, gathered from all processes."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        def read(value: Any) -> npt.NDArray[Any]:
            if value.is_fully_addressable or value.is_fully_replicated:
                return np.asarray(value)
            return np.asarray(multihost_utils.process_allgather(value, tiled=True))

        return [read(variable.value) for variable in variables]


def _cut_blocks(mesh: Any) -> Any:
    """Return the layout of the weights of a block."""
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[f".*/{_OUTGOING}/kernel"] = (None, "model")
    layouts[f".*/{_OUTGOING}/bias"] = ("model",)
    layouts[f".*/{_INCOMING}/kernel"] = ("model", None)
    return layouts


class TorchProcesses(OneDevice):
    """The processes that `torchrun` starts, inside Keras' `fit`."""

    # Each computes a part of the batch; see `torch_steps`.

    def __init__(self) -> None:
        if "LOCAL_RANK" not in os.environ:
            raise ValueError(
                "Data parallelism on PyTorch needs one process per device. Start them "
                "with `torchrun --nproc-per-node=N --no-python keras-albert ...`."
            )
        self.processes = TorchGroup()
        self.shard, self.num_shards = self.processes.index, self.processes.count
        self.is_chief = self.shard == 0

    def prepare(self, model: AlbertTask, batch: Batch) -> None:
        """Let all processes take each step together."""
        super().prepare(model, batch)
        model.processes = self.processes


class TensorflowReplicas(OneDevice):
    """Replicas under a `tf.distribute` strategy, inside Keras' `fit`."""

    # Also one device, with `StrategyTrainer`'s step: Keras' own computes the norm of
    # embedding gradients as if each occurrence of a token had a separate row.

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        if num_workers(strategy):
            self.processes = TensorflowWorkers(strategy)
            self.shard, self.num_shards = self.processes.index, self.processes.count
            self.is_chief = self.shard == 0
        # The replicas of this process.
        self.num_replicas = strategy.num_replicas_in_sync // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context in which each variable has a copy on each replica."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        if self.strategy is tf.distribute.get_strategy():
            return nullcontext()
        return self.strategy.scope()

    def prepare(self, model: AlbertTask, batch: Batch) -> None:
        """Set up training and evaluation on all replicas."""
        is_scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        if model.strategy is None and not is_scaled:
            # On one device, Keras' own step scales losses.
            model.strategy = self.strategy
        super().prepare(model, batch)

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Return a data set with static shapes, if all batches have one shape."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        if not self.has_one_shape:
            return super().batches(batches, example)
        self.check_rows(example)
        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), example
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: batches, output_signature=signature
        )
        return without_autotune(dataset.prefetch(1))


def devices_of_processes() -> OneDevice:
    """Return the devices of all processes that were started together, or this one's."""
    devices = OneDevice() if num_processes() == 1 else choose_devices("data_parallel")
    devices.has_one_shape = False
    return devices


def choose_devices(distribution: str) -> OneDevice:
    """Return the device layout of a name."""
    # Called before anything runs on the backend: it connects the processes.
    backend = keras.config.backend()
    name, _, parts = distribution.partition(":")
    if name == "model_parallel" and backend == "jax" and parts.isdecimal():
        return KerasDevices(int(parts))
    known: dict[str, dict[str, Callable[[], OneDevice]]] = {
        "jax": {
            "none": OneDevice,
            "data_parallel": KerasDevices,
            "tpu": lambda: KerasDevices(finds_processes=True),
        },
        "torch": {"none": OneDevice, "data_parallel": TorchProcesses},
        "tensorflow": {
            "none": _tensorflow_default,
            "data_parallel": _tensorflow_mirrored,
            "tpu": _tensorflow_tpu,
        },
    }
    check_choice(known[backend], distribution=distribution)
    if name == "none" and (count := num_processes()) > 1:
        raise ValueError(
            f"`distribution` is 'none', but {count} processes were started. Pass "
            "distribution='data_parallel', or start one process."
        )
    return known[backend][name]()


def _tensorflow_default() -> TensorflowReplicas:
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    return TensorflowReplicas(tf.distribute.get_strategy())


def _tensorflow_mirrored() -> TensorflowReplicas:
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    if "TF_CONFIG" in os.environ:
        # It waits for an hour, and lets no Python code run meanwhile.
        faulthandler.dump_traceback_later(SECONDS_TO_CONNECT, exit=True)
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
        finally:
            faulthandler.cancel_dump_traceback_later()
        return TensorflowReplicas(strategy)
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    return TensorflowReplicas(tf.distribute.MirroredStrategy(names))


def _tensorflow_tpu() -> TensorflowReplicas:
    """Connect to the TPU that the environment specifies."""
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    resolver = tf.distribute.cluster_resolver.TPUClusterResolver.connect()
    return TensorflowReplicas(tf.distribute.TPUStrategy(resolver))
