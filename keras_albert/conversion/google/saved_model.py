"""The sizes of an encoder that TF-Hub offers as a SavedModel, which has no config.

They are read from the shapes of the weights; nothing of the SavedModel is executed.
"""

from pathlib import Path
from typing import Any

from keras_albert.conversion.google.tensorflow_files import (
    find_checkpoint,
    find_tensors,
    read_scalar,
)
from keras_albert.utils.reading import read_bytes, reading

FILE = "saved_model.pb"

# A graph contains no weights.
_MOST_BYTES = 2**28

_LOWERCASES = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_WORDS = "bert/embeddings/word_embeddings"
_ALBERT = "bert/encoder/transformer/group_0/inner_group_0"
_ALBERT_PARTS = ("attention_1/self/query/kernel", "ffn_1/intermediate/dense/bias")
_BERT = "bert/encoder/layer_{}"
_BERT_PARTS = ("attention/self/query/kernel", "intermediate/dense/bias")


def saved_model_config(directory: Path) -> dict[str, Any] | None:
    """Return the config of a SavedModel's encoder."""
    path, prefix = directory / FILE, find_checkpoint(directory)
    if prefix is None or not path.is_file():
        return None
    found = find_tensors(prefix)
    is_bert = f"{_BERT.format(0)}/{_BERT_PARTS[0]}" in found
    scope, parts = (
        (_BERT.format(0), _BERT_PARTS) if is_bert else (_ALBERT, _ALBERT_PARTS)
    )
    if _WORDS not in found or f"{scope}/{parts[0]}" not in found:
        return None
    with reading(f"{prefix}.index"):
        (hidden, heads, _), (inner,) = (
            found[f"{scope}/{part}"].stored_shape for part in parts
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
            # Those of the published models.
            "hidden_dropout_prob": 0.1 * is_bert,
            "attention_probs_dropout_prob": 0.1 * is_bert,
        }
    layers = 0
    while f"{_BERT.format(layers)}/{_BERT_PARTS[0]}" in found:
        layers += 1
    return config | {"num_hidden_layers": layers or _count_layers(path)}


def saved_model_lowercases(directory: Path) -> bool | None:
    """Return whether a SavedModel says that texts are lowercased; `None` if not."""
    prefix = find_checkpoint(directory)
    if prefix is None or not (directory / FILE).is_file():
        return None
    stated = read_scalar(prefix, _LOWERCASES)
    return None if stated is None else bool(stated)


def _count_layers(path: Path) -> int:
    """Return the number of layers that share their weights, by their outputs."""
    from tensorflow.core.protobuf import (  # noqa: PLC0415  (slow to import)
        saved_model_pb2,
    )

    with reading(path):
        graph = saved_model_pb2.SavedModel.FromString(read_bytes(path, _MOST_BYTES))
        signatures = graph.meta_graphs[0].signature_def
        outputs = signatures["serving_default"].outputs.values()
        sequences = [each for each in outputs if len(each.tensor_shape.dim) == 3]
    # The output of each layer, and that of the last one as the model's.
    if len(sequences) < 2:
        msg = (
            f"{path} does not return the outputs of its layers, so that their number "
            "is unknown. Write an `albert_config.json` with `num_hidden_layers` and "
            "the other sizes beside it."
        )
        raise ValueError(msg)
    return len(sequences) - 1
