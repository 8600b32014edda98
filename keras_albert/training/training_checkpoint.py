"""Checkpoints of a run, written atomically."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from keras_albert.utils.atomic_file import atomic_file
from keras_albert.utils.reading import reading

Arrays = list[npt.NDArray[Any]]

# Incremented when the meaning of the files changes.
_VERSION = 2


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The state that a run needs to resume as if it had never stopped.

    The step determines the next data, and dropout's random state is among the model's
    variables. The best weights and the rows of the curve are in the same file, so that
    they always belong together. `groups` are "model", "optimizer", "metrics" within a
    row of the curve, and "best" once a row was evaluated.
    """

    step: int
    groups: Mapping[str, Arrays]
    notes: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the checkpoint under a temporary name, and move it into place."""
        from safetensors.numpy import save_file  # noqa: PLC0415  (seldom needed)

        tensors = {
            f"{group}/{number:05d}": np.array(array, order="C")
            for group, arrays in self.groups.items()
            for number, array in enumerate(arrays)
        }
        head = {"version": _VERSION, "step": self.step, "notes": self.notes}
        with atomic_file(path) as partial:
            save_file(tensors, partial, metadata={"checkpoint": json.dumps(head)})
            with partial.open("rb+") as file:
                # Safe against a crash of the machine, not only of the process.
                os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a checkpoint."""
        from safetensors import safe_open  # noqa: PLC0415  (seldom needed)

        remedy = "Remove it to restart the run, or choose another output."
        groups: dict[str, Arrays] = {}
        with reading(path, remedy), safe_open(path, "numpy") as file:
            head = json.loads(file.metadata()["checkpoint"])
            version = head["version"]
            if version == _VERSION:
                for name in sorted(file.keys()):
                    group = groups.setdefault(name.split("/")[0], [])
                    group.append(file.get_tensor(name))
                return cls(int(head["step"]), groups, dict(head["notes"]))
        msg = (
            f"{path} is a checkpoint of version {version}, but this keras_albert reads "
            f"version {_VERSION}. Resume with the version that wrote it, or choose "
            "another output."
        )
        raise ValueError(msg)
