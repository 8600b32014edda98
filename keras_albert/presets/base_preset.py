"""Presets that contain only what differs from another one, their base."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_albert.presets.checkpoint import (
    BASE_FILE,
    DIFFERENCE_FILE,
    INDEX_FILE,
    WEIGHTS_FILE,
    Checkpoint,
    Files,
    open_checkpoint,
)
from keras_albert.presets.handles import BUILTIN_PRESETS, local_directory
from keras_albert.types import FloatArray
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.keras_internals import all_layers
from keras_albert.utils.reading import reading, write_json
from keras_albert.utils.remote import address_of, is_remote

# The keys of `base.json`; the first is PEFT's, from `adapter_config.json`.
_NAME, _DIGEST = "base_model_name_or_path", "base_sha256"
# Of a vocabulary that is the base's, and is not copied.
_VOCABULARY = "vocabulary_sha256"

# A matrix is stored as two factors, whose product is its difference.
_FACTORS = (".lora_a", ".lora_b")

# Matrices too large to store. The pooler's is not.
_LARGE = re.compile(r"(?!pooler/).*/(kernel|embeddings)$")


class Difference(NamedTuple):
    """What differs from a base: its description, and arrays to add to its weights."""

    base: dict[str, str]
    arrays: dict[str, FloatArray]


def base_of(files: Files) -> str | None:
    """Return the built-in name, the handle or the path of a preset's base, if any."""
    if not files.has(BASE_FILE):
        return None
    name = files.json(BASE_FILE).get(_NAME)
    if not isinstance(name, str) or not name or "\0" in name:
        raise ValueError(
            f"`{_NAME}` in {files.directory / BASE_FILE} must be the name, the handle "
            f"or the path of a preset. Received: {name!r:.80}. Copy or download the "
            "file again."
        )
    return name if is_public(name) else str(files.directory / name)


def is_public(base: str) -> bool:
    """Return whether a base is found on any machine."""
    return base in BUILTIN_PRESETS or "://" in base


def open_base(files: Files) -> Checkpoint | None:
    """Open the base of a preset, if it has one, downloading it if necessary."""
    base, path = base_of(files), files.directory / BASE_FILE
    if base is None:
        return None
    if not is_public(base) and not Path(base).is_dir():
        raise ValueError(
            f"{path} names {base}, which does not exist. Copy the base there, or "
            f"correct `{_NAME}`: a path is relative to {files.directory}."
        )
    with _naming(files):
        return open_whole(base)


def difference_from(
    model: Any, base: str | os.PathLike[str], target: str | os.PathLike[str]
) -> Difference:
    """Return what differs between a model's backbone and a preset, its base."""
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"Only models can be saved with a base. Received: {type(model).__name__}. "
            "Leave out `base`."
        )
    backbone: Any = getattr(model, "backbone", model)
    for layer in all_layers(backbone):
        if layer.quantization_mode:
            raise ValueError(
                f"The layer {layer.path!r} is quantized to {layer.quantization_mode}, "
                "and has no difference from the base. Save without `base`."
            )
    name = os.fspath(base)
    if is_remote(target) and not is_public(name):
        raise ValueError(
            f"The base {name} is a directory on this machine and has no path from "
            f"{address_of(target)}. Pass a built-in name or a handle as `base`."
        )
    opened = open_whole(name)
    if not is_public(name):
        here, there = Path(target).resolve(), opened.directory.resolve()
        if here == there:
            msg = f"{target} is the base itself. Save into another directory."
            raise ValueError(msg)
        name = Path(os.path.relpath(there, here)).as_posix()
    opened.check(preprocessor=None)
    stored = opened.backbone_values(backbone)
    values = _values(stored, backbone, "The model", str(base))
    about = {_NAME: name, _DIGEST: _digest(values)}
    tokenizer: Any = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if tokenizer is not None:
        with suppress(OSError, ValueError):  # The base may have none.
            found = opened.load_tokenizer(type(tokenizer)).proto
            if found == tokenizer.proto:
                about[_VOCABULARY] = hashlib.sha256(found).hexdigest()
    return Difference(about, _arrays(backbone, values, str(base)))


def write_difference(difference: Difference, directory: Path) -> None:
    """Write a difference in place of the weights in the directory of a preset."""
    from safetensors.numpy import save_file  # noqa: PLC0415  (rarely needed)

    for name in (WEIGHTS_FILE, INDEX_FILE, "model_*.weights.h5"):
        for path in directory.glob(name):
            path.unlink()
    if _VOCABULARY in difference.base:
        for path in directory.glob("assets/tokenizer/*"):
            path.unlink()
    write_json(directory / BASE_FILE, difference.base)
    # `save_file` restricts access to this user.
    with atomic_file(directory / DIFFERENCE_FILE) as partial:
        save_file(difference.arrays, partial)


def add_difference(backbone: Any, files: Files, base: Checkpoint) -> None:
    """Load the weights of a preset with a base, all of them or none."""
    directory = files.directory
    with _naming(files):
        stored = base.backbone_values(backbone)
    values = _values(stored, backbone, f"the config of {directory}", str(base))
    _check_digest(files, _DIGEST, _digest(values), "its weights", str(base))
    changes = _read_changes(directory / DIFFERENCE_FILE, values)
    for weight in backbone.weights:
        change = changes.get(weight.path, np.float32(0))
        weight.assign(values[weight.path] + change)
    backbone.pretrained = True


@contextmanager
def _naming(files: Files) -> Iterator[None]:
    """Name the file that names a base in errors of the base."""
    try:
        yield
    except (OSError, ValueError) as error:
        path = files.directory / BASE_FILE
        msg = f"{path} names a base that cannot be loaded. {error}"
        raise ValueError(msg) from error


def vocabulary_digest(files: Files) -> Any:
    """Return the SHA-256 of the base's vocabulary, if a preset has no other one."""
    return files.json(BASE_FILE).get(_VOCABULARY)


def read_base_vocabulary(files: Files, base: Checkpoint, tokenizer: Any) -> bytes:
    """Return the vocabulary of a preset's base, as the tokenizer takes it."""
    with _naming(files):
        found: bytes = base.load_tokenizer(tokenizer).proto
    digest = hashlib.sha256(found).hexdigest()
    _check_digest(files, _VOCABULARY, digest, "its vocabulary", str(base))
    return found


def _check_digest(files: Files, key: str, found: str, of: str, base: str) -> None:
    expected = files.json(BASE_FILE).get(key)
    if found != expected:
        raise ValueError(
            f"{base} is not the base that {files.directory} was trained from: the "
            f"SHA-256 of {of} is {found}, and {BASE_FILE} has {expected!r:.80}. Use "
            "the version of the base that it names."
        )


def open_whole(base: str) -> Checkpoint:
    """Open what a preset can differ from: a name or a handle, without a base itself."""
    # A preset, which others may have written, makes nobody read a private store.
    directory = None if is_remote(base) else local_directory(base)
    if directory is None:
        raise ValueError(
            f"{base!r} cannot be a base. Choose a built-in name, a directory, or a "
            "handle that begins with hf:// or kaggle://."
        )
    found = open_checkpoint(directory)
    if found.files.has(BASE_FILE):
        raise ValueError(
            f"{base} has a base itself, and a base must be whole. Load it, save it "
            "without `base`, and use the result."
        )
    return found


def _values(
    stored: Mapping[str, FloatArray], backbone: Any, source: str, base: str
) -> dict[str, FloatArray]:
    """Return the weights of a base, which must have the backbone's."""
    # The base may lack a pooler, which the difference contains as a whole then.
    own = [w for w in backbone.weights if not w.name.startswith("lora_")]
    shapes = {weight.path: tuple(weight.shape) for weight in own}
    poolers = [path for path in shapes if path.startswith("pooler/")]
    values = {path: np.zeros(shapes[path], "float32") for path in poolers}
    values |= {path: np.asarray(x, "float32") for path, x in stored.items()}
    for path in sorted({*shapes, *values}):
        found = values[path].shape if path in values else None
        if shapes.get(path) != found:
            raise ValueError(
                f"{source} and its base {base} do not have the same weights: {path} "
                f"has the shape {shapes.get(path)} in the first, {found} in the "
                "second. Use the base that the model was trained from, or save "
                "without `base`."
            )
    return values


def _digest(values: Mapping[str, FloatArray]) -> str:
    """Return the SHA-256 of weights, which the format of their file does not change."""
    digest = hashlib.sha256()
    for path, value in sorted(values.items()):
        digest.update(f"{path} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value, "<f4").tobytes())
    return digest.hexdigest()


def _arrays(
    backbone: Any, values: Mapping[str, FloatArray], base: str
) -> dict[str, FloatArray]:
    """Return what to add to the weights of a base, and factors of it."""
    arrays: dict[str, FloatArray] = {}
    for weight in backbone.weights:
        path = weight.path
        if path not in values:  # A factor of LoRA.
            continue
        # A model in 16 bits began with the rounded weights.
        start = ops.convert_to_numpy(ops.cast(values[path], weight.dtype))
        change = ops.convert_to_numpy(weight) - start
        if not np.any(change != 0):
            continue
        if _LARGE.match(path):
            raise ValueError(
                f"{path} differs from {base} and is too large to be stored as a "
                "difference. Call `backbone.enable_lora(rank)` before training, on a "
                "model loaded from the base, or save without `base`."
            )
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
    path: Path, values: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Return what to add to the weights of a base, by their paths."""
    from safetensors.numpy import load_file  # noqa: PLC0415  (rarely needed)

    shapes = {name: value.shape for name, value in values.items()}
    with reading(path):
        stored = load_file(path)
    changes = {}
    for name in sorted({re.sub(r"\.lora_[ab]$", "", each) for each in stored}):
        found = [each for each in ("", *_FACTORS) if f"{name}{each}" in stored]
        parts = [stored[f"{name}{each}"] for each in found]
        if any(part.dtype.kind != "f" or not np.isfinite(part).all() for part in parts):
            raise ValueError(
                f"{path} has numbers for {name!r} that are NaN, infinite or no floats. "
                "Copy or download it again."
            )
        parts = [part.astype("float32") for part in parts]
        change = parts[0] if found == [""] else None
        if found == [*_FACTORS] and [part.ndim for part in parts] == [2, 2]:
            a, b = parts
            if a.shape[1] == b.shape[0] and (len(a), b.shape[1]) == shapes.get(name):
                change = a @ b
        if change is None or change.shape != shapes.get(name):
            sizes = ", ".join(str(part.shape) for part in parts)
            raise ValueError(
                f"{path} has arrays of the shapes {sizes} for {name!r}, and the model "
                f"has {shapes.get(name, 'no such weight')}. Nothing was loaded. Copy "
                "or download the preset again."
            )
        changes[name] = change
    return changes
