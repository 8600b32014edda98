"""Checks that settings have the types that their class declares."""

from collections.abc import Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


def check_types(settings: Any) -> None:
    """Check the types of settings.

    An int is accepted for a float, and converted.

    Args:
        settings: An instance of a dataclass; its fields are numbers, strings, bools,
            `None` or mappings.

    Raises:
        TypeError: If a setting has another type than declared.
    """
    declared = get_type_hints(type(settings))
    for each in fields(settings):
        allowed = allowed_types(declared[each.name])
        value = getattr(settings, each.name)
        if type(value) is int and float in allowed and int not in allowed:
            object.__setattr__(settings, each.name, float(value))
        elif not (type(value) in allowed or _is_mapping(value, allowed)):
            names = " or ".join(kind.__name__ for kind in allowed)
            msg = (
                f"`{each.name}` is {names}. Received: {each.name}={value!r}, "
                f"{type(value).__name__}"
            )
            raise TypeError(msg.replace("NoneType", "None"))


def allowed_types(declared: Any) -> tuple[type, ...]:
    """Return the classes that an annotation allows.

    Args:
        declared: A class, `Mapping[...]`, or a union of such.

    Returns:
        The classes.
    """
    parts = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    return tuple(get_origin(part) or part for part in parts)


def _is_mapping(value: Any, allowed: tuple[type, ...]) -> bool:
    # Other types must match exactly, as True is an instance of int.
    return Mapping in allowed and isinstance(value, Mapping)
