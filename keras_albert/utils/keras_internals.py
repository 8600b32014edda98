"""The private names of Keras, KerasHub and PyTorch that the package uses.

No other module uses one. Each has a test in `tests/utils/test_keras_internals.py`,
which fails if a release removes the name or changes its meaning. The versions are those
that have the name; 3.16 and 0.33 are development versions.
"""

import functools
import operator
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import keras

# Private methods that the package overrides, because Keras and KerasHub call them.
HOOKS = {
    # An update of all variables at once. Keras 3.15 to 3.16.
    "_backend_update_step": "keras.optimizers.Optimizer",
    # The arguments of a preprocessor that a preset does not contain. KerasHub 0.32 to
    # 0.33.
    "_add_missing_kwargs": "keras_hub.models.Preprocessor",
}


def all_layers(layer: Any) -> list[Any]:
    """Return a layer and all layers inside it, at any depth. Keras 3.15 to 3.16."""
    return list(layer._flatten_layers())


def outputs_of_layer(model: Any, layer: Any) -> Any:
    """Return the symbolic outputs of a layer in a functional model."""
    # In the model's graph; `layer.output` belongs to the layer's own call. Keras 3.15
    # to 3.16.
    in_graph = {id(node) for nodes in model._nodes_by_depth.values() for node in nodes}
    [node] = (node for node in layer._inbound_nodes if id(node) in in_graph)
    return keras.tree.pack_sequence_as(layer.output, node.outputs)


_BUILDING = threading.RLock()


def building_model() -> AbstractContextManager[Any]:
    """Return the context in which to call the constructor of a functional model."""
    # One thread at a time: the first of a class assigns `__bases__`, which fails in
    # two. Keras 3.15 to 3.16.
    return _BUILDING


def register_parameters(model: Any) -> None:
    """Let PyTorch see a model's variables as parameters. Keras 3.15 to 3.16."""
    # Keras does it before KerasHub's models are initialized, when it has no effect.
    if keras.config.backend() == "torch":
        model._track_variables()


def train_in_one_process(model: Any) -> None:
    """Let Keras not share steps with other processes of PyTorch. Keras 3.16."""
    # It would wrap the model, which waits for all processes, also to predict, and
    # replaces one with another number of layers.
    if hasattr(model, "ddp_model"):
        # Neither `None`, which Keras replaces, nor a model, which it saves and loads.
        model.ddp_model = False


def defer_building(model: Any) -> None:
    """Let Keras build a model in its first step under `tf.distribute`, too."""
    # It would take a batch for that, and not train on it. Keras 3.15 to 3.16.
    model._distribute_strategy = None


def variable_index(optimizer: Any, variable: Any) -> int:
    """Return a variable's index in lists of moments. Keras 3.15 to 3.16."""
    return int(optimizer._get_variable_index(variable))


def adam_moments(optimizer: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Return Adam's means, squares and largest squares. Keras 3.15 to 3.16."""
    largest = optimizer._velocity_hats if optimizer.amsgrad else []
    return optimizer._momentums, optimizer._velocities, largest


def optimized_variables(optimizer: Any) -> list[Any]:
    """Return the variables that an optimizer was built for. Keras 3.15 to 3.16."""
    return list(optimizer._trainable_variables)


def has_no_value(variable: Any) -> bool:
    """Return whether `fit` on JAX has removed the value. Keras 3.15 to 3.16."""
    return variable._value is None


def mark_as_seeded(generator: Any) -> None:
    """Let PyTorch's dropout use this `SeedGenerator`. Keras 3.15 to 3.16."""
    generator._initial_seed = 0


def is_evaluation_of_fit(arguments: Mapping[str, Any]) -> bool:
    """Return whether `fit` calls `evaluate` with these. Keras 3.15 to 3.16."""
    return bool(arguments.get("_use_cached_eval_dataset"))


def set_special_tokens(tokenizer: Any, tokens: Mapping[str, str]) -> None:
    """Set a tokenizer's tokens, with a `name_id` each. KerasHub 0.32 to 0.33."""
    tokenizer._special_token_attrs = []
    for name, token in tokens.items():
        tokenizer._add_special_token(token, name)


@functools.cache
def onednn_linear() -> Any:
    """Return `torch.nn.functional.linear` by oneDNN, or `None`. PyTorch 2.6 to 2.13."""
    # Its arguments: the input, the weights, the bias, an activation, its numbers, its
    # algorithm.
    import torch  # noqa: PLC0415  (it is the backend)

    return getattr(torch.ops.mkldnn, "_linear_pointwise", None)


# How often a PyTorch tensor was changed, except through its `data`.
count_changes: Callable[[Any], int] = operator.attrgetter("_version")


def onednn_packed(weights: Any) -> Any:
    """Return weights in the order in which `onednn_linear` reads memory; or `None`."""
    # Its arguments: the weights, and the rows of an input. The order for few rows is
    # the fastest for many, too.
    import torch  # noqa: PLC0415  (it is the backend)

    pack = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
    return None if pack is None else pack(weights, 32)


# What a callback or another thread has done.
IN_USE = (
    "On JAX a model has no weights while `fit`, `evaluate` or `train_on_batch` runs, "
    "and one of them is running. Wait until it returns, or load the preset a second "
    "time to predict in the meantime. In a callback, call "
    "`self.model.jax_state_sync()` first."
)


def explain_held(error: Exception, variables: Iterable[Any]) -> None:
    """Raise a `RuntimeError` if a call has failed because Keras holds the weights."""
    # Other errors, also while Keras traces a step.
    is_other = not any(word in str(error) for word in ("NoneType", "deleted"))
    if keras.config.backend() != "jax" or is_other:
        return
    if any(has_no_value(each) or each.value.is_deleted() for each in variables):
        raise RuntimeError(IN_USE) from error
