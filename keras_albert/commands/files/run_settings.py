"""The settings that identify a run, so that the same command resumes it."""

import json
from pathlib import Path
from typing import Any

from keras_albert.utils.atomic_file import atomic_file

Settings = dict[str, Any]


def open_settings(file: Path, settings: Settings) -> bool:
    """Begin a run, or find the interrupted one.

    Args:
        file: Path. The file of the settings, which exists during the run.
        settings: dict. JSON values.

    Returns:
        Whether there is an interrupted run.

    Raises:
        ValueError: If the interrupted run has other settings.
    """
    if not file.is_file():
        with atomic_file(file) as partial:
            partial.write_text(json.dumps(settings, indent=2), encoding="utf-8")
        return False
    before = json.loads(file.read_text(encoding="utf-8"))
    changed = [name for name in settings if settings[name] != before.get(name)]
    if changed:
        was = ", ".join(f"{name} was {before.get(name)!r}" for name in changed)
        msg = (
            f"{file} is of a run with other settings: {was}. Repeat them to go on with "
            "it, remove it, or choose another output."
        )
        raise ValueError(msg)
    return True
