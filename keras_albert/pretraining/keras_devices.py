"""Training by `keras.distribution`, which runs on JAX."""

import os
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.pretraining.replica_rows import check_rows
from keras_albert.training.metric_state import build_metrics
from keras_albert.training.one_device import OneDevice
from keras_albert.types import Batch

# Along which axis a weight of a block is cut, so that no device needs a whole matrix:
# what goes out of a first product is cut, and what comes into a second one.
_OUTGOING = "(query|key|value|feedforward_intermediate)"
_INCOMING = "(attention_output|feedforward_output)"


class KerasDevices(OneDevice):
    """All devices of all processes, as one mesh of copies and parts of the model.

    Args:
        parts: int. Devices that share a copy of the blocks: 1 is data parallel. Each
            holds some of the attention heads and of the feed-forward net. Defaults to
            `1`.
        finds_processes: bool. Whether other processes are looked for even where the
            environment names none, as on a TPU pod. Defaults to `False`.

    Raises:
        ValueError: If `parts` does not divide the number of devices.
    """

    def __init__(self, parts: int = 1, finds_processes: bool = False) -> None:
        names = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")
        if finds_processes or any(name in os.environ for name in names):
            keras.distribution.initialize()
        import jax  # noqa: PLC0415  (it is the backend)

        devices = keras.distribution.list_devices()
        if parts < 1 or len(devices) % parts:
            msg = (
                f"{len(devices)} devices cannot hold copies of {parts} parts each. "
                "Choose a number that divides them."
            )
            raise ValueError(msg)
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
        self.num_shards = min(jax.process_count(), shape[0])
        self.shard = self.distribution.data_shard_id
        # Of this process' rows.
        self.num_replicas = shape[0] // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Give the distribution's scope."""
        scope: AbstractContextManager[Any] = self.distribution.scope()
        return scope

    def prepare(self, model: Any, batch: Batch) -> None:
        """Place the metrics too, and check that heads can be shared out.

        Args:
            model: A compiled model, whose optimizer is built.
            batch: A batch as it is trained on; see `build_metrics`.

        Raises:
            ValueError: If the parts do not divide the number of heads.
        """
        if model.backbone.num_heads % self.parts:
            msg = (
                f"{model.backbone.num_heads} attention heads cannot be shared among "
                f"{self.parts} parts. Choose a number that divides the heads."
            )
            raise ValueError(msg)
        build_metrics(model, batch)

    def batches(self, batches: Any, example: Batch) -> Any:
        """Check that there are as many rows for each device."""
        check_rows(example, self.num_replicas)
        return super().batches(batches, example)

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Read variables, each as a whole, from wherever its parts are."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        def read(value: Any) -> npt.NDArray[Any]:
            if value.is_fully_addressable or value.is_fully_replicated:
                return np.asarray(value)
            return np.asarray(multihost_utils.process_allgather(value, tiled=True))

        return [read(variable.value) for variable in variables]

    def barrier(self) -> None:
        """Wait for all processes."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        multihost_utils.sync_global_devices("keras_albert")


def _cut_blocks(mesh: Any) -> Any:
    """Say along which axis each weight of a block is cut."""
    layouts = keras.distribution.LayoutMap(mesh)
    layouts[f".*/{_OUTGOING}/kernel"] = (None, "model")
    layouts[f".*/{_OUTGOING}/bias"] = ("model",)
    layouts[f".*/{_INCOMING}/kernel"] = ("model", None)
    return layouts
