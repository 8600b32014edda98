"""Draws `docs/images/parameters.svg`: the weights of ALBERT, shared and not.

The sizes are those of `keras_albert.backbone.architecture`. "BERT" is the same encoder
with separate weights in each layer and embeddings as wide as the layers:
`python docs/parameters_picture.py` writes the picture, and prints the numbers as a
table; with `--check` it compares.
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

from keras_albert.backbone import architecture

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "parameters.svg"
SIZES = ("base", "large", "xlarge", "xxlarge")
_POSITIONS, _SEGMENTS = 512, 2
_WIDTH, _LEFT, _BARS, _ROW, _TOP = 760, 150, 470, 50, 58
_COLORS = {"ALBERT": "#c4503c", "BERT": "#9fb2c1"}


def count_parameters(
    vocabulary_size: int,
    num_layers: int,
    embedding_dim: int,
    hidden_dim: int,
    intermediate_dim: int,
    is_bert: bool = False,
    **_: object,
) -> int:
    """Return the number of weights of an encoder with its pooler.

    Args:
        vocabulary_size: int. Tokens.
        num_layers: int. Layers.
        embedding_dim: int. The width of ALBERT's embeddings.
        hidden_dim: int. The width of the layers.
        intermediate_dim: int. The width of the feedforward network.
        is_bert: bool. Whether each layer has its own weights and the embeddings are as
            wide as the layers. Defaults to `False`.
    """
    width = hidden_dim if is_bert else embedding_dim
    rows = vocabulary_size + _POSITIONS + _SEGMENTS
    embeddings = (rows + 2) * width  # 2: LayerNorm
    projection = 0 if is_bert else (embedding_dim + 1) * hidden_dim
    attention = 4 * (hidden_dim + 1) * hidden_dim
    feedforward = (2 * hidden_dim + 1) * intermediate_dim + hidden_dim
    block = attention + feedforward + 4 * hidden_dim  # 4: two LayerNorms
    blocks = block * (num_layers if is_bert else 1)
    return embeddings + projection + blocks + (hidden_dim + 1) * hidden_dim


def draw(counts: dict[str, tuple[int, int]]) -> str:
    """Return the picture.

    Args:
        counts: dict. The weights of ALBERT and of BERT, by the name of the size.
    """
    height = _TOP + _ROW * len(counts) + 34
    label = "Weights of ALBERT and of a BERT of the same layers, in millions"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="sans-serif" font-size="13" role="img" aria-label="{label}">',
        f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        _text(20, 30, "Weights, in millions", "#22313f", "bold", 15),
    ]
    for number, name in enumerate(_COLORS):
        x = _LEFT + 160 + 95 * number
        parts.append(_bar(x, 19, 14, 13, name))
        parts.append(_text(x + 20, 30, name))
    longest = max(map(max, counts.values()))
    for number, (size, values) in enumerate(counts.items()):
        y = _TOP + number * _ROW
        sizes = architecture(size)
        shape = f"{sizes['num_layers']} layers of {sizes['hidden_dim']}"
        parts += [
            _text(20, y + 14, size, "#22313f", "bold"),
            _text(20, y + 31, shape, size=11),
        ]
        for (name, value), offset in zip(
            zip(_COLORS, values, strict=True), (0, 18), strict=True
        ):
            width = max(2.0, _BARS * value / longest)
            parts.append(_bar(_LEFT, y + offset, width, 16, name))
            parts.append(_text(_LEFT + width + 7, y + offset + 13, in_millions(value)))
    note = "BERT: each layer has its own weights, and embeddings are as wide as layers."
    parts.append(_text(20, height - 16, note, size=11))
    return "\n".join([*parts, "</svg>", ""])


def in_millions(value: int) -> str:
    """Return a number in millions."""
    return f"{value / 1e6:,.0f}"


def _bar(x: float, y: float, width: float, height: float, name: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="{height:g}" '
        f'fill="{_COLORS[name]}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    color: str = "#44586a",
    weight: str = "normal",
    size: int = 13,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:g}" fill="{color}" font-weight="{weight}" '
        f'font-size="{size}">{escape(text)}</text>'
    )


def main() -> None:
    """Write or compare the picture."""
    counts = {}
    print("| size | ALBERT | BERT | times |\n|---|---|---|---|")
    for size in SIZES:
        sizes = architecture(size)
        ours, bert = (count_parameters(**sizes, is_bert=b) for b in (False, True))
        counts[size] = ours, bert
        print(f"| {size} | {ours:,} | {bert:,} | {bert / ours:.1f} |")
    picture = draw(counts)
    if "--check" not in sys.argv[1:]:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != picture:
        sys.exit(f"{PICTURE} is of other figures: run this without --check.")


if __name__ == "__main__":
    main()
