"""Reading the file of a SavedModel without TensorFlow."""

from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from keras_albert.serving.tensorflow_files.messages import SavedModel
from keras_albert.serving.tensorflow_files.tensors import DTYPES


class TensorSpec(NamedTuple):
    """An input or an output.

    Attributes:
        dtype: string. `"float32"`, `"int32"` or `"string"`.
        shape: tuple of int and `None`; `None` for any size.
        place: string. The operation in the graph and the index of its output.
    """

    dtype: str
    shape: tuple[int | None, ...]
    place: str


class Signature(NamedTuple):
    """A served function.

    Attributes:
        inputs: dict of names and `TensorSpec`.
        outputs: dict of names and `TensorSpec`.
    """

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]


class SavedModelFile:
    """The graph of a SavedModel."""

    def __init__(self, directory: Path) -> None:
        path = directory / "saved_model.pb"
        if not path.is_file():
            msg = (
                f"{directory} contains no `saved_model.pb`, so it is not a SavedModel. "
                "Pass the path that `export` returned, or the directory above it."
            )
            raise ValueError(msg)
        contents = path.read_bytes()
        try:
            (graph,) = SavedModel.FromString(contents).meta_graphs
        except (DecodeError, ValueError) as error:
            msg = (
                f"{path} ({len(contents):,} bytes) is damaged or truncated. Copy or "
                "export it again."
            )
            raise ValueError(msg) from error
        self._graph: Any = graph

    @cached_property
    def operations(self) -> frozenset[str]:
        """The names of all operations in the graph and its functions."""
        graph = self._graph.graph_def
        lists = [function.node_def for function in graph.library.function]
        return frozenset(node.op for nodes in [graph.node, *lists] for node in nodes)

    @cached_property
    def signatures(self) -> dict[str, Signature]:
        """The served functions by name."""
        return {
            entry.key: Signature(
                _read_specs(entry.value.inputs), _read_specs(entry.value.outputs)
            )
            for entry in sorted(self._graph.signature_def, key=lambda entry: entry.key)
            # Functions that run when a model is loaded are not served.
            if not entry.key.startswith("__")
        }


def _read_specs(entries: Any) -> dict[str, TensorSpec]:
    return {
        entry.key: TensorSpec(
            DTYPES.get(entry.value.dtype, f"dtype {entry.value.dtype}"),
            tuple(
                None if dim.size < 0 else dim.size
                for dim in entry.value.tensor_shape.dim
            ),
            entry.value.name,
        )
        for entry in sorted(entries, key=lambda entry: entry.key)
    }
