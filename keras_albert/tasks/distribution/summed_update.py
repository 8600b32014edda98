"""Updates by summed gradients under `tf.distribute`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

# The limits of gradients in Keras optimizers.
_LIMITS = ("clipnorm", "global_clipnorm", "clipvalue")


class SummedUpdate:
    """Updates of the weights by the sum of all replicas' gradients.

    Keras clips the gradients of each replica, and then sums them. Here the sum is
    computed first; each of n replicas then passes an n-th of it, clipped to an n-th of
    the limit, and Keras' sum of these is the clipped sum. Gradients of several batches
    are accumulated on each replica, in variables that are zero after an update.
    """

    def __init__(self, model: Any, strategy: Any) -> None:
        self.model = model
        self.num_replicas = strategy.num_replicas_in_sync
        self.num_batches = model.optimizer.gradient_accumulation_steps or 1
        self._seen: int | None = None
        self._sums: list[Any] = []
        if self.num_batches > 1:
            with strategy.scope():
                self._sums = [
                    tf.Variable(
                        tf.zeros(variable.shape, variable.dtype),
                        trainable=False,
                        synchronization=tf.VariableSynchronization.ON_READ,
                        aggregation=tf.VariableAggregation.SUM,
                    )
                    for variable in model.trainable_variables
                ]

    def is_due(self) -> bool:
        """Count a batch, and return whether it ends an update."""
        if self._seen is None:
            # A run resumes after an update.
            self._seen = 0
        self._seen += 1
        return self._seen % self.num_batches == 0

    def __call__(self, gradients: list[Any], applies: bool) -> None:
        """Process the gradients of a batch, in a replica and within `scope`."""
        optimizer = self.model.optimizer
        known = [n for n, gradient in enumerate(gradients) if gradient is not None]
        variables = [self.model.trainable_variables[n] for n in known]
        gradients = [gradients[n] for n in known]
        sums = [self._sums[n] for n in known] if self._sums else []
        if not applies:
            for total, gradient in zip(sums, gradients, strict=True):
                total.assign_add(gradient)
            optimizer.iterations.assign_add(1)
            return
        if sums:
            gradients = [
                (total + gradient) / self.num_batches
                for total, gradient in zip(sums, gradients, strict=True)
            ]
        if any(getattr(optimizer, name) is not None for name in _LIMITS):
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            gradients = [gradient / self.num_replicas for gradient in gradients]
        # Optimizers and their schedules count updates within the scope.
        count = optimizer.iterations
        count.assign(count // self.num_batches)
        optimizer.apply(gradients, variables)
        count.assign(count * self.num_batches)
        for total in sums:
            total.assign(tf.zeros_like(total))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Set up the optimizer for a replica's part of one sum.

        It surrounds all replicas, which are traced by threads that take turns.
        """
        optimizer = self.model.optimizer
        names = ("gradient_accumulation_steps", *_LIMITS)
        kept = {name: getattr(optimizer, name) for name in names}
        schedule = None
        if self.num_batches > 1:
            # Keras reads a plain rate from its variable, which a graph cannot.
            with tf.init_scope():
                schedule = optimizer.get_config()["learning_rate"]
        if isinstance(schedule, dict):
            schedule = keras.optimizers.schedules.deserialize(schedule)
            kept["learning_rate"] = schedule
            optimizer.learning_rate = _ByUpdate(schedule, self.num_batches)
        optimizer.gradient_accumulation_steps = None
        for name in _LIMITS:
            if kept[name] is not None:
                setattr(optimizer, name, kept[name] / self.num_replicas)
        try:
            yield
        finally:
            for name, value in kept.items():
                setattr(optimizer, name, value)


class _ByUpdate(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule of batches, called with the number of the update."""

    def __init__(self, schedule: Any, num_batches: int) -> None:
        self.schedule = schedule
        self.num_batches = num_batches

    def __call__(self, step: Any) -> Any:
        last = keras.ops.cast(step, "int32") * self.num_batches + self.num_batches - 1
        return self.schedule(last)
