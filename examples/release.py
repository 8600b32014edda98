"""Functions of the programs that make the presets of the package."""

import json
import shutil
from pathlib import Path

from keras_albert.cli.loading import loading
from keras_albert.cli.run_command import run_command

with loading("release.py"):
    import h5py
    import keras
    import numpy as np
    from safetensors.numpy import save_file

    from keras_albert import AlbertBackbone
    from keras_albert.presets.preset_files import preset_directory


def command(*arguments: object) -> None:
    """Run a keras-albert command in this process, and exit if it fails."""
    status = run_command([str(argument) for argument in arguments])
    if status:
        raise SystemExit(status)


def release(
    preset: Path,
    target: Path,
    story: str,
    base: Path | str | None = None,
    rank: int | None = None,
) -> None:
    """Copy a preset with float16 weights, and replace the last part of its card.

    The policy that it was trained with becomes float32's. With `base`, the
    released preset that it was trained from with LoRA of a rank, only the difference
    from it is stored, which is added to the preset of this name in the package.
    """
    with preset_directory(target) as directory:
        shutil.copytree(preset, directory, dirs_exist_ok=True)
        for path in directory.glob("*.h5"):
            path.unlink()
            with h5py.File(preset / path.name) as old, h5py.File(path, "w") as new:
                copy_half(old, new)
        for path in directory.glob("*.json"):
            text = path.read_text(encoding="utf-8")
            text = text.replace('"mixed_bfloat16"', '"float32"')
            path.write_text(text, encoding="utf-8")
        if base is not None and rank is not None:
            write_difference(preset, directory, base, rank)
        card = (preset / "README.md").read_text(encoding="utf-8")
        card, _, _ = card.partition("## What is not known")
        card = card.replace("path/to/this/directory", target.name)
        first, name, rest = card.partition("- name: albert-")
        if name:
            _, _, rest = rest.partition("\n")
            card = f"{first}- name: {target.name}\n{rest}"
        (directory / "README.md").write_text(card + story, encoding="utf-8")


def copy_half(old: "h5py.Group", new: "h5py.Group") -> None:
    """Copy a weights file, with float32 values converted to float16.

    Keras converts a weight to the dtype of its variable when it loads it.
    """
    new.attrs.update(old.attrs)
    for name, entry in old.items():
        if isinstance(entry, h5py.Group):
            copy_half(entry, new.create_group(name))
        else:
            values = entry[()]
            half = values.astype("float16") if entry.dtype == "float32" else values
            new.create_dataset(name, data=half).attrs.update(entry.attrs)


def write_difference(
    preset: Path, directory: Path, base: Path | str, rank: int
) -> None:
    """Replace the weights and the vocabulary by the difference from a base.

    Matrices that were trained with LoRA become two factors; all is in float16.
    """
    weights, before = (
        {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
        for model in (
            AlbertBackbone.from_preset(preset, dtype="float32"),
            AlbertBackbone.from_preset(base, dtype="float32"),
        )
    )
    arrays = {}
    for path, weight in weights.items():
        change = weight - before[path]
        if not change.any():
            continue
        if change.ndim == 2 and rank < min(change.shape) and "pooler" not in path:
            left, sizes, right = np.linalg.svd(change, full_matrices=False)
            roots = np.sqrt(sizes[:rank])
            arrays[f"{path}.lora_a"] = left[:, :rank] * roots
            arrays[f"{path}.lora_b"] = roots[:, None] * right[:rank]
        else:
            arrays[path] = change
    for path in [*directory.glob("model*.weights.*"), *directory.glob("assets/*/*")]:
        path.unlink()
    halves = {k: np.ascontiguousarray(x, "float16") for k, x in arrays.items()}
    save_file(halves, directory / "difference.safetensors")
    path = directory / "metadata.json"
    metadata = json.loads(path.read_text(encoding="utf-8")) | {
        "base_preset": Path(base).name
    }
    path.write_text(json.dumps(metadata, indent=4), encoding="utf-8")
