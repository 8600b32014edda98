"""What a preset's weight files hold, before anything is loaded from them."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

import keras

WEIGHTS_FILE = "model.weights.h5"
INDEX_FILE = "model.weights.json"


def weights_path(directory: Path) -> Path:
    """Find the weights of a preset.

    Args:
        directory: Path. The preset.

    Returns:
        The path of the weights, or of the index of their shards: what
        `keras.Model.load_weights` takes.

    Raises:
        ValueError: If the preset has neither.
    """
    for name in (WEIGHTS_FILE, INDEX_FILE):
        if (directory / name).is_file():
            return directory / name
    msg = (
        f"{directory} holds neither `{WEIGHTS_FILE}` nor `{INDEX_FILE}`. Copy or "
        "download the preset again, or pass `load_weights=False` for random weights."
    )
    raise ValueError(msg)


def check_stored_weights(
    model: keras.Model | Sequence[keras.Variable], path: Path
) -> None:
    """See that a file holds the weights of a model, no more and no fewer.

    Keras passes over what only the file or only the model has, and a model whose
    config and weights contradict each other would come out half random. The file
    numbers its weights, so this compares how many there are of each shape.

    Args:
        model: `keras.Model`. A built model; or weights, for a part of one.
        path: Path. A `.weights.h5` file, or the `.weights.json` index of shards.

    Raises:
        ValueError: If they do not fit, or the index is damaged.
        OSError: If a file is missing or damaged.
    """
    weights = model if isinstance(model, Sequence) else model.weights
    files = [path]
    if path.suffix == ".json":
        files = [path.parent / name for name in shard_names(path)]
    stored = Counter(shape for file in files for shape in _stored_shapes(file))
    built = Counter(tuple(weight.shape) for weight in weights)
    if stored != built:
        msg = (
            f"{path} does not hold the weights of the model that its config describes. "
            f"Only in the file, by shape: {dict(stored - built)}. Only in the model: "
            f"{dict(built - stored)}. Nothing was loaded. Use files that belong "
            "together, and leave out arguments that change shapes."
        )
        raise ValueError(msg)


def shard_names(index: Path) -> set[str]:
    """Read the names of a preset's shards.

    Args:
        index: Path. A `model.weights.json`.

    Returns:
        Plain file names.

    Raises:
        ValueError: If the index is damaged, or a name leads out of the directory.
    """
    try:
        values = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        msg = (
            f"{index} is not the index of sharded weights ({error!r}). Copy or "
            "download it again."
        )
        raise ValueError(msg) from error
    lists = [value if isinstance(value, list) else [value] for value in values]
    return {check_shard_name(name, index) for names in lists for name in names}


def check_shard_name(name: object, index: Path) -> str:
    """See that the name of a shard cannot lead out of its directory.

    Args:
        name: The name, as an index file gives it.
        index: Path. The index file, for the message.

    Returns:
        The name.

    Raises:
        ValueError: If it is anything but the plain name of a file.
    """
    # Both flavours: an index may have been written for the other system.
    if isinstance(name, str) and name not in ("", ".", "..") and "\0" not in name:
        flavours = (PurePosixPath(name), PureWindowsPath(name))
        if all(path.parts == (name,) and not path.anchor for path in flavours):
            return name
    msg = (
        f"{index} names the file {name!r}, and shards must be plain file names beside "
        "the index. Do not use this checkpoint, or correct the index."
    )
    raise ValueError(msg)


def _stored_shapes(path: Path) -> list[tuple[int, ...]]:
    import h5py  # noqa: PLC0415  (comes with Keras; seldom needed at import)

    shapes: list[tuple[int, ...]] = []

    def note(name: str, entry: object) -> None:
        # The states of optimizers and of random generators are no weights.
        if name.startswith("optimizer/"):
            return
        if isinstance(entry, h5py.Dataset) and str(entry.dtype) != "uint32":
            shapes.append(tuple(entry.shape))

    with h5py.File(path) as file:
        file.visititems(note)
    return shapes
