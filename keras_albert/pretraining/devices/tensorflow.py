"""Data-parallel training with `tf.distribute`, on one machine or on several."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from keras_albert.tasks.inputs.datasets import without_autotune
from keras_albert.training.one_device import OneDevice
from keras_albert.types import Batch


class TensorflowReplicas(OneDevice):
    """Replicas under a `tf.distribute` strategy, inside Keras' `fit`.

    The model is created in the strategy's scope, and its training step is that of
    `ReplicaSteps`. This also applies to TensorFlow's default strategy of one device,
    because Keras' own step computes the norm of embedding gradients as if each
    occurrence of a token had a separate row.
    """

    def __init__(self, strategy: Any) -> None:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        self.strategy = strategy
        self._sum = tf.function(
            lambda value: strategy.reduce(
                "SUM", strategy.run(lambda: tf.identity(value)), axis=None
            )
        )
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = strategy.cluster_resolver
            self.shard = resolver.task_id or 0
            self.num_shards = max(1, resolver.cluster_spec().num_tasks("worker"))
            self.is_chief = self.shard == 0
        # Those of this process.
        self.num_replicas = strategy.num_replicas_in_sync // self.num_shards

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context in which each variable has a copy on each replica."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        if self.strategy is tf.distribute.get_strategy():
            return nullcontext()
        scope: AbstractContextManager[Any] = self.strategy.scope()
        return scope

    def prepare(self, model: Any, batch: Batch) -> None:
        """Set up training and evaluation on all replicas."""
        is_scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        if model.strategy is None and not is_scaled:
            # Of one device, where Keras' own step scales losses.
            model.strategy = self.strategy
        super().prepare(model, batch)

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Return a data set with static shapes."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        self.check_rows(example)
        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), example
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: batches, output_signature=signature
        )
        return without_autotune(dataset.prefetch(1))

    def agree(self, flag: bool) -> bool:
        """Return whether the flag of any process is set."""
        if self.num_shards == 1:
            return flag
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        return bool(self._sum(tf.constant(float(flag))).numpy())

    def barrier(self) -> None:
        """Wait for all processes."""
        self.agree(True)
