"""A program, run by its path, that runs a SavedModel through TensorFlow's C API.

A server is a C++ program: it loads a model by its signatures and uses operations, but
no Python code. This program does the same: it imports neither TensorFlow nor this
package, and runs under any Python that has TensorFlow installed. It reads one job, a
line of JSON, from standard input and writes one line of JSON for each step, so that the
parent process knows the last completed step if the library ends the process.
"""

import ctypes
import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

_FLOAT, _INT32, _STRING = 1, 3, 7
_NUMBERS: dict[int, Any] = {_FLOAT: ctypes.c_float, _INT32: ctypes.c_int32}
# The size of a TF_TString, which is opaque here.
_STRING_SIZE = 24
_POINTER, _TEXT, _INT, _LONG = (
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_int64,
)
_ANY = _POINTER  # a pointer to one of several things, made with `byref`
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    # result, arguments
    "TF_AllocateTensor": (_POINTER, _INT, _ANY, _INT, ctypes.c_size_t),
    "TF_DeleteTensor": (None, _POINTER),
    "TF_Dim": (_LONG, _POINTER, _INT),
    "TF_GetAllOpList": (_POINTER,),
    "TF_GetCode": (_INT, _POINTER),
    "TF_GraphOperationByName": (_POINTER, _POINTER, _TEXT),
    "TF_LoadLibrary": (_POINTER, _TEXT, _POINTER),
    "TF_LoadSessionFromSavedModel": (
        *(_POINTER, _POINTER, _POINTER, _TEXT, _ANY, _INT),
        *(_POINTER, _POINTER, _POINTER),
    ),
    "TF_Message": (_TEXT, _POINTER),
    "TF_NewGraph": (_POINTER,),
    "TF_NewSessionOptions": (_POINTER,),
    "TF_NewStatus": (_POINTER,),
    "TF_NumDims": (_INT, _POINTER),
    "TF_SessionRun": (
        *(None, _POINTER, _POINTER),
        *(_ANY, _ANY, _INT),
        *(_ANY, _ANY, _INT),
        *(_ANY, _INT, _POINTER, _POINTER),
    ),
    "TF_StringCopy": (None, _POINTER, _TEXT, ctypes.c_size_t),
    "TF_StringGetDataPointer": (_POINTER, _POINTER),
    "TF_StringGetSize": (ctypes.c_size_t, _POINTER),
    "TF_StringInit": (None, _POINTER),
    "TF_TensorData": (_POINTER, _POINTER),
    "TF_TensorType": (_INT, _POINTER),
}


class _Output(ctypes.Structure):
    _fields_ = (("operation", _POINTER), ("index", _INT))


class _Buffer(ctypes.Structure):
    _fields_ = (("data", _POINTER), ("length", ctypes.c_size_t), ("free", _POINTER))


class Library:
    """The library and, after `load`, a model.

    Args:
        paths: The shared objects in loading order; the last one contains the C API.
    """

    def __init__(self, paths: list[str]) -> None:
        for path in paths:
            self._api: Any = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(self._api, name)
            function.restype, function.argtypes = result, arguments
        self._status = self._api.TF_NewStatus()

    def _check(self) -> None:
        if self._api.TF_GetCode(self._status):
            message = self._api.TF_Message(self._status)
            raise RuntimeError(message.decode(errors="replace"))

    def operations(self) -> bytes:
        """Return a serialized `OpList` of all registered operations."""
        buffer = _Buffer.from_address(self._api.TF_GetAllOpList())
        return ctypes.string_at(buffer.data, buffer.length)

    def add(self, path: str) -> None:
        """Load a library of additional operations."""
        self._api.TF_LoadLibrary(path.encode(), self._status)
        self._check()

    def load(self, directory: str) -> None:
        """Load a SavedModel, as a server does."""
        self._graph = self._api.TF_NewGraph()
        tags = (ctypes.c_char_p * 1)(b"serve")
        options = self._api.TF_NewSessionOptions()
        self._session = self._api.TF_LoadSessionFromSavedModel(
            *(options, None, directory.encode(), ctypes.byref(tags), 1),
            *(self._graph, None, self._status),
        )
        self._check()

    def run(self, inputs: dict[str, Any], outputs: list[str]) -> list[Any]:
        """Run the model.

        Args:
            inputs: Tensors in JSON form, by the names of graph tensors.
            outputs: Names of graph tensors.

        Returns:
            A tensor for each of `outputs`.
        """
        places = self._places(list(inputs))
        given = (_POINTER * len(inputs))(*map(self._make, inputs.values()))
        wanted, made = self._places(outputs), (_POINTER * len(outputs))()
        self._api.TF_SessionRun(
            *(self._session, None),
            *(ctypes.byref(places), ctypes.byref(given), len(inputs)),
            *(ctypes.byref(wanted), ctypes.byref(made), len(outputs)),
            *(None, 0, None, self._status),
        )
        for tensor in given:
            self._api.TF_DeleteTensor(tensor)
        self._check()
        answers = [self._read(tensor) for tensor in made if tensor]
        for tensor in made:
            self._api.TF_DeleteTensor(tensor)
        return answers

    def _places(self, names: list[str]) -> Any:
        places = (_Output * len(names))()
        for place, name in zip(places, names, strict=True):
            operation, _, index = name.partition(":")
            place.operation = self._api.TF_GraphOperationByName(
                self._graph, operation.encode()
            )
            if not place.operation:
                raise RuntimeError(f"the graph has no operation {operation!r}")
            place.index = int(index or 0)
        return places

    def _make(self, tensor: dict[str, Any]) -> int:
        kind, shape, values = tensor["dtype"], tensor["shape"], tensor["values"]
        size = _STRING_SIZE if kind == _STRING else ctypes.sizeof(_NUMBERS[kind])
        dims = (_LONG * len(shape))(*shape)
        made: int = self._api.TF_AllocateTensor(
            kind, ctypes.byref(dims), len(shape), size * len(values)
        )
        data = self._api.TF_TensorData(made)
        if kind != _STRING:
            content = (_NUMBERS[kind] * len(values))(*values)
            ctypes.memmove(data, content, ctypes.sizeof(content))
            return made
        for number, text in enumerate(values):
            place, content = data + number * size, text.encode("latin-1")
            self._api.TF_StringInit(place)
            self._api.TF_StringCopy(place, content, len(content))
        return made

    def _read(self, tensor: int) -> dict[str, Any]:
        api, kind = self._api, self._api.TF_TensorType(tensor)
        shape = [api.TF_Dim(tensor, axis) for axis in range(api.TF_NumDims(tensor))]
        count, data = math.prod(shape), api.TF_TensorData(tensor)
        if kind == _STRING:
            places = [data + number * _STRING_SIZE for number in range(count)]
            values: list[Any] = [
                ctypes.string_at(
                    api.TF_StringGetDataPointer(place), api.TF_StringGetSize(place)
                ).decode("latin-1")
                for place in places
            ]
        else:
            values = list((_NUMBERS[kind] * count).from_address(data)) if count else []
        return {"dtype": kind, "shape": shape, "values": values}


def find_libraries() -> tuple[list[str], list[str]]:
    """Find the shared objects of TensorFlow and tensorflow-text.

    Returns:
        TensorFlow's, in loading order; and those of the text operations.

    Raises:
        ImportError: If they are missing.
    """
    core = [
        str(path)
        for name in ("framework", "cc")
        for path in sorted(_folder("tensorflow").glob(f"libtensorflow_{name}.*"))[:1]
    ]
    if len(core) < 2:
        msg = f"{_folder('tensorflow')} has no libtensorflow_cc, the library in C++"
        raise ImportError(msg)
    return core, [str(p) for p in _folder("tensorflow_text").glob("python/*/_*.so")]


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None:
        msg = f"{sys.executable} has no {package.replace('_', '-')}"
        raise ImportError(msg)
    return Path(next(iter(spec.submodule_search_locations or ())))


def _say(**step: Any) -> None:
    sys.stdout.write(json.dumps(step) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the job and run it."""
    job = json.loads(sys.stdin.readline())
    try:
        core, text = find_libraries()
    except ImportError as error:
        _say(missing=str(error))
        return
    library = Library(core)
    _say(operations=library.operations().decode("latin-1"))
    try:
        for path in text:
            library.add(path)
        library.load(job["directory"])
    except RuntimeError as error:
        _say(error=str(error))
        return
    _say(loaded=True)
    for request in job["requests"]:
        try:
            _say(outputs=library.run(request["inputs"], request["outputs"]))
        except RuntimeError as error:
            _say(error=str(error))


if __name__ == "__main__":
    main()
