"""Who trains a model: one thread, or several processes that agree before they do."""

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data.datasets import dataset_size
from keras_albert.data.tables import is_dataset
from keras_albert.types import Task
from keras_albert.utils.environment import versions
from keras_albert.utils.keras_internals import IN_USE, has_no_value

# How long a process waits for those that were started with it; JAX's own limit.
SECONDS_TO_CONNECT = 300

# What processes exchange.
FloatArray: TypeAlias = npt.NDArray[np.float64]


class Processes:
    """The processes that train one model; they call each method together."""

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self.count = count
        # Whether each was given the whole data, of which it takes its rows.
        self.shares_data = True

    # A subclass defines one of `sum` and `gather`.

    def sum(self, numbers: npt.ArrayLike) -> FloatArray:
        """Return the sum of each number over all processes."""
        return self.gather(numbers).sum(axis=0)

    def gather(self, numbers: npt.ArrayLike) -> FloatArray:
        """Return the numbers of each process, `(processes, numbers)`."""
        own = np.asarray(numbers)
        slots = np.zeros((self.count, len(own)))
        slots[self.index] = own
        return np.reshape(self.sum(slots.ravel()), slots.shape)

    def gather_bytes(self, content: bytes) -> list[bytes]:
        """Return the bytes of each process."""
        sizes = self.gather([len(content)])[:, 0].astype(int).tolist()
        # A power of two, since backends compile each size.
        padded = content.ljust(1 << max(sizes).bit_length(), b"\0")
        found = self.gather(np.frombuffer(padded, np.uint8)).astype(np.uint8)
        return [row[:size].tobytes() for row, size in zip(found, sizes, strict=True)]

    def agree_on_weights(self, variables: Sequence[Any]) -> None:
        """Let all begin with the same values; JAX refuses to assign others."""

    def check_same(self, facts: Mapping[str, Any], remedy: str = "") -> None:
        """Raise in all processes if a fact differs between them."""
        digests = np.array([_digest(fact) for fact in facts.values()])
        found = np.reshape(self.gather(digests.ravel()), (-1, *digests.shape))
        differ = np.argwhere((found != found[0]).any(axis=2).T)
        if len(differ):
            place, process = differ[0]
            name = list(facts)[place]
            raise ValueError(
                f"Process {process} has different {name} from process 0, but all "
                f"{self.count} processes need the same. {remedy}".rstrip()
            )

    def copy_numpy_state(self) -> None:
        """Let NumPy's global generator draw what it draws in the first process."""
        whole: Any = np.random.get_state()
        name, *state = whole
        types = ("uint32", "int64", "int64", "float64")
        parts = [np.atleast_1d(x).astype(t) for x, t in zip(state, types, strict=True)]
        own = np.concatenate([part.view(np.uint16) for part in parts])
        copied = self.sum(own * (self.index == 0)).astype(np.uint16)
        ends = np.cumsum([part.nbytes // 2 for part in parts])[:-1]
        found = zip(np.split(copied, ends), types, strict=True)
        key, *numbers = (part.view(kind) for part, kind in found)
        np.random.set_state((name, key, *(number[0] for number in numbers)))


class TorchGroup(Processes):
    """The default group of `torch.distributed`."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415  (it is the backend)

        group = torch.distributed
        if not group.is_initialized():
            on_gpu = torch.cuda.is_available()
            if on_gpu:
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            # An all-reduce may wait longer than this, for a first process that saves.
            waits = timedelta(seconds=SECONDS_TO_CONNECT)
            store, index, count = next(group.rendezvous("env://", timeout=waits))
            group.init_process_group(
                "nccl" if on_gpu else "gloo", store=store, rank=index, world_size=count
            )
        super().__init__(group.get_rank(), group.get_world_size())

    def sum(self, numbers: npt.ArrayLike) -> FloatArray:
        """Return the sum of each number over all processes."""
        import torch  # noqa: PLC0415  (it is the backend)

        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        sums = torch.tensor(numbers, dtype=torch.float64, device=device)
        torch.distributed.all_reduce(sums)
        return np.array(sums.cpu())

    def sum_tensors(self, tensors: Sequence[Any]) -> list[Any]:
        """Return the sum of each tensor over all processes; `None` stays."""
        import torch  # noqa: PLC0415  (it is the backend)

        known = [tensor.detach() for tensor in tensors if tensor is not None]
        if not known:
            return list(tensors)
        sums = torch.cat([tensor.flatten() for tensor in known])
        torch.distributed.all_reduce(sums)
        parts = iter(sums.split([tensor.numel() for tensor in known]))
        return [None if x is None else next(parts).view_as(x) for x in tensors]

    def agree_on_weights(self, variables: Sequence[Any]) -> None:
        """Set variables to their values in the first process."""
        import torch  # noqa: PLC0415  (it is the backend)

        for variable in variables:
            torch.distributed.broadcast(variable.value.data, 0)


class JaxProcesses(Processes):
    """The processes that `keras.distribution.initialize` connects."""

    def __init__(self) -> None:
        import jax  # noqa: PLC0415  (it is the backend)

        super().__init__(jax.process_index(), jax.process_count())

    def gather(self, numbers: npt.ArrayLike) -> FloatArray:
        """Return the numbers of each process, `(processes, numbers)`."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        found = multihost_utils.process_allgather(np.array(numbers, "float32"))
        return np.reshape(found, (self.count, -1)).astype(np.float64)


class TensorflowWorkers(Processes):
    """The workers of a `MultiWorkerMirroredStrategy`."""

    def __init__(self, strategy: Any) -> None:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        workers = num_workers(strategy)
        super().__init__(strategy.cluster_resolver.task_id or 0, workers)
        # Each of the replicas of a process adds them.
        self._replicas = strategy.num_replicas_in_sync // workers
        self._sum = tf.function(
            lambda value: strategy.reduce(
                "SUM", strategy.run(lambda: tf.identity(value)), axis=None
            )
        )

    def sum(self, numbers: npt.ArrayLike) -> FloatArray:
        """Return the sum of each number over all processes."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        sums = self._sum(tf.constant(numbers, tf.float32)).numpy() / self._replicas
        return np.asarray(sums, np.float64)

    def agree_on_weights(self, variables: Sequence[Any]) -> None:
        """Raise in all processes if a variable differs by more than rounding."""
        found = self.gather([np.abs(each.numpy()).mean() for each in variables])
        differ = np.argwhere(~np.isclose(found, found[0], 1e-3, equal_nan=True))
        if len(differ):
            process, place = differ[0]
            raise ValueError(
                f"Process {process} has different weights from process 0, the first of "
                f"them {variables[place].path}. Load the same preset in all processes."
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

        named = int(os.environ.get("KERAS_DISTRIBUTION_NUM_PROCESSES") or 1)
        if named > 1 and not jax.distributed.is_initialized():
            # The backend must not start before they are connected.
            return named
        return max(int(jax.process_count()), named)
    if "TF_CONFIG" not in os.environ:
        return 1
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()
    jobs = {"chief", "worker"} & set(cluster.jobs)
    return max(1, sum(int(cluster.num_tasks(job)) for job in jobs))


_REMEDIES = {
    "jax": "Call `keras.distribution.initialize()` and `keras.distribution."
    "set_distribution(keras.distribution.DataParallel())` before the task is created",
    "tensorflow": "Create the backbone and the task in the scope of a "
    "`tf.distribute.MultiWorkerMirroredStrategy`",
    "torch": "Start them with `torchrun`, which sets LOCAL_RANK and RANK",
}


def connect(strategy: Any = None) -> Processes | None:
    """Return the processes that train together, `None` if there is only this one."""
    count = num_processes()
    if count == 1:
        return None
    backend = keras.config.backend()
    if backend == "torch" and _is_connected_to_torch():
        return TorchGroup()
    if spans_processes():
        return JaxProcesses()
    if strategy is not None and num_workers(strategy):
        return TensorflowWorkers(strategy)
    raise ValueError(
        f"This is one of {count} processes, each of which would train a model of its "
        f"own. {_REMEDIES[backend]}, or start one process."
    )


def _is_connected_to_torch() -> bool:
    import torch  # noqa: PLC0415  (it is the backend)

    group = torch.distributed
    named = {"RANK", "LOCAL_RANK", "WORLD_SIZE"} <= set(os.environ)
    return bool(group.is_available() and (group.is_initialized() or named))


def num_workers(strategy: Any) -> int:
    """Return how many processes a strategy of TensorFlow joins; 0 if it joins none."""
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 0
    return max(1, int(strategy.cluster_resolver.cluster_spec().num_tasks("worker")))


def refuse_processes(what: str) -> None:
    """Raise in one of several processes, each of which would do the same."""
    if (count := num_processes()) > 1:
        raise ValueError(
            f"This is one of {count} processes, but {what} runs in one. Start only one."
        )


def spans_processes() -> bool:
    """Return whether the distribution of Keras has devices of several processes."""
    if keras.config.backend() != "jax" or keras.distribution.distribution() is None:
        return False
    import jax  # noqa: PLC0415  (it is the backend)

    return bool(jax.process_count() > 1)


SAME_BATCHES = (
    "Each takes its rows of each batch of a data set. Set the seed by which it is "
    "shuffled; or pass `auto_shard=False` if each has a part of the data of its own."
)
_WHOLE = (
    "Each is given the whole data, and takes its rows of each batch; pass "
    "`auto_shard=False` if each has a part of its own."
)


@contextmanager
def train_in_processes(
    task: Any, auto_shard: bool, data: Any, options: Sequence[Any]
) -> Iterator[dict[str, Any]]:
    """Let all processes train or evaluate a task together, once they have agreed."""
    # The result has arguments for Keras: only the first process shows progress.
    processes = connect(task.strategy)
    if processes is None:
        yield {}
        return
    processes.shares_data = auto_shard
    _check_losses(task)
    if not auto_shard:
        _check_parts(task)
    processes.check_same(
        {
            "versions": versions(),
            f"settings of the {type(task).__name__}": _described(task),
            "arguments": [auto_shard, options],
        }
    )
    if auto_shard:
        processes.check_same({"data": data}, _WHOLE)
    # Of the order of the rows, and the masks of a language model.
    processes.copy_numpy_state()
    processes.agree_on_weights([*task.weights, *task.optimizer.variables])
    with connect_processes(task, processes):
        yield {"verbose": 0} if processes.index else {}


@contextmanager
def connect_processes(task: Any, processes: Processes | None = None) -> Iterator[None]:
    """Let all processes take the steps of a task together."""
    processes = processes or connect(task.strategy)
    if processes is None:
        yield
        return
    before, task.processes = task.processes, processes
    try:
        with _batches_as_they_are():
            yield
    finally:
        task.processes = before


@contextmanager
def _batches_as_they_are() -> Iterator[None]:
    """Let Keras take the batches of this process; it would refuse all but `tf.data`."""
    distribution = keras.distribution.distribution()
    if not spans_processes() or distribution is None:
        yield
        return
    before = distribution.auto_shard_dataset
    distribution.auto_shard_dataset = False
    try:
        yield
    finally:
        distribution.auto_shard_dataset = before


def _check_losses(task: Any) -> None:
    losses = task.loss.values() if isinstance(task.loss, Mapping) else [task.loss]
    if keras.config.backend() == "torch" and any(
        getattr(loss, "reduction", "") == "sum" for loss in losses
    ):
        raise ValueError(
            "PyTorch's processes average their losses, but one loss has "
            "reduction='sum'. Leave out that argument."
        )


def _check_parts(task: Any) -> None:
    if task.compares_rows:
        raise ValueError(
            "The loss compares all rows of a batch, but each process has only its own. "
            "Pass all of them the whole data, and leave out `auto_shard=False`."
        )
    preprocessor = task.preprocessor
    fixed = preprocessor is None or preprocessor.sequence_length is not None
    if spans_processes() and not fixed:
        raise ValueError(
            "On JAX the batches of all processes must have one shape. Set "
            "`preprocessor.sequence_length`, or pass all of them the whole data and "
            "leave out `auto_shard=False`."
        )


def _described(task: Any) -> list[Any]:
    optimizer = task.optimizer
    vocabulary = task.preprocessor and task.preprocessor.tokenizer.proto
    configs = _without_names([task.get_config(), optimizer.get_config()])
    # An optimizer that has trained has variables, which are copied.
    return [*configs, len(optimizer.variables), vocabulary]


def _without_names(config: Any) -> Any:
    """Remove names, which Keras numbers in the order of creation."""
    if isinstance(config, Mapping):
        return {k: _without_names(x) for k, x in config.items() if k != "name"}
    if isinstance(config, list | tuple):
        return [_without_names(part) for part in config]
    return config


def _digest(value: Any) -> FloatArray:
    """Return numbers that differ if two values do, small enough for a float32."""
    found = hashlib.sha256()
    _add(found, value)
    return np.frombuffer(found.digest()[:16], np.uint16).astype(np.float64)


def _add(found: Any, value: Any) -> None:
    """Add a value of any structure to a digest; of a data set only its type."""
    if isinstance(value, list | tuple) and all(isinstance(x, str) for x in value):
        text = "\0".join(value)
        found.update(f"{len(value)} {text}".encode("utf-8", "surrogatepass"))
    elif isinstance(value, Mapping):
        for name in value:
            _add(found, str(name))
            _add(found, value[name])
    elif isinstance(value, list | tuple):
        found.update(f"{len(value)}(".encode())
        for part in value:
            _add(found, part)
    elif isinstance(value, str | bytes | int | float | bool | None):
        found.update(f"{value!r};".encode("utf-8", "surrogatepass"))
    elif hasattr(value, "columns") and hasattr(value, "__getitem__"):
        _add(found, {name: np.asarray(value[name]) for name in value.columns})
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype == object:
            _add(found, array.tolist())
        else:
            found.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    else:
        size = dataset_size(value) if is_dataset(value) else None
        found.update(f"{type(value).__qualname__}{size};".encode())


class ShardSpec(NamedTuple):
    """Which rows of a batch this process computes, for its devices."""

    # A batch is padded to a multiple of `parts`, and each of `num_shards` processes or
    # groups of processes takes as many rows.
    parts: int
    shard: int = 0
    num_shards: int = 1


def num_parts() -> int:
    """Return the number of parts of a batch under `keras.distribution`, or 1."""
    if keras.config.backend() != "jax":
        return 1
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    mesh = distribution.device_mesh
    return int(mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)])


def shard_spec(task: Task) -> ShardSpec | None:
    """Return the rows of this process, or `None` if it computes all on one device."""
    processes, parts = task.processes, num_parts()
    has_all = processes is None or processes.shares_data
    distribution = keras.distribution.distribution()
    if keras.config.backend() != "jax" or distribution is None:
        if processes is None or not has_all:
            return None
        replicas = getattr(task.strategy, "num_replicas_in_sync", processes.count)
        return ShardSpec(replicas, processes.index, processes.count)
    import jax  # noqa: PLC0415  (it is the backend)

    shards = min(int(jax.process_count()), parts)
    if not has_all:
        return ShardSpec(parts // shards)
    spec = ShardSpec(parts, distribution.data_shard_id if shards > 1 else 0, shards)
    return None if parts == 1 else spec


# The thread that trains or evaluates a model, by the model's identity.
_BUSY: dict[int, int] = {}


@contextmanager
def exclusive(model: Any) -> Iterator[None]:
    """Refuse to train or evaluate a model while another thread does."""
    # Both would reset and count the same metrics; on JAX the weights are taken out.
    key, thread = id(model), threading.get_ident()
    is_inner = _BUSY.get(key) == thread
    if _BUSY.setdefault(key, thread) != thread:
        raise RuntimeError(
            "Another thread trains or evaluates this model. Wait until it has "
            "returned, or load the preset a second time."
        )
    try:
        yield
    finally:
        if not is_inner:
            del _BUSY[key]


@contextmanager
def restore_on_error(model: Any) -> Iterator[None]:
    """Restore the weights of a model if the block raises; Keras on JAX loses them."""
    if keras.config.backend() != "jax":
        yield
        return
    if any(map(has_no_value, model.variables)):
        raise RuntimeError(IN_USE)
    variables = [*model.variables, *model.metrics_variables]
    if model.optimizer is not None:
        variables += model.optimizer.variables
    held = [(variable, variable.value) for variable in variables]
    try:
        yield
    except BaseException:
        # After the first step Keras has newer values.
        model.jax_state_sync()
        for variable, value in held:
            if has_no_value(variable) and not value.is_deleted():
                variable.assign(value)
        raise


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
