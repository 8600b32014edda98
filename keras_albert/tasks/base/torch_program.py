"""Programs that PyTorch traces from functions, without the overhead of Keras."""

import operator
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_albert.utils.keras_internals import RUN_STATE, all_layers, memory_address

if TYPE_CHECKING:
    from keras_albert.tasks.base.task import AlbertTask

Program = Callable[..., Any]

# How many small batches run before one is traced, which takes about as long as they
# did: a program that predicts a few texts does not wait for it. In larger batches the
# overhead of Keras does not matter.
EAGER_BATCHES = 64
SMALL_BATCH = 512
# Operations whose result shares memory with a contiguous tensor; the last one takes the
# adapters of a layer.
_VIEWS = (
    *("aten.reshape.default", "aten.t.default", "aten.view.default"),
    "aten.select.int",
)


class TracedConstants:
    """What a program of PyTorch has read from a model, and does not read again."""

    def __init__(self, model: Any) -> None:
        layers = all_layers(model) if keras.config.backend() == "torch" else []
        self._variables = model.variables if layers else []
        # Names that are set later may hide attributes of the class.
        self._own: Mapping[str, Any] = vars(model) if layers else {}
        self._known = self._own.keys() | RUN_STATE
        self._readers = [
            (operator.itemgetter(*_names(attributes)), attributes)
            for attributes in map(vars, layers)
        ]
        self._addresses, self._attributes = self._read()

    def _read(self) -> tuple[list[int], list[Any]]:
        addresses = [memory_address(variable) for variable in self._variables]
        values = [value for read, owner in self._readers for value in read(owner)]
        return addresses, values

    def are_current(self) -> bool:
        """Return whether none of them has been replaced."""
        if not self._variables:
            return True
        if any(name[0] != "_" for name in self._own.keys() - self._known):
            return False
        try:
            addresses, attributes = self._read()
        except KeyError:
            # An attribute was deleted.
            return False
        is_same = all(map(operator.is_, attributes, self._attributes))
        return is_same and addresses == self._addresses


def _names(attributes: Mapping[str, Any]) -> list[str]:
    """Return the names of what a user may set: not the objects that Keras manages."""
    plain = bool | int | float | str
    return [
        name
        for name, value in attributes.items()
        if name not in RUN_STATE and (name[0] != "_" or isinstance(value, plain))
    ]


class TorchExportCache:
    """The programs of a task, each traced once it has run small batches eagerly."""

    def __init__(self, task: "AlbertTask") -> None:
        is_torch = keras.config.backend() == "torch"
        self._traces = is_torch and not (task.run_eagerly or task.jit_compile)
        self._lock = threading.Lock()
        self._counts: Counter[Hashable] = Counter()
        # `None` if it cannot be traced.
        self.programs: dict[Hashable, Any] = {}

    def find(self, kind: Hashable, tokens: int, make: Callable[[], Any]) -> Any:
        """Return the program for a batch, which is counted if it is small."""
        if self._traces and tokens <= SMALL_BATCH and kind not in self.programs:
            with self._lock:
                self._counts[kind] += 1
                if self._counts[kind] == EAGER_BATCHES:
                    self.programs[kind] = make()
        return self.programs.get(kind)


def trace(
    function: Callable[..., Any],
    inputs: Sequence[tuple[Any, Sequence[str | int]]],
    longest: dict[str, int],
) -> Program | None:
    """Trace a function for tensors of any size; `None` if it depends on values."""
    # The program shares the memory of the weights. An axis of an input is a size or a
    # name; axes of one name have one size, at most that in `longest`.
    import torch  # noqa: PLC0415  (it is the backend)

    class Module(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    names = dict.fromkeys(x for _, axes in inputs for x in axes if isinstance(x, str))
    dims = {x: torch.export.Dim(x, min=1, max=longest.get(x)) for x in names}
    # Different sizes, none of them 1.
    sizes = {name: 3 + 2 * number for number, name in enumerate(names)}
    shapes = tuple(
        {number: dims[x] for number, x in enumerate(axes) if isinstance(x, str)}
        for _, axes in inputs
    )
    examples = tuple(
        keras.ops.zeros([sizes[x] if isinstance(x, str) else x for x in axes], dtype)
        for dtype, axes in inputs
    )
    try:
        with torch.no_grad():
            exported = torch.export.export(
                Module(), examples, dynamic_shapes=(shapes,), strict=False
            )
    except Exception:
        # A step of a subclass may depend on values or on one length.
        return None
    program = exported.module()
    _simplify(program)
    # Calling the module itself runs hooks first, which check shapes again.
    compute = program.forward

    @torch.inference_mode()
    def run(*tensors: Any) -> Any:
        return compute(*tensors)

    traced: Program = run
    return traced


def _simplify(program: Any) -> None:
    """Remove checks of shapes, copies of constants, and what has no effect."""

    def constant(node: Any) -> Any:
        return operator.attrgetter(node.target)(program)

    def kind(node: Any) -> Any:
        value = constant(node) if node.op == "get_attr" else node.meta.get("val")
        return node if value is None else (value.dtype, value.device)

    graph = program.graph
    for node in reversed(graph.nodes):
        name = str(node.target)
        if "assert" in name or "guards" in name:
            graph.erase_node(node)
        elif name.startswith("aten.lift_fresh_copy") or (
            name.startswith("aten.to.") and kind(node) == kind(node.args[0])
        ):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    # A view of a constant, such as a transposed weight, is a constant as well.
    for node in graph.nodes:
        inputs = node.all_input_nodes
        if str(node.target) not in _VIEWS or [x.op for x in inputs] != ["get_attr"]:
            continue
        value = constant(inputs[0])
        view = node.target(value, *node.args[1:])
        memory = [x.untyped_storage().data_ptr() for x in (view, value)]
        if memory[0] != memory[1]:
            continue
        name = f"{inputs[0].target}_{node.name}".replace(".", "_")
        program.register_buffer(name, view)
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.get_attr(name))
        graph.erase_node(node)
    graph.eliminate_dead_code()
    program.recompile()
