"""The training step as a program, for devices that need not be present."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_albert.tasks.distribution.model_state import build_metrics


def lower_training_step(
    model: Any,
    batch_size: int,
    sequence_length: int,
    slots: int,
    devices: Sequence[Any] | None = None,
) -> Any:
    """Trace the step that `fit` runs on JAX: loss, gradients, optimizer and metrics.

    The result can be compiled for its devices, which need not be present: with the
    package `libtpu`, `jax.experimental.topologies.get_topology_desc` describes TPUs,
    and the compiler reports the memory that a step takes and whether it fits.

    Args:
        model: A compiled `AlbertPretrainer` or `AlbertMaskedLM`, whose optimizer is
            built.
        batch_size: int. Rows in a batch, on all devices together.
        sequence_length: int. Tokens in a row.
        slots: int. Masked tokens in a row.
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
    if batch_size % places.size:
        msg = f"{places.size} devices cannot share {batch_size} rows equally."
        raise ValueError(msg)
    mesh = jax.sharding.Mesh(places.reshape(-1), ("batch",))
    whole, cut = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
        for axes in ((), ("batch",))
    )

    def describe(shape: tuple[int, ...], dtype: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=cut)

    rows, masked = (batch_size, sequence_length), (batch_size, slots)
    x = {name: describe(rows, "int32") for name in model.input}
    x["mask_positions"] = describe(masked, "int32")
    y: Any = describe(masked, "int32")
    weights: Any = describe(masked, "float32")
    if isinstance(model.output, dict):
        y = {"masked_lm": y, "sentence_order": describe(rows[:1], "int32")}
        weights = {
            "masked_lm": weights,
            "sentence_order": describe(rows[:1], "float32"),
        }
    build_metrics(model, (x, y, weights))
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
    return step.lower(state, (x, y, weights))
