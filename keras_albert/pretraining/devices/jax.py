"""Distributed training with `keras.distribution`, on JAX."""

import os
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.distribution.model_state import build_metrics
from keras_albert.training.one_device import OneDevice
from keras_albert.types import Batch

# Matrices of a block are split such that no device needs a whole one: the first of two
# products along its output axis, the second along its input axis.
_OUTGOING = "(query|key|value|feedforward_intermediate)"
_INCOMING = "(attention_output|feedforward_output)"


class KerasDevices(OneDevice):
    """A mesh of all devices of all processes, with copies and parts of the model."""

    def __init__(self, parts: int = 1, finds_processes: bool = False) -> None:
        names = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES")
        if finds_processes or any(name in os.environ for name in names):
            keras.distribution.initialize()
        import jax  # noqa: PLC0415  (it is the backend)

        devices = keras.distribution.list_devices()
        if parts < 1 or len(devices) % parts:
            msg = (
                f"{len(devices)} devices cannot be divided into groups of {parts}. "
                "Choose a divisor of the number of devices."
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
        # Those that share the rows of this process.
        self.num_replicas = shape[0] // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Return the distribution's scope."""
        scope: AbstractContextManager[Any] = self.distribution.scope()
        return scope

    def prepare(self, model: Any, batch: Batch) -> None:
        """Create the metrics, and check that heads can be split."""
        if model.backbone.num_heads % self.parts:
            msg = (
                f"{model.backbone.num_heads} attention heads cannot be divided among "
                f"{self.parts} devices. Choose a divisor of the number of heads."
            )
            raise ValueError(msg)
        build_metrics(model, batch)

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Return the whole values of variables, gathered from all processes."""
        from jax.experimental import multihost_utils  # noqa: PLC0415

        def read(value: Any) -> npt.NDArray[Any]:
            if value.is_fully_addressable or value.is_fully_replicated:
                return np.asarray(value)
            return np.asarray(multihost_utils.process_allgather(value, tiled=True))

        return [read(variable.value) for variable in variables]

    def agree(self, flag: bool) -> bool:
        """Return whether the flag of any process is set."""
        import jax  # noqa: PLC0415  (it is the backend)
        from jax.experimental import multihost_utils  # noqa: PLC0415

        if jax.process_count() == 1:
            return flag
        return bool(multihost_utils.process_allgather(np.array(flag)).any())

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
