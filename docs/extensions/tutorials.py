"""The tutorials' pages: their list, backend, download, and tidy outputs."""

import os
from pathlib import Path
from typing import Any

import keras
import tutobook
from docutils import nodes
from sphinx.addnodes import download_reference

INDEX = "tutorials/index"
MARK = "<!-- the list of the tutorials -->"

# The order in which to read them; others follow by title.
_GROUPS = {
    "First steps": ("getting_started", "hundred_labels"),
    "Tasks": (
        "glue",
        "sentence_pairs",
        "named_entities",
        "question_answering",
        "multiple_choice",
        "sentence_embeddings",
    ),
    "The model": (
        "pretraining",
        "sharing_and_factorizing",
        "distillation",
        "compressing_a_bert",
        "early_exit",
    ),
    "Scale and serving": ("lora_and_int8", "several_devices", "serving_strings"),
    "Coming from other libraries": (
        "bert",
        "checkpoints",
        "migrating_from_transformers",
    ),
}
_OTHERS = "More"
_BACKEND_NAMES = {"jax": "JAX", "tensorflow": "TensorFlow", "torch": "PyTorch"}


def _list(folder: Path) -> str:
    headers = {
        path.stem: tutobook.read_header(path.read_text(encoding="utf-8"))
        for path in folder.glob("*.py")
    }
    named = {name for names in _GROUPS.values() for name in names}
    others = sorted(set(headers) - named, key=lambda name: headers[name]["Title"])
    lines: list[str] = []
    for group, names in (_GROUPS | {_OTHERS: tuple(others)}).items():
        present = [name for name in names if name in headers]
        if not present:
            continue
        lines += [f"## {group}", "", "::::{grid} 1 1 2 2", ":gutter: 3", ""]
        for name in present:
            lines += [
                f":::{{grid-item-card}} {headers[name]['Title']}",
                f":link: {name}",
                ":link-type: doc",
                "",
                headers[name]["Description"],
                ":::",
                "",
            ]
        lines += ["::::", "", "```{toctree}", ":hidden:", "", *present, "```", ""]
    return "\n".join(lines)


def _fill_in_list(app: Any, docname: str, source: list[str]) -> None:
    if docname == INDEX:
        folder = Path(app.srcdir) / "tutorials"
        source[0] = source[0].replace(MARK, _list(folder))


def _read_index_again(app: Any, env: Any, docnames: list[str]) -> None:
    changed = any(name.startswith("tutorials/") for name in docnames)
    if changed and INDEX not in docnames:
        docnames.append(INDEX)


def _is_tutorial(app: Any, docname: str) -> bool:
    return app.env.doc2path(docname).suffix == ".py"


def _backend(app: Any, docname: str) -> str:
    """Return the backend on which a page is executed."""
    own = keras.config.backend()
    return app.config.tutorial_backends.get(docname.rpartition("/")[2], own)


def _set_backend(app: Any, docname: str, source: list[str]) -> None:
    # A tutorial's process inherits it; this one has imported Keras already.
    os.environ["KERAS_BACKEND"] = _backend(app, docname)


def _addresses(repository: str, docname: str) -> list[tuple[str, str]]:
    """Return links to the source and to Colab, if there is a public repository."""
    if not repository:
        return []
    name = docname.rpartition("/")[2]
    notebook = f"{repository}/blob/notebooks/{name}.ipynb"
    colab = notebook.replace("https://", "https://colab.research.google.com/", 1)
    return [
        ("Source", f"{repository}/blob/main/docs/{docname}.py"),
        ("Open in Colab", colab.replace("/github.com/", "/github/", 1)),
    ]


def _add_download(app: Any, doctree: nodes.document) -> None:
    """Add links to the notebook with its outputs, the Python file and its data."""
    docname = app.env.docname
    title = next(iter(doctree.findall(nodes.title)), None)
    if title is None or not _is_tutorial(app, docname):
        return
    executed = Path(app.env.mystnb_config.output_folder) / f"{docname}.ipynb"
    text = executed.read_text(encoding="utf-8")
    written = tutobook.link_downloads(text, app.config.tutorial_site)
    executed.write_text(written, encoding="utf-8")
    program = Path(app.env.doc2path(docname))
    data = tutobook.data_files(program.read_text(encoding="utf-8"))
    paragraph = nodes.paragraph(classes=["tutorial-downloads"])
    for text, path in (
        ("Download the notebook", executed),
        ("Download the Python file", program),
        *((path.name, path) for path in data),
    ):
        target = "/" + os.path.relpath(path, app.srcdir)
        link = download_reference("", reftarget=target)
        link += nodes.inline("", text, classes=["xref", "download"])
        paragraph += link
        paragraph += nodes.Text("   ")
    for text, address in _addresses(app.config.tutorial_repository, docname):
        paragraph += nodes.reference("", text, refuri=address, internal=False)
        paragraph += nodes.Text("   ")
    if app.env.mystnb_config.execution_mode != "off":
        name = _BACKEND_NAMES[_backend(app, docname)]
        paragraph += nodes.Text(f"Executed with {name}")
    title.parent.insert(title.parent.index(title) + 1, paragraph)


def _tidy_blocks(app: Any, doctree: nodes.document) -> None:
    """Show the end of progress bars, and no blank lines below code."""
    for block in doctree.findall(nodes.literal_block):
        old = block.astext()
        is_output = "stream" in block["classes"]
        text = tutobook.last_state(old) if is_output else old.rstrip()
        if text != old:
            block.rawsource = text
            block.children = []
            block.append(nodes.Text(text))


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_config_value("tutorial_backends", {}, "env", dict)
    app.add_config_value("tutorial_repository", "", "env", str)
    # A setting of what is read: if the address changes, notebooks are rewritten.
    app.add_config_value(
        "tutorial_site", lambda config: config.html_baseurl, "env", str
    )
    app.connect("env-before-read-docs", _read_index_again)
    app.connect("source-read", _fill_in_list)
    app.connect("source-read", _set_backend)
    # Before Sphinx collects the files that pages offer.
    app.connect("doctree-read", _add_download, priority=100)
    app.connect("doctree-read", _tidy_blocks, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
