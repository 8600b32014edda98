"""Docstrings are Markdown, as Keras'; Sphinx reads reStructuredText."""

import re
from typing import Any, get_args, get_origin

import keras
import numpy as np
import numpy.typing as npt

# A union of a dozen types.
_ARRAY_LIKE = get_args(npt.ArrayLike)

_LINK = re.compile(r"\[([^\]\[`]+)\]\((\S+?)\)", re.DOTALL)
# One backtick, not two, around anything on one or two lines.
_CODE = re.compile(r"(?<![`\\])`([^`]+)`(?!`)", re.DOTALL)
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
# "Args", "Returns" and so on are napoleon's; only "Source" has two forms.
_SECTION = re.compile(r"^(Sources?):[ ]", re.MULTILINE)


def to_restructured_text(text: str) -> str:
    """Turn the Markdown of a docstring into reStructuredText.

    Args:
        text: string. Links, code in backticks and fenced blocks are changed; lines that
            begin with `>>>` and their output stay.
    """
    text = _FENCE.sub(_code_block, text)
    # Examples are taken out first: they contain backticks of their own.
    parts = re.split(r"((?:^ *>>> .*\n(?:^(?! *$).*\n?)*)+)", text, flags=re.MULTILINE)
    for index in range(0, len(parts), 2):
        part = _CODE.sub(_literal, parts[index])
        part = _LINK.sub(_link, part)
        parts[index] = _SECTION.sub(r"**\1:** ", part)
    return "".join(parts)


def returns_as_fields(text: str) -> str:
    """Turn "Returns:" sections into fields.

    napoleon would take what precedes a colon for a type; the types are in signatures.

    Args:
        text: string. A docstring whose section begins at the left.
    """
    lines: list[str] = []
    is_inside = False
    for line in text.split("\n"):
        if line.rstrip() == "Returns:":
            lines.append("")
            is_inside, begins = True, True
        elif is_inside and line.startswith("    "):
            lines.append(f":returns: {line.strip()}" if begins else line)
            begins = False
        else:
            is_inside = is_inside and not line.strip()
            lines.append(line)
    return "\n".join(lines)


def _literal(match: re.Match[str]) -> str:
    code = re.sub(r"\s+", " ", match[1])
    return f"``{code}``"


def _link(match: re.Match[str]) -> str:
    text = re.sub(r"\s+", " ", match[1])
    return f"`{text} <{match[2]}>`__"


def _code_block(match: re.Match[str]) -> str:
    indent, language, code = match.groups()
    lines = [f"   {line}" if line.strip() else "" for line in code.splitlines()]
    return "\n".join([f"{indent}.. code-block:: {language or 'text'}", "", *lines, ""])


def _on_docstring(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    text = to_restructured_text("\n".join(lines) + "\n")
    lines[:] = returns_as_fields(text).splitlines()


def shorten_type(annotation: Any, config: Any = None) -> str | None:
    """Shorten types that are pages long: arrays, and types that say nothing."""
    if annotation is Any:
        return "Any"
    if annotation is ...:
        return "..."
    if annotation is keras.KerasTensor:
        return "KerasTensor"
    # Arguments of a callable are a list, which has no hash.
    parts = get_args(annotation)
    if _ARRAY_LIKE and all(part in parts for part in _ARRAY_LIKE):
        return "array-like"
    if get_origin(annotation) is np.ndarray:
        return ":py:class:`~numpy.ndarray`"
    return None


def _set_formatter(app: Any) -> None:
    # Among the settings from the start, it would look changed in each build, since a
    # function is not saved with them: all pages would be read again.
    app.config.typehints_formatter = shorten_type


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", _on_docstring, priority=100)
    app.connect("builder-inited", _set_formatter)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
