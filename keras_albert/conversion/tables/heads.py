"""Heads on a backbone, as rows of a weight table; each format has its own."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import keras

from keras_albert.conversion.tables.weight_table import Row, variables_by_path
from keras_albert.layers.run_layers import get_activation


@dataclass(frozen=True)
class Head:
    """The weights of a class besides those of its backbone."""

    task: str
    foreign: str
    parts: tuple[tuple[Row, ...], ...] = ()
    has_pooler: bool = True
    pooler_rows: tuple[Row, ...] | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all parts."""
        return tuple(row for part in self.parts for row in part)


def backbone_of(model: Any) -> Any:
    """Return the backbone of a task, or a backbone itself."""
    return getattr(model, "backbone", model)


def has_bert_dials(backbone: Any) -> bool:
    """Return whether a backbone is a BERT of several layers."""
    own_layers: bool = backbone.num_groups == backbone.num_layers > 1
    return (
        own_layers
        and backbone.num_inner_repetitions == 1
        and backbone.embedding.projection is None
    )


def head_variables(model: keras.Model) -> list[str]:
    """Return the paths of a model's weights that are not its backbone's."""
    inside = variables_by_path(backbone_of(model))
    return [path for path in variables_by_path(model) if path not in inside]


def find_head(heads: Iterable[Head], model: keras.Model) -> Head | None:
    """Find the rows of a model's head."""
    own = set(head_variables(model))
    names = [cls.__name__ for cls in type(model).__mro__]
    fitting = [
        head
        for head in heads
        if head.task in names and {row.variable for row in head.rows} == own
    ]
    return min(fitting, key=lambda head: names.index(head.task), default=None)


def check_head_activation(model: Any, library: str, activation: str | None) -> None:
    """Check that a masked LM's head has another library's activation."""
    layer = getattr(model, "masked_lm_head", None)
    expected = activation or backbone_of(model).activation
    if layer is not None and get_activation(layer.activation) != get_activation(
        expected
    ):
        msg = (
            f"{library}'s masked LM has the activation {expected!r} in its head, and "
            f"this model has {layer.activation!r}. Save it as a preset of "
            "keras_albert instead."
        )
        raise ValueError(msg)


def check_head_epsilon(model: Any, library: str) -> None:
    """Check that a masked LM's head has the LayerNorm epsilon of its backbone."""
    layer = getattr(model, "masked_lm_head", None)
    own = backbone_of(model).layer_norm_epsilon
    if layer is not None and layer.layer_norm_epsilon != own:
        msg = (
            f"{library} has one epsilon for LayerNorm in the encoder and in the head. "
            f"Received {own} and {layer.layer_norm_epsilon}. Build a new masked LM "
            "with head_layer_norm_epsilon=None, call its `set_weights`, and export "
            "it; scores will differ slightly."
        )
        raise ValueError(msg)
