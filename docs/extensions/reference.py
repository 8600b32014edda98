"""The pages of the API reference, written from the `__all__` of each public module."""

import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import keras

from extensions.docstrings import to_restructured_text

# Each module with the title of its page and what it is for.
MODULES = {
    "keras_albert": ("keras_albert", "Models, preprocessors and the tokenizer."),
    "keras_albert.backbone": ("Backbone", "The encoder, and the published sizes."),
    "keras_albert.tasks": ("Tasks", "Models with a head, and measures of them."),
    "keras_albert.tasks.recipes": (
        "Recipes",
        "The settings of the published fine-tuning runs.",
    ),
    "keras_albert.preprocessors": (
        "Preprocessors",
        "The tokenizer, and a preprocessor for each task.",
    ),
    "keras_albert.text": ("Text", "Vocabularies, text rules and files, without Keras."),
    "keras_albert.layers": ("Layers", "The layers of ALBERT, for models of your own."),
    "keras_albert.pretraining": (
        "Pretraining",
        "From text files to a pretrained model.",
    ),
    "keras_albert.exports": ("Serving", "Exports, and the check of an export."),
    "keras_albert.checkpoints": ("Conversion", "Checkpoints of other libraries."),
    "keras_albert.compression": ("Compression", "Smaller models from trained ones."),
    "keras_albert.tools": (
        "Tools",
        "Readers of files, checks of labels, and evaluation.",
    ),
    "keras_albert.sklearn": ("scikit-learn", "A classifier as an estimator."),
    "keras_albert.presets": ("Presets", "The names that `from_preset` knows."),
}
# What is neither a class nor a function, and so has no docstring.
_DATA = {
    "BUILTIN_PRESETS": "The built-in models by name, with their handles and sizes.",
    "GOOGLE": "The format of google-research/albert.",
    "KERAS_HUB": "The format of KerasHub.",
    "RECIPE_NAMES": "The names of the recipes.",
    "TRANSFORMERS": "The format of transformers.",
}
# What Keras calls, and what tasks are made of: not for those who use a task.
_INTERNAL = """
    build compute_output_shape compute_output_spec get_config from_config
    save_own_variables load_own_variables save_assets load_assets make_train_function
    make_test_function make_predict_function train_step test_step predict_step
    get_compile_config compile_from_config compute_loss compute_metrics
    get_metrics_result update_step default_loss default_metrics
    default_weighted_metrics match_metrics encode_targets encode_class_weight
    encode_id_targets encode_token_targets read_ids check_id_targets learn_from_targets
    set_class_names require_preprocessor read_weights save_task_weights
    load_task_weights preprocess_samples token_scores columns text_columns
    choice_columns word_columns segment_pairs question_contexts tokenize_columns
    encode_for padded_length call_in_graph mask_slots set_proto group_of
    check_depth run_number layer_weights group_blocks check_length
    outputs_are_logits is_self_supervised encode encode_texts read_input traits
    with_prompt pool pooled_by_layer target_dtype target_shape
    trainable_variables non_trainable_variables trainable_weights run_virtual_layer
    non_trainable_weights distribute_strategy set_fit_request set_score_request
    rows row_text row_texts
"""
# A page with fewer needs no table of them.
_FEW_METHODS = 4
# Characters in a line of code.
_WIDTH = 86
# It has no `__all__`: its public names.
_RECIPES = ("RECIPE_NAMES", "Recipe", "recipe")


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module that are not modules themselves."""
    names = getattr(module, "__all__", _RECIPES)
    return sorted(n for n in names if not inspect.ismodule(getattr(module, n)))


def places() -> dict[str, str]:
    """Return where each public object is documented, by all of its public names.

    A name that two modules export is documented in the first of them.
    """
    found: dict[str, str] = {}
    by_object: dict[int, str] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            path = f"{module_name}.{name}"
            found[path] = by_object.setdefault(id(getattr(module, name)), path)
    return found


def members(cls: type) -> list[str]:
    """Return the public methods and properties that a class has from this package.

    Those of Keras and KerasHub are left out: their own pages describe them.
    """
    is_layer = cls.__module__.startswith("keras_albert.layers")
    internal = {*_INTERNAL.split(), *([] if is_layer else ["call"])}
    if not issubclass(cls, keras.Model):
        internal |= {"export_to_transformers", "save", "save_weights"}
    found: dict[str, None] = {}
    for base in inspect.getmro(cls):
        if not base.__module__.startswith("keras_albert"):
            continue
        for name, value in vars(base).items():
            is_documented = bool(inspect.getdoc(value)) and (
                inspect.isroutine(value) or isinstance(value, property)
            )
            if not name.startswith("_") and name not in internal and is_documented:
                found.setdefault(name)
    # Nearly all programs call it first.
    return sorted(found, key=lambda name: name != "from_preset")


def _page(path: str, aliases: list[str]) -> Iterator[str]:
    module_name, name = path.rsplit(".", 1)
    value = getattr(importlib.import_module(module_name), name)
    yield from (name, "=" * len(name), "")
    yield from (f".. currentmodule:: {module_name}", "")
    if aliases:
        also = ", ".join(f"``{alias}``" for alias in aliases)
        yield from (f"Also: {also}.", "")
    if inspect.isclass(value):
        names = members(value)
        yield from _method_table(path, value, names)
        yield f".. autoclass:: {path}"
        if names:
            yield f"   :members: {', '.join(names)}"
            yield "   :member-order: bysource"
    elif inspect.isroutine(value):
        yield f".. autofunction:: {path}"
    else:
        yield f".. py:data:: {path}"
        if type(value).__module__ == "builtins":
            yield f"   :type: {type(value).__name__}"
        yield from ("", f"   {_DATA[name]}")
    yield ""


def _method_table(path: str, cls: type, names: list[str]) -> Iterator[str]:
    """Yield a table of methods with their summaries, above the details."""
    methods = [
        name
        for name in names
        if not isinstance(inspect.getattr_static(cls, name), property)
    ]
    if len(methods) < _FEW_METHODS:
        return
    yield from (to_restructured_text(_summary(path)), "")
    yield from (".. list-table::", "   :widths: 30 70", "")
    for name in methods:
        text = inspect.getdoc(getattr(cls, name)) or ""
        summary = " ".join(text.split("\n\n")[0].split())
        yield f"   * - :py:meth:`~{path}.{name}`"
        yield f"     - {to_restructured_text(summary)}"
    yield ""


def write_pages(folder: Path) -> None:
    """Write the pages of the reference.

    Args:
        folder: The directory of the pages, below the source of the site. Pages that are
            the same already are not touched, so that Sphinx need not read them again.
    """
    found = places()
    pages: dict[str, str] = {}
    for path in sorted(set(found.values())):
        name = path.rsplit(".", 1)[1]
        # The same name in another module needs no mention.
        value_aliases = sorted(
            alias
            for alias, place in found.items()
            if place == path and alias.rsplit(".", 1)[1] != name
        )[:1]
        pages[f"{path}.rst"] = "\n".join(_page(path, value_aliases))
    for module_name, (title, purpose) in MODULES.items():
        module = importlib.import_module(module_name)
        listed = {n: found[f"{module_name}.{n}"] for n in public_names(module)}
        lines = [f"# {title}", "", f"`{module_name}`: {_lower(purpose)}", ""]
        lines += ["| name | |", "|---|---|"]
        for name, path in listed.items():
            proper = path.rsplit(".", 1)[1]
            is_other = name != proper
            about = f"Another name of `{proper}`." if is_other else _summary(path)
            lines.append(f"| {{doc}}`{name} <{path}>` | {about} |")
        own = [p for p in listed.values() if p.rsplit(".", 1)[0] == module_name]
        own = list(dict.fromkeys(own))
        if own:
            lines += ["", "```{toctree}", ":hidden:", "", *own, "```"]
        pages[f"{module_name}.md"] = "\n".join([*lines, ""])
    folder.mkdir(parents=True, exist_ok=True)
    for old in set(folder.iterdir()) - {folder / name for name in pages}:
        old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _lower(text: str) -> str:
    return text if text.startswith("ALBERT") else text[0].lower() + text[1:]


def _summary(path: str) -> str:
    module_name, name = path.rsplit(".", 1)
    value = getattr(importlib.import_module(module_name), name)
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return _DATA[name]
    text = inspect.getdoc(value) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def _modules() -> str:
    lines = ["| module | for |", "|---|---|"]
    for name, (title, purpose) in MODULES.items():
        lines.append(f"| {{doc}}`{title} <generated/{name}>` (`{name}`) | {purpose} |")
    entries = [f"{title} <generated/{name}>" for name, (title, _) in MODULES.items()]
    return "\n".join([*lines, "", "```{toctree}", ":hidden:", "", *entries, "```"])


def _commands() -> str:
    from keras_albert.cli.run_command import build_parser  # noqa: PLC0415

    os.environ["COLUMNS"] = str(_WIDTH)
    lines: list[str] = []
    for name, parser in build_parser()[1].items():
        help_lines = parser.format_help().rstrip().splitlines()
        shown = "\n".join(map(_wrapped, help_lines))
        lines += [f"## {name}", "", "```text", shown, "```", ""]
    return "\n".join(lines)


def _wrapped(line: str) -> str:
    """Wrap a line of help, where argparse does not: within a list of choices."""
    cut = line.rfind(",", 0, _WIDTH) + 1
    if len(line) <= _WIDTH or not cut:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 1)
    return f"{line[:cut]}\n{_wrapped(indent + line[cut:])}"


_MARKS = {
    "reference/index": ("<!-- the modules -->", _modules),
    "command_options": ("<!-- the help of the commands -->", _commands),
}


def _fill_in(app: Any, docname: str, source: list[str]) -> None:
    if docname in _MARKS:
        mark, write = _MARKS[docname]
        source[0] = source[0].replace(mark, write())


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for them."""
    write_pages(Path(app.srcdir) / "reference" / "generated")
    app.connect("source-read", _fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
