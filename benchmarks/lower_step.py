"""The training step as a program, for devices that need not be present."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_albert.devices.batch_sharding import build_metrics


@dataclass(frozen=True)
class Described:
    """The shape and the dtype of an array that need not exist."""

    shape: tuple[int, ...]
    dtype: str


def lower_training_step(
    model: Any,
    batch_size: int,
    sequence_length: int,
    slots: int,
    devices: Sequence[Any] | None = None,
) -> Any:
    """Trace the step of a masked language model; see `lower_step`.

    Args:
        model: A compiled `AlbertPretrainer` or `AlbertMaskedLM`, whose optimizer is
            built.
        batch_size: int. Rows in a batch, on all devices together.
        sequence_length: int. Tokens in a row.
        slots: int. Masked tokens in a row.
        devices: See `lower_step`. Defaults to `None`.

    Returns:
        A `jax.stages.Lowered`.

    Raises:
        ValueError: See `lower_step`.
    """
    rows, masked = (batch_size, sequence_length), (batch_size, slots)
    x = {name: Described(rows, "int32") for name in model.input}
    x["mask_positions"] = Described(masked, "int32")
    y: Any = Described(masked, "int32")
    weights: Any = Described(masked, "float32")
    if isinstance(model.output, dict):
        y = {"masked_lm": y, "sentence_order": Described(rows[:1], "int32")}
        weights = {
            "masked_lm": weights,
            "sentence_order": Described(rows[:1], "float32"),
        }
    return lower_step(model, (x, y, weights), devices)


def lower_step(
    model: Any, batch: tuple[Any, ...], devices: Sequence[Any] | None = None
) -> Any:
    """Trace the step that `fit` runs on JAX: loss, gradients, optimizer and metrics.

    The result can be compiled for its devices, which need not be present: with the
    package `libtpu`, `jax.experimental.topologies.get_topology_desc` describes TPUs,
    and the compiler reports the memory that a step takes and whether it fits.

    Args:
        model: A compiled Keras model, whose optimizer is built.
        batch: `(x, y)` or `(x, y, sample_weight)`; only the shapes and dtypes of the
            arrays are used.
        devices: Sequence of `jax.Device`, each of which takes a part of the batch and a
            copy of the model. Defaults to `None`, the first one of this process.

    Returns:
        A `jax.stages.Lowered`.

    Raises:
        ValueError: If the backend is not JAX, or the devices cannot share the batch.
    """
    if keras.config.backend() != "jax":
        msg = (
            "Only JAX describes a step without running it. Set KERAS_BACKEND=jax. "
            f"Received: {keras.config.backend()!r}"
        )
        raise ValueError(msg)
    import jax

    places = np.array(jax.local_devices()[:1] if devices is None else devices)
    for rows in {array.shape[0] for array in keras.tree.flatten(batch)}:
        if rows % places.size:
            msg = f"{places.size} devices cannot share {rows} rows equally."
            raise ValueError(msg)
    mesh = jax.sharding.Mesh(places.reshape(-1), ("batch",))
    whole, cut = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
        for axes in ((), ("batch",))
    )

    build_metrics(model, batch)
    described = keras.tree.map_structure(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=cut), batch
    )
    state = tuple(
        [jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=whole) for v in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    )
    places_after = tuple([whole] * len(part) for part in state)
    step = jax.jit(
        model.train_step, donate_argnums=0, out_shardings=(None, places_after)
    )
    return step.lower(state, described)
