"""Steps of training, evaluation and prediction under `tf.distribute`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from keras_albert.devices.batch_sharding import (
    build_metrics,
    divide_weights,
    is_replicated,
    losses_by_weight,
    summed,
    weigh_processes,
    without_mark,
)
from keras_albert.devices.processes import num_workers


class StrategyTrainer:
    """The functions that Keras' `fit`, `evaluate` and `predict` call for each batch."""

    # Every replica receives the whole batch, with its known shapes, and selects as many
    # contiguous rows as the others. Losses and clipped gradients add up to what one
    # device computes: Keras would average losses and clip before the sum, and XLA
    # compile all replicas as one program. If rows do not divide evenly, or the loss
    # compares them, each replica computes all, and the first one counts them.

    def __init__(self, model: Any, strategy: Any) -> None:
        self.model = model
        self.strategy = strategy
        self._is_built = False
        # Losses with the reduction "sum", while a step is traced.
        self._summed: list[Any] = []
        self.num_processes = num_workers(strategy) or 1
        # Those of this process, which divide its batch.
        self.num_replicas = strategy.num_replicas_in_sync // self.num_processes
        is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        # A TPU always compiles, including the communication of replicas.
        self.compiles = (model.jit_compile is True and not is_tpu) or None

    def train_function(self) -> Callable[[Any], Any]:
        """Return the function that `fit` calls for a batch."""
        model = self.model
        self._check_optimizer()
        update = AllReducedUpdate(model, self.strategy)

        @self._compiled
        def learn(rows: Any) -> Any:
            with tf.GradientTape() as tape:
                loss, outputs = self._forward(rows, training=True)
            gradients = tape.gradient(loss, model.trainable_weights)
            return _map(tf.convert_to_tensor, gradients), loss, outputs

        def step(batch: Any, applies: bool) -> Any:
            def replica(batch: Any) -> None:
                rows = self._rows(weigh_processes(batch))
                with self._counted_once(rows):
                    gradients, loss, outputs = learn(rows)
                    self._update_metrics(rows, loss, outputs)
                update(gradients, applies)

            with update.scope(), self._summed_losses(batch):
                self.strategy.run(replica, args=(batch,))
            with self.strategy.scope():
                return model.get_metrics_result()

        # One program for batches whose gradients are accumulated, one for those that
        # end an update: replicas cannot communicate within a branch of one program.
        accumulate, apply = (
            self._function()(lambda batch, applies=applies: step(batch, applies))
            for applies in (False, True)
        )

        def update_or_wait(batch: Any) -> Any:
            return (apply if update.is_due() else accumulate)(batch)

        return self._runner(update_or_wait)

    def test_function(self) -> Callable[[Any], Any]:
        """Return the function that `evaluate` calls for a batch."""

        @self._compiled
        def judge(rows: Any) -> Any:
            return self._forward(rows, training=False)

        def replica(batch: Any) -> None:
            rows = self._rows(batch)
            with self._counted_once(rows):
                self._update_metrics(rows, *judge(rows))

        @self._function()
        def step(batch: Any) -> Any:
            with self._summed_losses(batch):
                self.strategy.run(replica, args=(batch,))
            with self.strategy.scope():
                return self.model.get_metrics_result()

        return self._runner(step)

    def predict_function(self) -> Callable[[Any], Any]:
        """Make what `predict` runs for a list of batches."""

        @self._compiled
        def answer(x: Any) -> Any:
            return self.model(x, training=False)

        def replica(x: Any) -> Any:
            return answer(_map(self._part, x))

        @self._function()
        def step(x: Any) -> Any:
            count = _count(x)
            missing = -count % self.num_replicas
            # The outputs of padding rows are dropped.
            numbers = [*range(count), *[count - 1] * missing]
            filled = _map(lambda tensor: tf.gather(tensor, numbers), x)
            outputs = self.strategy.run(replica, args=(filled if missing else x,))

            def join(values: Any) -> Any:
                parts = self.strategy.experimental_local_results(values)
                return tf.concat(parts, axis=0)[:count]

            return keras.tree.map_structure(join, outputs)

        def run(batches: list[Any]) -> Any:
            parts = [step(_as_tensors(batch)[0]) for batch in batches]
            return keras.tree.map_structure(lambda *each: tf.concat(each, 0), *parts)

        return run

    def _compiled(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Make a program for each replica, whose variables XLA must find there."""
        programs: dict[Any, Callable[[Any], Any]] = {}

        def run(rows: Any) -> Any:
            context = tf.distribute.get_replica_context()
            # Unknown on a TPU, where all replicas run one program.
            place = tf.get_static_value(context.replica_id_in_sync_group)
            place = None if place is None else int(place)
            if place not in programs:
                programs[place] = self._function(jit_compile=self.compiles)(function)
            return programs[place](rows)

        return run

    def _function(self, **kwargs: Any) -> Callable[[Any], Any]:
        if self.model.run_eagerly:
            return lambda function: function
        return tf.function(autograph=False, **kwargs)

    def _runner(self, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Take as many batches as Keras runs at a time."""

        def run(iterator: Any) -> Any:
            logs = None
            for number in range(self.model.steps_per_execution):
                try:
                    batch = _as_tensors(next(iterator))
                except StopIteration:
                    if not number:
                        raise
                    break
                if not self._is_built:
                    with self.strategy.scope():
                        x, *rest = batch
                        build_metrics(self.model, (without_mark(x), *rest))
                    for group in self.model.metrics:
                        for metric in getattr(group, "metrics", [group]):
                            self._check_scope(metric, metric.variables)
                    self._is_built = True
                logs = step(batch)
            return logs

        return run

    def _check_optimizer(self) -> None:
        optimizer = self.model.optimizer
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            raise ValueError(
                "Keras cannot scale losses under `tf.distribute`. Train in "
                "'mixed_bfloat16' instead of 'mixed_float16'."
            )
        # `iterations` is an expression if gradients are accumulated.
        self._check_scope(optimizer, optimizer.variables[:1])

    def _check_scope(self, owner: Any, variables: list[Any]) -> None:
        """Check that the variables of an optimizer or a metric are in all replicas."""
        if self.strategy.num_replicas_in_sync > 1 and not all(
            isinstance(variable.value, tf.distribute.DistributedValues)
            for variable in variables
        ):
            raise ValueError(
                "The model was created in the scope of a `tf.distribute` strategy, and "
                f"{type(owner).__name__} outside of it. Create it in `with "
                "strategy.scope():`, too, or pass its name to `compile`."
            )

    def _shares(self, batch: Any) -> bool:
        """Return whether each replica computes only some of the rows."""
        compares = self.model.compares_rows or is_replicated(batch[0])
        return not (compares or _count(batch) % self.num_replicas)

    def _rows(self, batch: Any) -> Any:
        """Return a replica's rows, their weights, and which replica counts them."""
        x, y, weights = batch
        whole, x, scaled = is_replicated(x), without_mark(x), weights
        if not self._shares(batch):
            place = tf.distribute.get_replica_context().replica_id_in_sync_group
            # The first one of all processes, or of each, which has other rows.
            group = self.strategy.num_replicas_in_sync if whole else self.num_replicas
            counts = tf.equal(tf.cast(place, tf.int32) % group, 0)
            return x, y, weights, scaled, counts
        if self._summed:
            scaled = self._normalize(weights)
        return (*_map(self._part, (x, y, weights, scaled)), None)

    def _part(self, tensor: Any) -> Any:
        context = tf.distribute.get_replica_context()
        place = context.replica_id_in_sync_group % self.num_replicas
        rows, others = tensor.shape[0] // self.num_replicas, tensor.shape.rank - 1
        return tf.slice(tensor, [place * rows] + [0] * others, [rows] + [-1] * others)

    def _forward(self, rows: Any, training: bool) -> Any:
        """Return a replica's part of the loss, and its outputs."""
        x, y, _, scaled, _ = rows
        outputs = self.model(x, training=training)
        loss = self.model.compute_loss(x, y, outputs, scaled, training=training)
        return loss, outputs

    @contextmanager
    def _counted_once(self, rows: Any) -> Iterator[None]:
        """Undo updates of metrics on all but one replica, if each has all rows."""
        counts = rows[-1]
        variables = [] if counts is None else self.model.metrics_variables
        before = [tf.convert_to_tensor(variable.value) for variable in variables]
        yield
        for variable, value in zip(variables, before, strict=True):
            variable.assign(tf.where(counts, variable.value, value))

    def _update_metrics(self, rows: Any, loss: Any, outputs: Any) -> None:
        """Count a replica's rows outside of XLA, which sees one device only."""
        x, y, weights, _, _ = rows
        # Keras divides by the number of replicas, so that their losses add up.
        whole = loss * self.strategy.num_replicas_in_sync
        for metric in self.model.metrics:
            if metric.name == "loss":
                metric.update_state(whole, sample_weight=_count(x))
        self.model.compute_metrics(x, y, outputs, weights)

    def _normalize(self, weights: Any) -> Any:
        """Divide weights by their sums over all rows, in place of the loss."""

        def total(weight: Any) -> Any:
            if self.num_processes == 1:
                return tf.reduce_sum(weight)
            # Processes have other rows, or all have the same ones.
            context = tf.distribute.get_replica_context()
            own = tf.reduce_sum(self._part(weight))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

        return divide_weights(self.model.loss, self._summed, weights, total)

    @contextmanager
    def _summed_losses(self, batch: Any) -> Iterator[None]:
        """Set losses to sum normalized weights while replicas are traced."""
        shares = self._shares(batch)
        self._summed = losses_by_weight(self.model, batch[2]) if shares else []
        try:
            with summed(self._summed):
                yield
        finally:
            self._summed = []


def _as_tensors(batch: Any) -> Any:
    """Return a batch as `x`, `y` and `sample_weight` with known shapes."""
    parts = keras.utils.unpack_x_y_sample_weight(batch)
    return _map(tf.convert_to_tensor, parts)


def _map(function: Callable[[Any], Any], values: Any) -> Any:
    """Map all tensors; `None` stays."""
    return keras.tree.map_structure(
        lambda value: None if value is None else function(value), values
    )


def _count(batch: Any) -> int:
    return int(keras.tree.flatten(batch)[0].shape[0])


# The limits of gradients in Keras optimizers.
_LIMITS = ("clipnorm", "global_clipnorm", "clipvalue")


class AllReducedUpdate:
    """Updates of the weights by the sum of all replicas' gradients."""

    # Keras clips before it sums. Here each of n replicas passes an n-th of the sum,
    # clipped to an n-th of the limit, and accumulates in variables of its own.

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
        """Set up the optimizer, around all replicas, for a replica's part of a sum."""
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
