"""Reading a preset that contains only the difference from one in this package.

`metadata.json` names the base, and `difference.safetensors` has what is added to its
weights: arrays, and two factors for each matrix that was trained with LoRA. The
fine-tuned presets of this package are stored so, by `examples/release.py`.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_albert.presets.checkpoint import Files
from keras_albert.presets.handles import BUILTIN_PRESETS
from keras_albert.presets.preset_files import METADATA_FILE
from keras_albert.presets.weight_files import open_weights
from keras_albert.utils.reading import reading

BASE_KEY = "base_preset"
FACTORS = (".lora_a", ".lora_b")


def base_of(files: Files) -> Path | None:
    """Return the directory of a preset's base, if it has one."""
    name: Any = files.json(METADATA_FILE).get(BASE_KEY)
    if name is None:
        return None
    packaged = [each.name for each in BUILTIN_PRESETS.values() if each.handle is None]
    if name not in packaged:
        raise ValueError(
            f"`{BASE_KEY}` in {files.directory / METADATA_FILE} must be one of "
            f"{', '.join(packaged)}. Received: {name!r:.80}. Copy the preset again."
        )
    return Path(__file__).with_name(name)


def read_difference(path: Path, backbone: Any) -> dict[str, Any]:
    """Return what to add to the weights of a base, by their paths."""
    shapes = {weight.path: tuple(weight.shape) for weight in backbone.weights}
    changes = {}
    with reading(path):
        tensors = open_weights(path)
        stored = {name: x.read().astype("float32") for name, x in tensors.items()}
        for name in {re.sub(r"\.lora_[ab]$", "", each) for each in stored}:
            if name in stored:
                change = stored[name]
            else:
                first, second = (stored[f"{name}{end}"] for end in FACTORS)
                change = first @ second
            if change.shape != shapes.get(name) or not np.isfinite(change).all():
                raise ValueError(
                    f"its {name!r} has the shape {change.shape} instead of "
                    f"{shapes.get(name)}, or is not finite"
                )
            changes[name] = change
    return changes


def add_difference(backbone: Any, changes: dict[str, Any]) -> None:
    """Add to the weights of a base that a backbone has loaded."""
    for weight in backbone.weights:
        if weight.path in changes:
            weight.assign(ops.convert_to_numpy(weight) + changes[weight.path])
