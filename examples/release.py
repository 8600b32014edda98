"""What the programs that make the presets of the package share."""

import json
import shutil
from pathlib import Path

from keras_albert.cli.loading import loading
from keras_albert.cli.run_command import run_command

with loading("release.py"):
    import h5py

    from keras_albert.presets.checkpoint import preset_directory


def command(*arguments: object) -> None:
    """Run a keras-albert command in this process, and exit if it fails."""
    status = run_command([str(argument) for argument in arguments])
    if status:
        raise SystemExit(status)


def release(preset: Path, target: Path, story: str, base: str | None = None) -> None:
    """Copy a preset with float16 weights, and replace the last part of its card.

    The policy that it was trained with becomes float32's. `base` is the released name
    of the preset that it differs from.
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
        if base is not None:
            known = json.loads((directory / "base.json").read_text(encoding="utf-8"))
            known["base_model_name_or_path"] = base
            text = json.dumps(known, indent=4)
            (directory / "base.json").write_text(text, encoding="utf-8")
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
