"""How devices share the work, by name."""

from typing import Any

from keras_albert.pretraining.one_device import OneDevice


def choose_devices(distribution: str) -> Any:
    """Find the layout of a name.

    Args:
        distribution: string. `"none"`.

    Returns:
        An object with the members of `OneDevice`.

    Raises:
        ValueError: If there is no such layout.
    """
    if distribution != "none":
        msg = f"`distribution` is 'none'. Received: distribution={distribution!r}"
        raise ValueError(msg)
    return OneDevice()
