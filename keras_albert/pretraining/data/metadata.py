"""The metadata of a directory of prepared examples."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from keras_albert.utils.reading import parse_json, reading

METADATA_FILE = "metadata.json"
VOCABULARY_FILE = "vocabulary.spm"
FORMAT_VERSION = 1

Split: TypeAlias = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = get_args(Split)


def shard_name(split: Split, fingerprint: str) -> str:
    """Return the file name of a shard."""
    return f"{split}-{fingerprint}.arrow"


@dataclass(frozen=True)
class PreparedMetadata:
    """The metadata of prepared examples."""

    sequence_length: int
    vocabulary_size: int
    shards: dict[str, list[str]]
    settings: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    broken_files: list[str] = field(default_factory=list)
    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the metadata as JSON."""
        return json.dumps({"format_version": FORMAT_VERSION} | asdict(self), indent=2)

    @classmethod
    def read(cls, directory: Path) -> "PreparedMetadata":
        """Read the metadata of a directory."""
        path = directory / METADATA_FILE
        if not path.is_file():
            msg = (
                f"{directory} contains no {METADATA_FILE}: the preparation of texts "
                "was not started or not completed. Run `keras-albert prepare`."
            )
            raise ValueError(msg)
        with reading(path, "Prepare the texts again."):
            stored = parse_json(path.read_bytes())
            version = stored.pop("format_version")
        if version != FORMAT_VERSION:
            msg = (
                f"{path} has format {version}, but this version of keras_albert reads "
                f"{FORMAT_VERSION}. Update keras_albert, or prepare the texts again."
            )
            raise ValueError(msg)
        return cls(**stored)
