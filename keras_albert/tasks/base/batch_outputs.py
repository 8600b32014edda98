"""The outputs of a task for one batch of arrays, computed without a data set."""

import operator
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_albert.layers.shared_rows import ROW_TOKENS
from keras_albert.tasks.inputs.preprocessed_inputs import ID_NAMES

Run = Callable[[dict[str, Any]], Any]

# PyTorch: how many small batches run before one is traced, which takes about as long
# as they did: a program that predicts a few texts does not wait for it. In larger
# batches the overhead of Keras does not matter.
EAGER_BATCHES = 64
SMALL_BATCH = 512


class BatchOutputs:
    """A function from one batch of ids to the model's outputs.

    Several threads may call it at once: it does not change the model, while Keras' step
    on JAX takes the weights out of it. What is compiled is kept until the model has
    other variables, as after `enable_lora`, or its `predict_function` is reset, as by
    `quantize`:

    - TensorFlow: Keras' graph, which takes batches of any length.
    - JAX: one program for each shape.
    - PyTorch: one program for all shapes, without the overhead of Keras' layers and
      operations, which is most of the time of a short text.
    """

    def __init__(self, task: Any) -> None:
        self._task = task
        self._lock = threading.Lock()

    def __call__(self, inputs: dict[str, Any]) -> Any:
        """Compute the outputs.

        Returns:
            Tensors of the backend, in the structure of the model's outputs.
        """
        specs = self._task.input
        inputs = {
            name: np.asarray(array, specs[name].dtype) if name in specs else array
            for name, array in inputs.items()
        }
        with self._task.depth_lock.own_depth():
            run: Run = self.current_function().run_batch
            return run(inputs)

    def current_function(self) -> Any:
        """Return the task's `predict_function`, a new one if the model has changed.

        Other functions that are compiled from the model belong to it as attributes, so
        that all are replaced together.
        """
        task = self._task
        with self._lock:
            variables = task.variables
            predict = task.predict_function
            if not _are_same(variables, getattr(predict, "variables_read", ())):
                # TensorFlow's graph would use the old ones.
                task.predict_function = None
                task.make_predict_function()
                predict = task.predict_function
                predict.run_batch = _MAKERS[keras.config.backend()](task, variables)
                predict.variables_read = variables
            return predict


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _make_for_tensorflow(task: Any, variables: list[Any]) -> Run:
    del variables
    predict = task.predict_function
    return lambda inputs: predict([(inputs,)])


def _make_for_jax(task: Any, variables: list[Any]) -> Run:
    import jax  # noqa: PLC0415  (it is the backend)

    def compute(values: list[Any], inputs: dict[str, Any]) -> Any:
        given = {id(v): value for v, value in zip(variables, values, strict=True)}
        state = [
            [given[id(v)] for v in group]
            for group in (task.trainable_variables, task.non_trainable_variables)
        ]
        outputs, _ = task.predict_step(state, (inputs,))
        return outputs

    if task.jit_compile and not task.run_eagerly:
        compute = jax.jit(compute)
    return lambda inputs: compute([v.value for v in variables], inputs)


def _make_for_torch(task: Any, variables: list[Any]) -> Run:
    del variables
    return _TorchRun(task)


class _TorchRun:
    """Keras' step for the first batches, then a program traced from it."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._predict = task.predict_function
        self._lock = threading.Lock()
        self._traces = not (task.run_eagerly or task.jit_compile)
        self._counts: Counter[Any] = Counter()
        # `None` if the model cannot be traced.
        self.programs: dict[Any, Any] = {}

    def __call__(self, inputs: dict[str, Any]) -> Any:
        import torch  # noqa: PLC0415  (it is the backend)

        tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, inputs)
        is_traced = self._traces and ROW_TOKENS not in inputs
        program = self._program(inputs) if is_traced else None
        if program is None:
            return self._predict([(tensors,)])
        with torch.inference_mode():
            return program(*(tensors[name] for name in sorted(tensors)))

    def _program(self, inputs: dict[str, Any]) -> Any:
        # One for each number of axes: an embedder takes texts and pairs.
        kind = tuple((name, inputs[name].ndim) for name in sorted(inputs))
        is_small = inputs["token_ids"].size <= SMALL_BATCH
        if is_small and kind not in self.programs:
            with self._lock:
                self._counts[kind] += 1
                if self._counts[kind] == EAGER_BATCHES:
                    self.programs[kind] = _trace(self._task, inputs)
        return self.programs.get(kind)


def _trace(task: Any, inputs: dict[str, Any]) -> Any:
    """Trace a step for batches of any shape; return `None` if that is impossible.

    The weights are constants of the program, which shares their memory with the model.
    """
    import torch  # noqa: PLC0415  (it is the backend)

    names = sorted(inputs)

    class Step(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return task.predict_step((dict(zip(names, tensors, strict=True)),))

    def sizes(name: str, rank: int) -> dict[int, Any]:
        group = "ids" if name in ID_NAMES else name
        axes = ["rows", *(f"{group}_{axis}" for axis in range(1, rank))]
        longest = {f"ids_{rank - 1}": task.backbone.max_sequence_length}
        return {
            number: torch.export.Dim(axis, min=1, max=longest.get(axis))
            for number, axis in enumerate(axes)
        }

    shapes = tuple(sizes(name, inputs[name].ndim) for name in names)
    # Different sizes, none of them 1.
    examples = (
        np.zeros([3, 5, 7][: inputs[name].ndim], inputs[name].dtype) for name in names
    )
    tensors = tuple(map(keras.ops.convert_to_tensor, examples))
    try:
        with torch.no_grad():
            exported = torch.export.export(
                Step(), tensors, dynamic_shapes=(shapes,), strict=False
            )
    except Exception:
        # A step of a subclass may depend on values or on one length.
        return None
    program = exported.module()
    _simplify(program)
    return program


def _simplify(program: Any) -> None:
    """Remove checks of shapes, and conversions to the dtype that a tensor has.

    They are two thirds of the operations.
    """

    def kind(node: Any) -> Any:
        value = node.meta.get("val")
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(program)
        return node if value is None else (value.dtype, value.device)

    graph = program.graph
    for node in reversed(graph.nodes):
        name = str(node.target)
        if "assert" in name or "guards" in name:
            graph.erase_node(node)
        elif name.startswith("aten.to.") and kind(node) == kind(node.args[0]):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    graph.eliminate_dead_code()
    program.recompile()


_MAKERS = {
    "tensorflow": _make_for_tensorflow,
    "jax": _make_for_jax,
    "torch": _make_for_torch,
}
