"""Links of code to the API reference, and of private names to the public ones."""

import importlib
import re
from typing import Any

from docutils import nodes
from sphinx import addnodes

from extensions.reference import members, places

# Where Keras and the others define what they export under another name.
_PUBLIC = {
    "keras.src.activations.activations": "keras.activations",
    "keras.src.callbacks.history.History": "keras.callbacks.History",
    "keras.src.initializers.initializer.Initializer": "keras.initializers.Initializer",
    "keras.src.layers.layer.Layer": "keras.layers.Layer",
    "keras.src.losses.loss.Loss": "keras.losses.Loss",
    "keras.src.metrics.metric.Metric": "keras.metrics.Metric",
    "keras.src.models.model.Model": "keras.Model",
    "keras.src.optimizers.optimizer.Optimizer": "keras.optimizers.Optimizer",
    "numpy.random._generator.Generator": "numpy.random.Generator",
}
# Where code is part of a link already, or stays plain.
_NOT_LINKED = (
    nodes.reference,
    nodes.title,
    addnodes.pending_xref,
    addnodes.download_reference,
)
# Types that no reference describes: aliases, and what is not public.
_PLAIN = re.compile(
    r"keras_albert\.(types|text|tasks|training|pretraining|serving|presets|utils|layers)\..*"
)


def _targets() -> dict[str, str]:
    """Return where names in backticks lead: classes, their methods, functions."""
    found: dict[str, str] = {}
    for alias, place in places().items():
        module_name, name = place.rsplit(".", 1)
        value = getattr(importlib.import_module(module_name), name)
        bare = alias.rsplit(".", 1)[1]
        # `verify` alone is a command, or a word.
        is_name = "_" in bare or bare != bare.lower()
        for path in (alias, bare) if is_name else (alias,):
            found.setdefault(path, place)
            if isinstance(value, type):
                for member in members(value):
                    found.setdefault(f"{path}.{member}", f"{place}.{member}")
    return found


class _Names:
    """The names that are linked, computed once."""

    found: dict[str, str] | None = None

    @classmethod
    def place(cls, code: str) -> str | None:
        if cls.found is None:
            cls.found = _targets()
        # A call, `classify(text)`, leads where the name does.
        return cls.found.get(re.sub(r"\(.*\)$", "", code, flags=re.DOTALL))


def _link_code(app: Any, doctree: nodes.document) -> None:
    """Let names in backticks lead to the reference."""
    if app.env.docname.startswith("changelog"):
        return
    for literal in list(doctree.findall(nodes.literal)):
        parent = literal.parent
        if isinstance(parent, _NOT_LINKED) or "xref" in literal["classes"]:
            continue
        place = _Names.place(literal.astext())
        is_here = app.env.docname == f"reference/generated/{place}"
        if place is None or is_here or _is_described_around(literal, place):
            continue
        link = addnodes.pending_xref(
            "",
            refdomain="py",
            reftype="obj",
            reftarget=place,
            refexplicit=True,
            refdoc=app.env.docname,
        )
        literal["classes"] += ["xref", "py", "py-obj"]
        parent.replace(literal, link)
        link += literal


def _is_described_around(node: Any, place: str) -> bool:
    """Return whether the description of a place contains the node."""
    while node is not None:
        if isinstance(node, addnodes.desc):
            signature = next(node.findall(addnodes.desc_signature), None)
            if signature is not None and place in signature["ids"]:
                return True
        node = node.parent
    return False


def _public_name(target: str) -> str:
    for private, public in _PUBLIC.items():
        if target == private or target.startswith(f"{private}."):
            return public + target.removeprefix(private)
    return target


def _resolve(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve what Sphinx did not find: private paths, and types that stay plain."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    if (public := _public_name(target)) != target:
        from sphinx.ext.intersphinx import missing_reference  # noqa: PLC0415

        node["reftarget"] = public
        return missing_reference(app, env, node, content)
    if (place := places().get(target)) is not None and place != target:
        domain = env.get_domain("py")
        return domain.resolve_xref(
            env, node["refdoc"], app.builder, "obj", place, node, content
        )
    if _PLAIN.fullmatch(target):
        return content
    return None


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-read", _link_code, priority=100)
    app.connect("missing-reference", _resolve, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
