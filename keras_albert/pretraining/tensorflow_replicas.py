"""Data-parallel training with `tf.distribute`, on one machine or on several."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras

from keras_albert.pretraining.replica_rows import check_rows
from keras_albert.pretraining.summed_update import SummedUpdate
from keras_albert.tasks.datasets import without_autotune
from keras_albert.training.metric_state import build_metrics
from keras_albert.training.one_device import OneDevice
from keras_albert.types import Batch


class TensorflowReplicas(OneDevice):
    """Replicas under a `tf.distribute` strategy, inside Keras' `fit`.

    Under a strategy, Keras' step clips each replica's gradients before they are added
    up, cannot accumulate gradients, and fails with several processes. Therefore the
    model, except its variables, is built outside the strategy, and replaces the
    functions that `fit` and `evaluate` run. They also serve TensorFlow's default
    strategy of one device: Keras' step computes the norm of embeddings' gradients as
    if each occurrence of a token had a separate row.

    Args:
        strategy: `tf.distribute.MirroredStrategy`, `MultiWorkerMirroredStrategy`,
            `TPUStrategy`, or `tf.distribute.get_strategy()`.
    """

    def __init__(self, strategy: Any) -> None:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        self.strategy = strategy
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

        def create(create_next: Callable[..., Any], **kwargs: Any) -> Any:
            if tf.distribute.has_strategy():
                return create_next(**kwargs)
            with self.strategy.scope():
                return tf.Variable(**kwargs)

        scope: AbstractContextManager[Any] = tf.variable_creator_scope(create)
        return scope

    def prepare(self, model: Any, batch: Batch) -> None:
        """Set up training and evaluation on all replicas.

        Args:
            model: A compiled model, whose optimizer is built.
            batch: A training batch; see `build_metrics`.

        Raises:
            ValueError: If the optimizer scales losses and the strategy is not the
                default one.
        """
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
            if self.strategy is tf.distribute.get_strategy():
                # Keras' step scales losses.
                super().prepare(model, batch)
                return
            msg = (
                "Keras cannot scale losses under `tf.distribute`. Train in "
                "'mixed_bfloat16' instead of 'mixed_float16'."
            )
            raise ValueError(msg)
        build_metrics(model, batch)
        train, test = self._train_function(model), self._test_function(model)

        def make_train_function(force: bool = False) -> None:
            model.train_function = train

        def make_test_function(force: bool = False) -> None:
            model.test_function = test

        model.make_train_function = make_train_function
        model.make_test_function = make_test_function

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Return a data set with static shapes."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        check_rows(example, self.num_replicas)
        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype), example
        )
        dataset = tf.data.Dataset.from_generator(
            lambda: batches, output_signature=signature
        )
        return without_autotune(dataset.prefetch(1))

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.num_shards > 1:
            import tensorflow as tf  # noqa: PLC0415  (it is the backend)

            arrived = self.strategy.run(lambda: tf.ones(()))
            self.strategy.reduce("SUM", arrived, axis=None).numpy()

    def _train_function(self, model: Any) -> Callable[[Any], Any]:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        update = SummedUpdate(model, self.strategy)
        compiles = model.jit_compile is True and not self._is_tpu()

        @tf.function(jit_compile=compiles, autograph=False)
        def learn(batch: Any) -> Any:
            x, y, weights = batch
            with tf.GradientTape() as tape:
                outputs = model(x, training=True)
                loss = model.compute_loss(x, y, outputs, weights, training=True)
            gradients = tape.gradient(loss, model.trainable_weights)
            self._track(model, batch, outputs, loss)
            return [tf.convert_to_tensor(gradient) for gradient in gradients]

        def step(batch: Any, applies: bool) -> Any:
            def replica(batch: Any) -> None:
                update(learn(self._rows(batch)), applies)

            with update.scope():
                self.strategy.run(replica, args=(batch,))
            with self.strategy.scope():
                return model.get_metrics_result()

        # One function for accumulated batches, one for those that end an update:
        # TensorFlow cannot branch around the communication of replicas.
        accumulate, apply = (
            tf.function(lambda batch, applies=applies: step(batch, applies))
            for applies in (False, True)
        )
        return lambda iterator: (apply if update.is_due() else accumulate)(
            next(iterator)
        )

    def _test_function(self, model: Any) -> Callable[[Any], Any]:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        def replica(batch: Any) -> None:
            x, y, weights = batch = self._rows(batch)
            outputs = model(x, training=False)
            loss = model.compute_loss(x, y, outputs, weights, training=False)
            self._track(model, batch, outputs, loss)

        @tf.function(reduce_retracing=True)
        def step(batch: Any) -> Any:
            self.strategy.run(replica, args=(batch,))
            with self.strategy.scope():
                return model.get_metrics_result()

        return lambda iterator: step(next(iterator))

    def _rows(self, batch: Any) -> Any:
        """Return a replica's rows of a process's batch."""
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        context = tf.distribute.get_replica_context()
        place = context.replica_id_in_sync_group % self.num_replicas

        def pick(tensor: Any) -> Any:
            rows = tensor.shape[0]
            if rows is None or rows % self.num_replicas:
                # The last batch of an evaluation.
                return tensor[place :: self.num_replicas]
            rows //= self.num_replicas
            others = tensor.shape.rank - 1
            return tf.slice(
                tensor, [place * rows] + [0] * others, [rows] + [-1] * others
            )

        return keras.tree.map_structure(pick, batch)

    def _track(self, model: Any, batch: Any, outputs: Any, loss: Any) -> None:
        """Update the metrics as Keras' step does."""
        x, y, weights = batch
        rows = keras.ops.shape(keras.tree.flatten(x)[0])[0]
        # Under a strategy, a loss is the replica's part of the mean over all.
        loss = loss * self.strategy.num_replicas_in_sync
        for metric in model.metrics:
            if metric.name == "loss":
                metric.update_state(loss, sample_weight=rows)
        model.compute_metrics(x, y, outputs, weights)

    def _is_tpu(self) -> bool:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        return isinstance(self.strategy, tf.distribute.TPUStrategy)
