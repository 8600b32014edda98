"""The architecture of a checkpoint of transformers, by its config and its weights."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keras_albert.conversion.weight_files import stored_weights
from keras_albert.utils.reading import read_optional_json

CONFIG_FILE = "config.json"

READ = ("albert", "bert", "distilbert", "electra")

# Why a model is no setting of this package's encoder.
_UNLIKE = {
    "roberta": "its positions begin at 2, and its vocabulary is a byte-level BPE",
    "camembert": "its positions begin at 2, and its tokenizer has rules of its own",
    "xlm-roberta": "its positions begin at 2, and its tokenizer has rules of its own",
    "deberta": "its attention reads relative positions",
    "deberta-v2": "its attention reads relative positions",
    "mpnet": "its attention has a bias of relative positions",
    "modernbert": "it has rotary positions, gated feed-forward nets and no biases",
    "mobilebert": "its layers have bottlenecks",
    "nomic_bert": "it has rotary positions",
}


def find_model_type(directory: Path) -> str | None:
    """Return the `model_type` of a directory's model.

    A config without one, and a config of BERT with ALBERT's keys, do not say what the
    weights are; then their names do.
    """
    config = read_optional_json(directory / CONFIG_FILE)
    if "registered_name" in config:
        return None
    stated: Any = config.get("model_type")
    is_mixed = stated == "bert" and bool(
        {"embedding_size", "num_hidden_groups"} & set(config)
    )
    if is_mixed or (stated is None and {"hidden_size", "dim"} & set(config)):
        stated = _type_of(stored_weights(directory)) or stated
    return stated if isinstance(stated, str) else None


def _type_of(names: Iterable[str]) -> str | None:
    text = "\n".join(("", *names))
    if ".albert_layer_groups." in text:
        return "albert"
    if ".attention.q_lin." in text:
        return "distilbert"
    if "\nelectra." in text or "embeddings_project." in text:
        return "electra"
    is_bert = "\nbert.encoder.layer." in text or "\nencoder.layer." in text
    return "bert" if is_bert else None


def refuse_other_models(directory: Path) -> None:
    """Raise if a directory has a model of transformers that cannot be read."""
    model_type = find_model_type(directory)
    if model_type is None or model_type in READ:
        return
    reason = _UNLIKE.get(model_type, "it is of another architecture")
    msg = (
        f"{directory} contains a model of type {model_type!r}, which this package does "
        f"not read: {reason}. Choose a checkpoint of one of: {', '.join(READ)}."
    )
    raise ValueError(msg)
