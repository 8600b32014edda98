"""TensorFlow's checkpoints and SavedModels as named arrays; nothing is executed.

Checkpoints of TensorFlow Model Garden, which TF-Hub's SavedModels contain, have the
names of attributes of Python objects, which depend on how an encoder was built. The
graph of the objects also has the names of variables, which do not; they become
google-research's here. A SavedModel has no config: the shapes of its weights
tell the sizes.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.checkpoints.google.names import (
    ALBERT_LAYER,
    google_name,
    google_shape,
)
from keras_albert.presets.weight_files import Shape, StoredTensor, open_weights
from keras_albert.utils.environment import import_package
from keras_albert.utils.reading import read_bytes, reading

Array = npt.NDArray[Any]

SAVED_MODEL = "saved_model.pb"

# A graph contains no weights.
_MAX_BYTES = 2**28

_LOWERCASES = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_WORDS = "bert/embeddings/word_embeddings"
_ALBERT_PARTS = ("attention_1/self/query/kernel", "ffn_1/intermediate/dense/bias")
_BERT = "bert/encoder/layer_{}"
_BERT_PARTS = ("attention/self/query/kernel", "intermediate/dense/bias")

# The entry of a checkpoint with the graph of its objects.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def find_checkpoint(directory: Path) -> Path | None:
    """Return the prefix of a checkpoint's files: the best, the last or the only one."""
    if (directory / "model.ckpt-best.index").is_file():
        return directory / "model.ckpt-best"
    found = [
        (each[1], int(each[2]), path.with_suffix(""))
        for path in directory.glob("*ckpt-*.index")
        if (each := re.fullmatch(r"(.*\bckpt)-(\d+)\.index", path.name))
    ]
    if len({name for name, *_ in found}) == 1:
        return max(found)[-1]
    others = list(directory.glob("*.ckpt.index"))
    if len(others) == 1:
        return others[0].with_suffix("")
    module = directory / "variables" / "variables"
    return module if module.with_suffix(".index").is_file() else None


def stored_tensors(prefix: Path, reshaped: bool = True) -> dict[str, StoredTensor]:
    """Return the tensors of a checkpoint by google-research's names, in its shapes."""
    found = open_weights(_index(prefix))
    graph = found.pop(_OBJECT_GRAPH, None)
    if graph is None:
        return found
    with reading(_index(prefix)):
        shapes = {key: tensor.shape for key, tensor in found.items()}
        names = _google_names(graph.read(), shapes)  # type: ignore[arg-type]
    tensors = {name: found[key] for key, name in names.items()}
    if not reshaped:
        return tensors
    return {
        name: _reshape(tensor, google_shape(name, tensor.shape))
        for name, tensor in tensors.items()
    }


def _reshape(tensor: StoredTensor, shape: Shape) -> StoredTensor:
    def read(original: Callable[[], Array]) -> Array:
        return np.reshape(original(), shape)

    return tensor._replace(shape=shape, read=partial(read, tensor.read))


def _index(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.index")


def write_tensors(prefix: Path, tensors: Mapping[str, Array]) -> None:
    """Write a checkpoint that `tf.train.load_checkpoint` reads."""
    tf: Any = import_package("A checkpoint of TensorFlow", "tensorflow", "tensorflow")
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )
    # Marks the latest checkpoint of the directory.
    state = f'model_checkpoint_path: "{prefix.name}"\n'
    (prefix.parent / "checkpoint").write_text(state, encoding="utf-8")


def _google_names(graph: bytes, shapes: Mapping[str, Shape]) -> dict[str, str]:
    """Return google-research's names by keys; an unknown variable's is its key."""
    # Training state and heads other than a masked LM's are left out.
    from tensorflow.core.protobuf import trackable_object_graph_pb2  # noqa: PLC0415  (slow to import)

    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    names: dict[str, str] = {}
    for node in nodes:
        for attribute in node.attributes:
            key, variable = attribute.checkpoint_key, attribute.full_name
            name = google_name(variable)
            is_state = not shapes.get(key) or ".OPTIMIZER_SLOT" in key
            if is_state or (name is None and variable.startswith("bert/")):
                continue
            if name in names.values():
                raise ValueError(f"it contains two variables {variable!r}")
            names[key] = name or key
    return names


def saved_model_config(directory: Path) -> dict[str, Any] | None:
    """Return an encoder's config by google-research's keys, with `model_type`."""
    # `None` if the SavedModel has no encoder of ALBERT or BERT.
    path, prefix = directory / SAVED_MODEL, find_checkpoint(directory)
    if prefix is None or not path.is_file():
        return None
    found = stored_tensors(prefix, reshaped=False)
    is_bert = f"{_BERT.format(0)}/{_BERT_PARTS[0]}" in found
    scope, parts = (
        (_BERT.format(0), _BERT_PARTS) if is_bert else (ALBERT_LAYER, _ALBERT_PARTS)
    )
    if _WORDS not in found or f"{scope}/{parts[0]}" not in found:
        return None
    with reading(f"{prefix}.index"):
        (hidden, heads, _), (inner,) = (
            found[f"{scope}/{part}"].shape for part in parts
        )
        sizes = {
            name: found[f"bert/embeddings/{name}_embeddings"].shape
            for name in ("word", "position", "token_type")
        }
        config = {
            "model_type": "bert" if is_bert else "albert",
            "vocab_size": sizes["word"][0],
            "embedding_size": sizes["word"][1],
            "hidden_size": hidden,
            "intermediate_size": inner,
            "num_attention_heads": heads,
            "max_position_embeddings": sizes["position"][0],
            "type_vocab_size": sizes["token_type"][0],
            "hidden_act": "gelu",
            # As in the published models.
            "hidden_dropout_prob": 0.1 * is_bert,
            "attention_probs_dropout_prob": 0.1 * is_bert,
        }
    layers = 0
    while f"{_BERT.format(layers)}/{_BERT_PARTS[0]}" in found:
        layers += 1
    if layers:
        return config | {"num_hidden_layers": layers}
    # Layers that share their weights are counted by their outputs.
    from tensorflow.core.protobuf import saved_model_pb2  # noqa: PLC0415  (slow to import)

    with reading(path):
        graph = saved_model_pb2.SavedModel.FromString(read_bytes(path, _MAX_BYTES))
        signatures = graph.meta_graphs[0].signature_def
        outputs = signatures["serving_default"].outputs.values()
        sequences = [each for each in outputs if len(each.tensor_shape.dim) == 3]
    # One output for each layer, and the last one again as the model's.
    if len(sequences) < 2:
        raise ValueError(
            f"{path} does not return the outputs of its layers, so that their number "
            "is unknown. Write an `albert_config.json` with `num_hidden_layers` and "
            "the other sizes next to it."
        )
    return config | {"num_hidden_layers": len(sequences) - 1}


def saved_model_lowercases(directory: Path) -> bool | None:
    """Return whether a SavedModel says that texts are lowercased; `None` if not."""
    prefix = find_checkpoint(directory)
    if prefix is None or not (directory / SAVED_MODEL).is_file():
        return None
    found = open_weights(_index(prefix)).get(_LOWERCASES)
    return None if found is None or found.shape else bool(found.read())
