"""The state of a model in training: variables of metrics, weights after an error."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from keras_albert.utils.keras_internals import IN_USE, has_no_value

# An input that no model reads: for each row, the number of masked tokens of its process
# in an optimizer step, by which the process normalized the weights.
MASKED_TOKENS = "masked_tokens"


def weigh_processes(batch: Any, processes: Any = None) -> Any:
    """Normalize the weights of a process over all processes, within a training step."""
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    if not isinstance(x, dict) or MASKED_TOKENS not in x:
        return batch
    x = dict(x)
    counts = keras.ops.convert_to_tensor(x.pop(MASKED_TOKENS))
    share = counts / _mean_of_processes(keras.ops.mean(counts), processes)

    def weigh(weight: Any) -> Any:
        return keras.ops.convert_to_tensor(weight) * share[:, None]

    if isinstance(weights, dict):
        weights = weights | {"masked_lm": weigh(weights["masked_lm"])}
    else:
        weights = weigh(weights)
    return x, y, weights


def _mean_of_processes(value: Any, processes: Any) -> Any:
    # On PyTorch the task knows the processes, on TensorFlow the strategy does.
    if processes is not None:
        (total,) = processes.sum_tensors([value])
        value = total / processes.count
    elif keras.config.backend() == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        context = tf.distribute.get_replica_context()
        value = context.all_reduce(tf.distribute.ReduceOp.MEAN, value)
    # On JAX, arrays have the rows of all processes.
    return value


def build_metrics(model: Any, batch: Any) -> None:
    """Create the variables of a model's losses and metrics by a batch's shapes."""
    # Keras creates them in `fit`, too late to place or to restore them, by a batch of
    # an iterator on which it may not train.

    def describe(array: Any) -> keras.KerasTensor:
        # One row is enough, and two tokens where the length is not known.
        shape = (1, *(size or 2 for size in array.shape[1:]))
        return keras.KerasTensor(shape, keras.backend.standardize_dtype(array.dtype))

    def fill(spec: Any) -> Any:
        return keras.ops.ones(spec.shape, spec.dtype)

    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    x = {name: x[name] for name in model.input}
    # By the model's `call`, which a task may override.
    outputs = keras.Operation.compute_output_spec(
        model, keras.tree.map_structure(describe, x), training=False
    )
    x, y, weights = keras.tree.map_structure(
        describe, (x, y, weights), none_is_leaf=False
    )
    # Nothing is counted in this scope; variables are created when it ends.
    with keras.StatelessScope():
        outputs, x, y, weights = keras.tree.map_structure(
            fill, (outputs, x, y, weights), none_is_leaf=False
        )
        model.compute_loss(x, y, outputs, weights)
        model.compute_metrics(x, y, outputs, weights)


def build_metrics_before_xla(model: Any, batch: Any) -> None:
    """Create metrics while TensorFlow traces a step: XLA creates no variables."""
    if keras.config.backend() == "tensorflow" and model.jit_compile is True:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        with tf.init_scope():
            build_metrics(model, batch)


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
