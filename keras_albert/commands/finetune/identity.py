"""Settings that identify a fine-tuning run."""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import keras

# The locations of files do not affect the result.
_NOT_COMPARED = ("output", "train", "dev")


def finetune_identity(arguments: argparse.Namespace, task: Any) -> dict[str, Any]:
    """Describe a run, so that a repeated command can be recognized.

    Args:
        arguments: The arguments of the command.
        task: The model before training.

    Returns:
        JSON values: the options, digests of the files, the vocabulary and the
        configuration of the model without its weights, and the backend, as results
        are not bit-exact across backends.
    """
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name not in _NOT_COMPARED
    }
    return options | {
        "training file": _file_digest(arguments.train),
        "dev file": _file_digest(arguments.dev),
        "vocabulary": _digest(task.preprocessor.tokenizer.proto),
        "backbone": _digest(_config(task.backbone)),
        "backend": keras.config.backend(),
    }


def _config(backbone: Any) -> bytes:
    config = backbone.get_config()
    # Keras numbers models in the order of their creation.
    del config["name"]
    return json.dumps(config, sort_keys=True, default=str).encode()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
