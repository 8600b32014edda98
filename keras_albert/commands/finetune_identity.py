"""What makes a fine-tuning run this run and no other."""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

import keras

# Where files lie says nothing of what comes out.
_NOT_COMPARED = ("run", "command", "output", "train", "dev")


def finetune_identity(arguments: argparse.Namespace, task: Any) -> dict[str, Any]:
    """Describe a run, so that the same command is known again.

    Args:
        arguments: The command's.
        task: The model that it begins with.

    Returns:
        JSON values: the options, the contents of the files, what the model is but for
        its weights, and the backend, none of which computes to the bit what another
        one does.
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
    # Keras counts models as they are made.
    del config["name"]
    return json.dumps(config, sort_keys=True, default=str).encode()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
