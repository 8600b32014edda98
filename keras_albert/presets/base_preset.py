"""Presets that contain only what differs from another one, their base."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_albert.presets.handles import BUILTIN_PRESETS, local_directory
from keras_albert.presets.preset_files import (
    BASE_FILE,
    DIFFERENCE_FILE,
    INDEX_FILE,
    WEIGHTS_FILE,
)
from keras_albert.types import FloatArray
from keras_albert.utils.keras_internals import all_layers
from keras_albert.utils.reading import read_json, reading

# The keys of `base.json`; the first is PEFT's, from `adapter_config.json`.
_NAME, _DIGEST = "base_model_name_or_path", "base_sha256"

# A matrix is stored as two factors, whose product is its difference.
_FACTORS = (".lora_a", ".lora_b")

# Matrices too large to store. The pooler's is not.
_LARGE = re.compile(r"(?!pooler/).*/(kernel|embeddings)$")


class Difference(NamedTuple):
    """What differs from a base: its description, and arrays to add to its weights."""

    base: dict[str, str]
    arrays: dict[str, FloatArray]


def has_base(directory: Path) -> bool:
    """Return whether a preset contains only what differs from another one."""
    return (directory / BASE_FILE).is_file()


def base_of(directory: Path) -> str:
    """Return the built-in name, the handle or the path of a preset's base."""
    path = directory / BASE_FILE
    name = read_json(path).get(_NAME)
    if not isinstance(name, str) or not name or "\0" in name:
        msg = (
            f"`{_NAME}` in {path} must be the name, the handle or the path of a "
            f"preset. Received: {name!r:.80}. Copy or download the file again."
        )
        raise ValueError(msg)
    return name if is_public(name) else str(directory / name)


def is_public(base: str) -> bool:
    """Return whether a base is found on any machine."""
    return base in BUILTIN_PRESETS or "://" in base


def base_directory(directory: Path) -> Path:
    """Return the directory of a preset's base, downloading it if necessary."""
    base = base_of(directory)
    if not is_public(base) and not Path(base).is_dir():
        msg = (
            f"{directory / BASE_FILE} names {base}, which does not exist. Copy the "
            f"base there, or correct `{_NAME}`: a path is relative to {directory}."
        )
        raise ValueError(msg)
    with _naming(directory):
        return _directory_of(base)


def difference_from(
    model: Any, base: str | os.PathLike[str], target: str | os.PathLike[str]
) -> Difference:
    """Return what differs between a model's backbone and a preset, its base."""
    if not isinstance(model, keras.Model):
        msg = f"Only a model has a base, and not an {type(model).__name__}."
        raise ValueError(msg)
    backbone: Any = getattr(model, "backbone", model)
    for layer in all_layers(backbone):
        if layer.quantization_mode:
            msg = (
                f"The layer {layer.path!r} is quantized to {layer.quantization_mode}, "
                "and has no difference from the base. Save without `base`."
            )
            raise ValueError(msg)
    directory = _directory_of(os.fspath(base))
    name = os.fspath(base)
    if not is_public(name):
        here, there = Path(target).resolve(), directory.resolve()
        if here == there:
            msg = f"{target} is the base itself. Save into another directory."
            raise ValueError(msg)
        name = Path(os.path.relpath(there, here)).as_posix()
    values = _read_weights(directory)
    arrays = _arrays(backbone, values, str(base))
    return Difference({_NAME: name, _DIGEST: _digest(values)}, arrays)


def write_difference(difference: Difference, directory: Path) -> None:
    """Write a difference in place of the weights in the directory of a preset."""
    from safetensors.numpy import save_file  # noqa: PLC0415  (rarely needed)

    for name in (WEIGHTS_FILE, INDEX_FILE, "model_*.weights.h5"):
        for path in directory.glob(name):
            path.unlink()
    text = json.dumps(difference.base, indent=4)
    (directory / BASE_FILE).write_text(text, encoding="utf-8")
    save_file(difference.arrays, directory / DIFFERENCE_FILE)


def load_from_base(backbone: Any, directory: Path) -> None:
    """Load the weights of a preset with a base, all of them or none."""
    base = base_directory(directory)
    with _naming(directory):
        values = _read_weights(base)
    weights = {weight.path: weight for weight in backbone.weights}
    shapes = {path: tuple(weight.shape) for path, weight in weights.items()}
    _check_shapes(shapes, values, f"the config of {directory}", str(base))
    found, expected = _digest(values), read_json(directory / BASE_FILE).get(_DIGEST)
    if found != expected:
        msg = (
            f"{base} is not the base that {directory} was trained from: the SHA-256 "
            f"of its weights is {found}, and {BASE_FILE} has {expected!r:.80}. Use "
            "the version of the base that it names."
        )
        raise ValueError(msg)
    changes = _read_changes(directory / DIFFERENCE_FILE, shapes)
    for path, weight in weights.items():
        weight.assign(values[path] + changes.get(path, np.float32(0)))
    backbone.pretrained = True


@contextmanager
def _naming(directory: Path) -> Iterator[None]:
    """Name the file that names a base in errors of the base."""
    try:
        yield
    except (OSError, ValueError) as error:
        msg = f"{directory / BASE_FILE} names a base that cannot be loaded. {error}"
        raise ValueError(msg) from error


def _directory_of(base: str) -> Path:
    directory = local_directory(base)
    if directory is None:
        msg = (
            f"{base!r} cannot be a base. Choose a built-in name, a directory, or a "
            "handle that begins with hf:// or kaggle://."
        )
        raise ValueError(msg)
    if has_base(directory):
        msg = (
            f"{base} has a base itself, and a base must be whole. Load it, save it "
            "without `base`, and use the result."
        )
        raise ValueError(msg)
    return directory


def _read_weights(directory: Path) -> dict[str, FloatArray]:
    """Return the weights of a backbone in any format, by their paths in the model."""
    cls: Any = keras.saving.get_registered_object("keras_albert>AlbertBackbone")
    backbone = cls.from_preset(directory, dtype="float32")
    return {weight.path: ops.convert_to_numpy(weight) for weight in backbone.weights}


def _digest(values: Mapping[str, FloatArray]) -> str:
    """Return the SHA-256 of weights, which the format of their file does not change."""
    digest = hashlib.sha256()
    for path, value in sorted(values.items()):
        digest.update(f"{path} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value, "<f4").tobytes())
    return digest.hexdigest()


def _check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, FloatArray],
    source: str,
    base: str,
) -> None:
    known = {path: value.shape for path, value in values.items()}
    for path in sorted({*shapes, *known}):
        if shapes.get(path) != known.get(path):
            msg = (
                f"{source} and its base {base} do not have the same weights: {path} "
                f"has the shape {shapes.get(path)} in the first, {known.get(path)} in "
                "the second. Use the base that the model was trained from, or save "
                "without `base`."
            )
            raise ValueError(msg)


def _arrays(
    backbone: Any, values: Mapping[str, FloatArray], base: str
) -> dict[str, FloatArray]:
    """Return what to add to the weights of a base, and factors of it."""
    arrays: dict[str, FloatArray] = {}
    frozen = {w.path: w for w in backbone.weights if not w.name.startswith("lora_")}
    shapes = {path: tuple(weight.shape) for path, weight in frozen.items()}
    _check_shapes(shapes, values, "The model", base)
    for path, weight in frozen.items():
        # A model in 16 bits began with the rounded weights.
        start = ops.convert_to_numpy(ops.cast(values[path], weight.dtype))
        change = ops.convert_to_numpy(weight) - start
        if not np.any(change != 0):
            continue
        if _LARGE.match(path):
            msg = (
                f"{path} differs from {base}, and is too large for a difference. Call "
                "`backbone.enable_lora(rank)` before training, on a model loaded from "
                "the base, or save without `base`."
            )
            raise ValueError(msg)
        arrays[path] = _small(change)
    for layer in all_layers(backbone):
        if getattr(layer, "lora_enabled", False):
            own = {w.name: w for w in layer.weights}
            scale = layer.lora_alpha / layer.lora_rank
            for name, weight in own.items():
                a, b = (own.get(f"lora_{name}_{end}") for end in "ab")
                if a is not None:
                    factors = ops.convert_to_numpy(a), ops.convert_to_numpy(b) * scale
                    for end, factor in zip(_FACTORS, factors, strict=True):
                        arrays[f"{weight.path}{end}"] = _small(factor)
    return arrays


def _small(value: FloatArray) -> FloatArray:
    """Return an array in float16, or in float32 if it is too large for that."""
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(value, "float16")
    return rounded if np.isfinite(rounded).all() else value.astype("float32")


def _read_changes(
    path: Path, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, FloatArray]:
    """Return what to add to the weights of a base, by their paths."""
    from safetensors.numpy import load_file  # noqa: PLC0415  (rarely needed)

    with reading(path):
        stored = load_file(path)
    changes = {}
    for name in sorted({re.sub(r"\.lora_[ab]$", "", each) for each in stored}):
        found = [each for each in ("", *_FACTORS) if f"{name}{each}" in stored]
        parts = [stored[f"{name}{each}"] for each in found]
        if any(part.dtype.kind != "f" or not np.isfinite(part).all() for part in parts):
            msg = (
                f"{path} has numbers for {name!r} that are NaN, infinite or no floats. "
                "Copy or download it again."
            )
            raise ValueError(msg)
        parts = [part.astype("float32") for part in parts]
        change = parts[0] if found == [""] else None
        if found == [*_FACTORS] and [part.ndim for part in parts] == [2, 2]:
            a, b = parts
            if a.shape[1] == b.shape[0] and (len(a), b.shape[1]) == shapes.get(name):
                change = a @ b
        if change is None or change.shape != shapes.get(name):
            sizes = ", ".join(str(part.shape) for part in parts)
            msg = (
                f"{path} has arrays of the shapes {sizes} for {name!r}, and the model "
                f"has {shapes.get(name, 'no such weight')}. Nothing was loaded. Copy "
                "or download the preset again."
            )
            raise ValueError(msg)
        changes[name] = change
    return changes
