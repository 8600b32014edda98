"""Turns a tutorial in Keras' tutobook format into a notebook, or into keras.io's.

A tutobook is a Python file whose Markdown cells stand between lines of three quotation
marks; the first of them is a header. `docs/tutorials/*.py` are written so. keras.io has
neither the other pages nor the data, so this writes files with addresses for it:

    python docs/tutobook.py SITE REPOSITORY FOLDER
"""

import posixpath
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["code", "markdown", "shell", "invisible"]

QUOTES = '"""'
_KINDS: dict[str, Kind] = {"": "markdown", "shell": "shell", "invisible": "invisible"}
DATA = Path(__file__).resolve().parents[1] / "examples" / "data"
# How a tutorial finds its data, here or downloaded next to it.
_LOCAL_DATA = re.compile(r"data_path = .*examples/data.*\nif .*\n    data_path = .*\n")
_ONLINE_DATA = """\
address = "{repository}/raw/main/examples/data"
for name in {names}:
    data_path = pathlib.Path(keras.utils.get_file(name, f"{{address}}/{{name}}")).parent
"""
_CHAPTERS = """
{quotes}
## Relevant Chapters from Deep Learning with Python

- [Chapter 15: Language models and the Transformer](https://deeplearningwithpython.io/chapters/chapter15_language-models-and-the-transformer)
{quotes}
"""
# The folder of the tutorials' pages, and a link from there to a tutorial or a page.
FOLDER = "tutorials"
_LINK = re.compile(r"\[([^\[\]]+)\]\(((?:\.\./)?[\w/]+)\.(?:py|md)(#[\w-]+)?\)")
HEADER = (
    "Title",
    "Author",
    "Date created",
    "Last modified",
    "Description",
    "Accelerator",
)


@dataclass(frozen=True)
class Cell:
    """A part of a tutobook, without the quotation marks around it."""

    kind: Kind
    source: str


def split_cells(text: str) -> list[Cell]:
    """Split a tutobook into its cells, the header first.

    Args:
        text: string. The content of the file.

    Raises:
        ValueError: If a cell does not end, or has an unknown name.
    """
    cells: list[Cell] = []
    kind: Kind = "code"
    lines: list[str] = []

    def end_cell() -> None:
        source = "\n".join(lines).strip("\n")
        lines.clear()
        if source:
            cells.append(Cell(kind, source))

    for number, line in enumerate(text.splitlines(), 1):
        # The quotation marks of a string within code follow other characters.
        if not line.startswith(QUOTES):
            lines.append(line)
            continue
        name = line.removeprefix(QUOTES).strip()
        end_cell()
        if kind != "code":
            if name:
                msg = f"Line {number}: a cell ends with {QUOTES} alone, not {line!r}."
                raise ValueError(msg)
            kind = "code"
        elif name in _KINDS:
            kind = _KINDS[name]
        else:
            names = ", ".join(repr(name) for name in _KINDS if name)
            msg = f"Line {number}: a cell is named {names} or not at all, not {name!r}."
            raise ValueError(msg)
    if kind != "code":
        msg = f"The last cell does not end with a line of {QUOTES}."
        raise ValueError(msg)
    end_cell()
    return cells


def read_header(text: str) -> dict[str, str]:
    """Read the header of a tutobook: its title, description and so on.

    Args:
        text: string. The content of the file.

    Raises:
        ValueError: If the header lacks a line.
    """
    cells = split_cells(text)
    source = cells[0].source if cells and cells[0].kind == "markdown" else ""
    header = dict(re.findall(r"^([A-Z][\w ]*?)s?: (.*)$", source, re.MULTILINE))
    missing = [name for name in HEADER if name not in header]
    if missing:
        msg = f"The header lacks {', '.join(missing)}; the first cell is: {source!r}"
        raise ValueError(msg)
    return header


def to_notebook(text: str) -> Any:
    """Turn a tutobook into a notebook that was not executed.

    Args:
        text: string. The content of the file.

    Returns:
        A notebook: the title and the header's facts, then one cell each for text, code
        and shell commands. Invisible cells are left out.
    """
    import nbformat  # noqa: PLC0415  (reading a header does without)

    header = read_header(text)
    new = nbformat.v4
    facts = " · ".join(
        (
            f"**Author:** {header['Author']}",
            f"**Created:** {header['Date created']}",
            f"**Last modified:** {header['Last modified']}",
        )
    )
    title = f"# {header['Title']}\n\n{header['Description']}\n\n{facts}"
    cells = [new.new_markdown_cell(title)]
    for cell in split_cells(text)[1:]:
        if cell.kind == "markdown":
            cells.append(new.new_markdown_cell(cell.source))
        elif cell.kind == "shell":
            # Shown, not executed: they install packages.
            cells.append(new.new_markdown_cell(f"```shell\n{cell.source}\n```"))
        elif cell.kind == "code":
            cells.append(new.new_code_cell(cell.source))
    for number, cell in enumerate(cells):
        # The same in each build, so that the cache and the download do not change.
        cell["id"] = f"cell-{number}"
    notebook = new.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    notebook.metadata["language_info"] = {"name": "python"}
    if header["Accelerator"] != "None":
        notebook.metadata["accelerator"] = header["Accelerator"]
    return notebook


def link_downloads(text: str, site: str = "") -> str:
    """Let the links of a notebook work wherever the file is.

    A tutorial links to the files of others and to pages, which the site resolves. In a
    downloaded notebook these are addresses of the site. If that is unknown, the link
    becomes plain text, since a file beside the notebook cannot be expected.

    Args:
        text: string. The notebook's file.
        site: string. The address of the site, such as `"https://example.org/0.1.0/"`.
            Defaults to `""`: unknown.

    Example:
        >>> link_downloads("[glue](glue.py), [speed](../speed.md#one-text)")
        'glue, speed'
        >>> link_downloads("[glue](glue.py)", "https://example.org")
        '[glue](https://example.org/tutorials/glue.html)'
    """

    def absolute(found: re.Match[str]) -> str:
        words, page, anchor = found.groups(default="")
        if not site:
            return words
        page = posixpath.normpath(f"{FOLDER}/{page}")
        return f"[{words}]({site.rstrip('/')}/{page}.html{anchor})"

    return _LINK.sub(absolute, text)


def data_files(text: str) -> list[Path]:
    """Return the files of `examples/data` that a tutorial names."""
    return [path for path in sorted(DATA.iterdir()) if f'"{path.name}"' in text]


def to_keras_io(text: str, site: str, repository: str) -> str:
    """Return a tutorial as keras.io takes it: with addresses of pages and data.

    Args:
        text: string. The content of the file.
        site: string. The address of the site, as for `link_downloads`.
        repository: string. The address of the public repository.
    """
    names = ", ".join(f'"{path.name}"' for path in data_files(text))
    names = f"({names})" if ", " in names else f"({names},)"
    fetched = _ONLINE_DATA.format(repository=repository.rstrip("/"), names=names)
    text = _LOCAL_DATA.sub(lambda _: fetched, link_downloads(text, site))
    return text + _CHAPTERS.format(quotes=QUOTES)


def last_state(text: str) -> str:
    r"""Return what a terminal shows in the end, without colours.

    Progress bars write over themselves, with `\r` and `\b`.

    Example:
        >>> last_state("1/2 ..\b\b\b\b\b\b\r2/2 ==\n")
        '2/2 ==\n'
    """
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\b", "")
    lines = [_last_part(line) for line in text.split("\n")]
    return "\n".join(lines)


def _last_part(line: str) -> str:
    parts = [part for part in line.split("\r") if part.strip()]
    return parts[-1].rstrip() if parts else ""


if __name__ == "__main__":
    site, repository, folder = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in sorted(Path(__file__).with_name(FOLDER).glob("*.py")):
        text = to_keras_io(path.read_text(encoding="utf-8"), site, repository)
        Path(folder, path.name).write_text(text, encoding="utf-8")
