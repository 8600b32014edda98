"""Heads of tasks: the names of their outputs, and whether they are random."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from keras_albert.data.labels import learn_labels
from keras_albert.layers.base_layer import albert_initializer
from keras_albert.tasks.losses_and_metrics import match_metrics
from keras_albert.tasks.task import AlbertTask, TaskTraits
from keras_albert.types import Activation
from keras_albert.utils.arguments import MissingArgumentError, is_whole_number


def output_dropout(backbone: Any, rate: float) -> keras.layers.Dropout:
    """Return the dropout before the last layer of a head."""
    policy = backbone.dtype_policy
    return keras.layers.Dropout(rate, dtype=policy, name="output_dropout")


def output_dense(
    units: int, name: str, activation: Activation | None = None
) -> keras.layers.Dense:
    """Return the last layer of a head, in float32 under any policy, for precision."""
    return keras.layers.Dense(
        units,
        activation=activation,
        kernel_initializer=albert_initializer(),
        dtype="float32",
        name=name,
    )


class NamedClasses(AlbertTask):
    """Base class of tasks whose outputs have names."""

    num_classes: int
    labels: tuple[str, ...] | None
    traits = TaskTraits(set_by_targets=("labels",))

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike[str],
        load_weights: bool = True,
        dtype: Any = None,
        num_classes: int | None = None,
        labels: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Load the task, or a backbone with a new head.

        Args:
            preset: string or path. See `AlbertBackbone.from_preset`.
            load_weights: bool. `False` leaves all weights random. Defaults to `True`.
            dtype: string or `keras.DTypePolicy`. Defaults to `None`: Keras' policy, or
                the preset's if it is quantized.
            num_classes: int. With it or with `labels`, the head is new, with random
                weights, even if the preset has one. Defaults to `None`: the preset's
                head.
            labels: List of string. The names of the classes of a new head. Defaults to
                `None`.
            **kwargs: Arguments of the constructors of the task and of its backbone
                that override the preset's, such as `remat=True` or `preprocessor=None`.

        Returns:
            The task.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> classifier = AlbertClassifier.from_preset(
            ...     "albert_small_en_uncased", labels=["complaint", "praise",
            ...     "question"])
            >>> classifier.num_classes
            3
        """
        if labels is not None or num_classes is not None:
            # Without `labels`, not the names of the classes of the preset's head.
            kwargs["num_classes"] = count_classes(num_classes, labels)
            kwargs["labels"] = labels
        return super().from_preset(preset, load_weights, dtype, **kwargs)

    @classmethod
    def _check_new_head(cls, arguments: Mapping[str, Any]) -> None:
        """Raise if the arguments of a new head do not say how many classes it has."""
        count_classes(arguments.get("num_classes"), arguments.get("labels"))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes, or their numbers as strings."""
        if self.labels is None:
            return tuple(str(number) for number in range(self.num_classes))
        return tuple(self.labels)

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of an example's target, a class or a number for each class."""
        return () if self.target_dtype == "int32" else (self.num_classes,)

    def match_metrics(self, metrics: Any) -> Any:
        """Let metrics by class read the outputs and targets; see `match_metrics`."""
        takes_numbers = self.target_dtype == "int32"
        threshold = 0.5 if getattr(self, "is_multi_label", False) else None
        activation = "softmax" if self.outputs_are_logits is not False else None
        if getattr(self, "is_regression", False):
            reads_logits = getattr(self.loss, "from_logits", False)
            activation = "sigmoid" if reads_logits else None
        return match_metrics(
            metrics, self.num_classes, takes_numbers, activation, threshold
        )

    def set_class_names(self, names: tuple[str, ...]) -> None:
        """Take the names of a data set, unless there are some."""
        self.labels = learn_labels(names, self.num_classes, self.labels)


def count_classes(num_classes: int | None, labels: Sequence[str] | None) -> int:
    """Return the number of classes from the arguments of a constructor."""
    if num_classes is None and labels is None:
        raise MissingArgumentError(
            "The number of classes is not known. Pass num_classes=2, say, or "
            "labels=['negative', 'positive']."
        )
    names = () if labels is None else labels
    # A set has no order, and a dict another one than its numbers.
    is_list = hasattr(names, "__getitem__") and not isinstance(names, str | Mapping)
    if not (is_list and all(isinstance(name, str) for name in names)):
        raise ValueError(
            "`labels` must be a list of strings, in the order of the class numbers. "
            f"Received: labels={labels!r:.200}"
        )
    if labels is not None and len(set(labels)) != len(labels):
        msg = f"Each class needs a name of its own. Received: labels={list(labels)}"
        raise ValueError(msg)
    count = len(names) if num_classes is None else num_classes
    disagree = labels is not None and len(labels) != count
    if not is_whole_number(count) or count < 1 or disagree:
        raise ValueError(
            "Pass the number of classes (1 for a regression), their names, or as many "
            f"names as classes. Received: num_classes={num_classes!r}, labels={labels}"
        )
    return count
