"""Interpreting pickled programs that describe tensors, without running them."""

import pickletools
from collections.abc import Callable
from math import prod
from typing import IO, Any, NamedTuple

import numpy as np

# The NumPy types of PyTorch's storages; NumPy has no bfloat16.
_BFLOAT16 = "torch BFloat16Storage"
_DTYPES = {
    "torch HalfStorage": "float16",
    "torch FloatStorage": "float32",
    "torch DoubleStorage": "float64",
    _BFLOAT16: "uint16",
    "torch BoolStorage": "bool",
    "torch ByteStorage": "uint8",
    "torch CharStorage": "int8",
    "torch ShortStorage": "int16",
    "torch IntStorage": "int32",
    "torch LongStorage": "int64",
    "torch ComplexFloatStorage": "complex64",
    "torch ComplexDoubleStorage": "complex128",
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_PUTS = {"BINPUT", "LONG_BINPUT"}
_GETS = {"BINGET", "LONG_BINGET"}
# More than a model of a thousand blocks needs.
_MOST_STEPS = 2**20


class Storage(NamedTuple):
    """A range of numbers in the file.

    Attributes:
        key: string. Its name.
        elements: int. The number of elements, according to the program.
        dtype: NumPy's type; for bfloat16 that of its bits, uint16.
        is_bfloat16: bool.
    """

    key: str
    elements: int
    dtype: Any
    is_bfloat16: bool


class ProgramTensor(NamedTuple):
    """A tensor in a storage.

    Attributes:
        storage: `Storage`.
        offset: int. Its start, in elements.
        shape: Tuple of int.
        strides: Tuple of int, in elements.
    """

    storage: Any
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def check(self) -> None:
        """Check that the tensor lies within its storage and is not larger than it."""
        numbers = (self.offset, *self.shape, *self.strides)
        if any(type(number) is not int for number in numbers):
            raise TypeError("a tensor is not described by integers")
        if min(numbers) < 0 or len(self.shape) != len(self.strides):
            raise ValueError("the shape or the strides of a tensor are invalid")
        steps = zip(self.shape, self.strides, strict=True)
        last = self.offset + sum((n - 1) * step for n, step in steps)
        if self.size and not last < self.storage.elements >= self.size:
            raise ValueError("a tensor is larger than its storage")


class _Name(NamedTuple):
    """The name of an object that a program would import."""

    name: str


_MARK = object()


def run_tensor_program(
    file: IO[bytes], storages: dict[str, Storage] | None = None
) -> Any:
    """Interpret a pickled program that describes tensors.

    Nothing is imported or called: its names are looked up among a dozen names of
    tensors and their containers.
    """
    storages = {} if storages is None else storages
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for steps, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        step = opcode.name
        if step == "STOP":
            return stack.pop()
        if steps > _MOST_STEPS:
            raise ValueError("its program does not end")
        if step in _LITERALS:
            stack.append(argument)
        elif step in _CONSTANTS:
            stack.append(_CONSTANTS[step])
        elif step in _PUTS:
            memo[argument] = stack[-1]
        elif step == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif step in _GETS:
            stack.append(memo[argument])
        elif step in _STEPS:
            _STEPS[step](stack, argument)
        elif step == "BINPERSID":
            storage = _storage(stack.pop())
            storages[storage.key] = storage
            stack.append(storage)
        else:
            raise ValueError(f"it contains more than tensors ({step})")
    raise ValueError("its program does not end")


def _storage(place: Any) -> Storage:
    # Files from before PyTorch 1.6 have one more: a part of a storage, or `None`.
    kind, name, key, _, elements, *view = place
    if kind != "storage" or any(part is not None for part in view):
        raise ValueError("it contains more than tensors")
    if type(key) is not str or type(elements) is not int or elements < 0:
        raise TypeError("a storage is not described by a name and a number")
    return Storage(key, elements, np.dtype(_DTYPES[name.name]), name.name == _BFLOAT16)


def _call(name: str, arguments: tuple[Any, ...]) -> Any:
    if name == "collections OrderedDict" and not arguments:
        return {}
    if name == "torch._utils _rebuild_tensor_v2":
        storage, offset, shape, strides, *_ = arguments
        if not isinstance(storage, Storage):
            raise TypeError("a tensor has no storage")
        return ProgramTensor(storage, offset, tuple(shape), tuple(strides))
    if name == "torch._utils _rebuild_parameter":
        return arguments[0]
    raise ValueError(f"it contains more than tensors, which could run code: {name}")


def _reduce(stack: list[Any], _: Any) -> None:
    arguments, function = stack.pop(), stack.pop()
    stack.append(_call(function.name, arguments))


def _since_mark(stack: list[Any]) -> list[Any]:
    found: list[Any] = []
    while (value := stack.pop()) is not _MARK:
        found.append(value)
    return found[::-1]


def _set_items(stack: list[Any], values: list[Any]) -> None:
    names = values[::2]
    if any(type(name) is not str for name in names):
        raise TypeError("a tensor has no name")
    target: dict[str, Any] = stack[-1]
    if len(set(names)) < len(names) or not target.keys().isdisjoint(names):
        raise ValueError("it names a tensor twice")
    target.update(zip(names, values[1::2], strict=True))


def _append(stack: list[Any], _: Any) -> None:
    values = _since_mark(stack)
    stack[-1].extend(values)


def _last(stack: list[Any], count: int) -> list[Any]:
    found = stack[-count:]
    del stack[-count:]
    return found


_STEPS: dict[str, Callable[[list[Any], Any], None]] = {
    "PROTO": lambda stack, _: None,
    "FRAME": lambda stack, _: None,
    "MARK": lambda stack, _: stack.append(_MARK),
    "EMPTY_DICT": lambda stack, _: stack.append({}),
    "EMPTY_LIST": lambda stack, _: stack.append([]),
    "TUPLE1": lambda stack, _: stack.append(tuple(_last(stack, 1))),
    "TUPLE2": lambda stack, _: stack.append(tuple(_last(stack, 2))),
    "TUPLE3": lambda stack, _: stack.append(tuple(_last(stack, 3))),
    "TUPLE": lambda stack, _: stack.append(tuple(_since_mark(stack))),
    "GLOBAL": lambda stack, name: stack.append(_Name(name)),
    "STACK_GLOBAL": lambda stack, _: stack.append(_Name(" ".join(_last(stack, 2)))),
    "REDUCE": _reduce,
    # The attributes of PyTorch's ordered dict are irrelevant to the weights.
    "BUILD": lambda stack, _: stack.pop(),
    "SETITEM": lambda stack, _: _set_items(stack, _last(stack, 2)),
    "SETITEMS": lambda stack, _: _set_items(stack, _since_mark(stack)),
    "APPEND": lambda stack, _: stack[-2].append(stack.pop()),
    "APPENDS": _append,
}
