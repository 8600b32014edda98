"""Layouts of devices: JAX's meshes, PyTorch's processes, TensorFlow's replicas."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.distribution.model_state import build_metrics
from keras_albert.tasks.distribution.strategy import num_processes
from keras_albert.tasks.inputs.datasets import without_autotune
from keras_albert.training.recorder import OneDevice
from keras_albert.types import Batch

# Matrices of a block are split such that no device needs a whole one: the first of two
# products along its output axis, the second along its input axis.
_OUTGOING = "(query|key|value|feedforward_intermediate)"
_INCOMING = "(attention_output|feedforward_output)"


class KerasDevices(OneDevice):
    """A mesh of all devices of all processes; `parts` of them share a copy's blocks."""

    def __init__(self, parts: int = 1, finds_processes: bool = False) -> None:
        names = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")
        if finds_processes or any(name in os.environ for name in names):
            keras.distribution.initialize()
        import jax  # noqa: PLC0415  (it is the backend)

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
        self.parts = parts
        self.is_chief = jax.process_index() == 0
        self.num_processes = jax.process_count()
        self.num_shards = min(jax.process_count(), shape[0])
        self.shard = self.distribution.data_shard_id
        # Those that share the rows of this process.
        self.num_replicas = shape[0] // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Return the distribution's scope."""
        scope: AbstractContextManager[Any] = self.distribution.scope()
        return scope

    def prepare(self, model: Any, batch: Batch) -> None:
        """Create the metrics, and check that heads can be split."""
        if model.backbone.num_heads % self.parts:
            raise ValueError(
                f"{model.backbone.num_heads} attention heads cannot be divided among "
                f"{self.parts} devices. Choose a divisor of the number of heads."
            )
        build_metrics(model, batch)

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Return the whole values of variables, gathered from all processes."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        def read(value: Any) -> npt.NDArray[Any]:
            if value.is_fully_addressable or value.is_fully_replicated:
                return np.asarray(value)
            return np.asarray(multihost_utils.process_allgather(value, tiled=True))

        return [read(variable.value) for variable in variables]

    def sum(self, numbers: list[float]) -> list[float]:
        """Return the sums of each number over all processes."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        found = multihost_utils.process_allgather(np.array(numbers, "float32"))
        return [float(number) for number in np.sum(found, axis=0)]

    def barrier(self) -> None:
        """Wait for all processes."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        multihost_utils.sync_global_devices("keras_albert")


def _cut_blocks(mesh: Any) -> Any:
    """Return the layout of the weights of a block."""
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[f".*/{_OUTGOING}/kernel"] = (None, "model")
    layouts[f".*/{_OUTGOING}/bias"] = ("model",)
    layouts[f".*/{_INCOMING}/kernel"] = ("model", None)
    return layouts


class TorchProcesses(OneDevice):
    """The processes that `torchrun` starts, inside Keras' `fit`."""

    # Each computes a part of the batch. The optimizer averages the gradients, and
    # metrics are summed after each batch.

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  (it is the backend)

        if "LOCAL_RANK" not in os.environ:
            raise ValueError(
                "Data parallelism on PyTorch needs one process per device. Start them "
                "with `torchrun --nproc-per-node=N -m keras_albert ...`."
            )
        on_gpu = torch.cuda.is_available()
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
        self.shard = torch.distributed.get_rank()
        self.num_shards = self.num_processes = torch.distributed.get_world_size()
        self.is_chief = self.shard == 0

    def begin_batch(self, model: Any) -> None:
        """Remember the metrics, which a batch increases."""
        self._before = [value.clone() for value in _metrics(model)]

    def end_batch(self, model: Any, logs: dict[str, Any]) -> None:
        """Add the increments of all processes to each metric."""
        import torch  # noqa: PLC0415  (it is the backend)

        metrics = _metrics(model)
        added = [
            (now - then).detach().flatten()
            for now, then in zip(metrics, self._before, strict=True)
        ]
        total = torch.cat(added)
        torch.distributed.all_reduce(total)
        parts = total.split([len(part) for part in added])
        for now, then, part in zip(metrics, self._before, parts, strict=True):
            now.data.copy_(then + part.reshape(now.shape))
        logs |= {name: float(x) for name, x in model.get_metrics_result().items()}

    def sum(self, numbers: list[float]) -> list[float]:
        """Return the sums of each number over all processes."""
        import torch  # noqa: PLC0415  (it is the backend)

        device = "cuda" if torch.cuda.is_available() else "cpu"
        sums = torch.tensor(numbers, device=device)
        torch.distributed.all_reduce(sums)
        return [float(number) for number in sums]

    def barrier(self) -> None:
        """Wait for all processes."""
        import torch  # noqa: PLC0415  (it is the backend)

        torch.distributed.barrier()


def _metrics(model: Any) -> list[Any]:
    return [variable.value for variable in model.metrics_variables]


def mean_over_processes(gradients: Sequence[Any]) -> Sequence[Any]:
    """Return the mean of gradients over the processes of PyTorch, if there are any."""
    # Layers share their weights: gradients are complete at the end of the backward pass
    # only, and sums during it would save no time.
    if keras.config.backend() != "torch":
        return gradients
    import torch  # noqa: PLC0415  (it is the backend)

    group = torch.distributed
    if not (group.is_available() and group.is_initialized()):
        return gradients
    known = [gradient for gradient in gradients if gradient is not None]
    mean = torch.cat([each.flatten() for each in known]) / group.get_world_size()
    group.all_reduce(mean)
    parts = iter(mean.split([each.numel() for each in known]))
    return [None if x is None else next(parts).view_as(x) for x in gradients]


class TensorflowReplicas(OneDevice):
    """Replicas under a `tf.distribute` strategy, inside Keras' `fit`."""

    # Also one device, with `StrategyTrainer`'s step: Keras' own computes the norm of
    # embedding gradients as if each occurrence of a token had a separate row.

    def __init__(self, strategy: Any) -> None:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        self.strategy = strategy
        self._sum = tf.function(
            lambda value: strategy.reduce(
                "SUM", strategy.run(lambda: tf.identity(value)), axis=None
            )
        )
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = strategy.cluster_resolver
            self.shard = resolver.task_id or 0
            self.num_shards = max(1, resolver.cluster_spec().num_tasks("worker"))
            self.num_processes = self.num_shards
            self.is_chief = self.shard == 0
        # Those of this process.
        self.num_replicas = strategy.num_replicas_in_sync // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context in which each variable has a copy on each replica."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        if self.strategy is tf.distribute.get_strategy():
            return nullcontext()
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def prepare(self, model: Any, batch: Batch) -> None:
        """Set up training and evaluation on all replicas."""
        is_scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        if model.strategy is None and not is_scaled:
            # Of one device, where Keras' own step scales losses.
            model.strategy = self.strategy
        super().prepare(model, batch)

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Return a data set with static shapes."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        self.check_rows(example)
        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), example
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: batches, output_signature=signature
        )
        return without_autotune(dataset.prefetch(1))

    def sum(self, numbers: list[float]) -> list[float]:
        """Return the sums of each number over all processes."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        if self.num_processes == 1:
            return numbers
        # Each of the replicas of a process adds them.
        sums = self._sum(tf.constant(numbers)).numpy() / self.num_replicas
        return [float(number) for number in sums]

    def barrier(self) -> None:
        """Wait for all processes."""
        self.sum([0.0, 0.0])


_NAMES = "'none', 'data_parallel', 'model_parallel:N' (JAX) and 'tpu'"


def choose_devices(distribution: str) -> Any:
    """Return the device layout of a name, with the members of `OneDevice`."""
    # Called before anything runs on the backend: it connects the processes.
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
        raise ValueError(
            f"`distribution` must be one of {_NAMES}. Received: {distribution!r}, on "
            f"the backend {backend!r}"
        )
    if name == "none" and (count := num_processes()) > 1:
        raise ValueError(
            f"`distribution` is 'none', and {count} processes were started, each of "
            "which would train a model of its own. Pass "
            "distribution='data_parallel', or start one process."
        )
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
