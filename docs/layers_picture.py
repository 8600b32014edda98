"""Draws `docs/layers.svg`: the folders and what may import what.

It reads import-linter's layers from `pyproject.toml`, so that the picture is what the
tests check: `python docs/layers_picture.py`, or `--check` to compare.
"""

import sys
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "layers.svg"

# The content of a folder, in a few words.
PURPOSES = {
    "__main__": "python -m keras_albert",
    "cli": "options and commands",
    "tools": "readers of files, checks, evaluation",
    "pretraining": "prepare, data, settings, run, devices",
    "training": "checkpoints, resumption",
    "compression": "smaller models",
    "sklearn": "an estimator of scikit-learn",
    "checkpoints": "transformers, Google, KerasHub",
    "exports": "SavedModel, ONNX, LiteRT",
    "serve": "a server",
    "tasks": "models with a head; fit, predict, save",
    "data": "tables, labels, batches",
    "devices": "processes, distribution",
    "preprocessors": "one for each task",
    "text": "tokenizer, packing, masks",
    "backbone": "the encoder with its embeddings",
    "layers": "embedding, shared encoder, heads",
    "presets": "names, formats, checks",
    "utils": "files, arguments, packages",
    "types": "types of signatures",
}
_WIDTH, _MARGIN, _GAP, _HEIGHT, _SPACE = 720, 16, 14, 46, 22
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5b7083"/>'
    "</marker>"
)


def read_layers() -> list[list[str]]:
    """Return the rows of folders, the uppermost first."""
    text = (HERE.parent / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["id"] == "layers")
    return [[name.strip() for name in row.split("|")] for row in layers]


def draw(rows: list[list[str]]) -> str:
    """Return the picture.

    Args:
        rows: Names of folders; those of a row do not import each other.
    """
    height = 2 * _MARGIN + len(rows) * (_HEIGHT + _SPACE) - _SPACE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" role="img" '
        'aria-label="Folders of keras_albert; each imports only those below it">',
        f"<defs>{_ARROW}</defs>",
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    for number, names in enumerate(rows):
        top = _MARGIN + number * (_HEIGHT + _SPACE)
        if number:
            parts.append(
                f'<line x1="{_WIDTH / 2}" y1="{top - _SPACE + 2}" '
                f'x2="{_WIDTH / 2}" y2="{top - 3}" stroke="#5b7083" '
                'stroke-width="2" marker-end="url(#arrow)"/>'
            )
        width = (_WIDTH - 2 * _MARGIN - (len(names) - 1) * _GAP) / len(names)
        for place, name in enumerate(names):
            left = _MARGIN + place * (width + _GAP)
            middle = left + width / 2
            parts += [
                f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" '
                f'height="{_HEIGHT}" rx="6" fill="#e8f0f7" stroke="#5b7083"/>',
                f'<text x="{middle:.0f}" y="{top + 19}" text-anchor="middle" '
                f'font-size="15" font-weight="bold" fill="#16324a">{escape(name)}'
                "</text>",
                f'<text x="{middle:.0f}" y="{top + 37}" text-anchor="middle" '
                f'font-size="12" fill="#3b5166">{escape(PURPOSES[name])}</text>',
            ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    picture = draw(read_layers())
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"{PICTURE} differs: run `python docs/layers_picture.py`.")
