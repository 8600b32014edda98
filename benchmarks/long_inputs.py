"""Measure the cost of long inputs and deep models, as curves over length and depth.

    KERAS_BACKEND=torch python benchmarks/long_inputs.py --size base

All sides have position embeddings for the longest input. In the first curve every batch
has the same number of tokens, so that a flat curve means cost proportional to length,
and a rise is due to attention; in the second, every batch has the same shape.
"""

from pathlib import Path
from typing import Any

from equal_shapes import VOCABULARY_SIZE, compare, shapes_parser
from settings import prepare
from side_by_side import Comparison, spread

TASK = "AlbertClassifier"


def curves(
    arguments: Any, vocabulary_size: int = VOCABULARY_SIZE
) -> dict[str, dict[int, list[Comparison]]]:
    """Measure all points, by length and then by depth."""
    longest = max(arguments.lengths)
    shapes = tuple((longest // length, length) for length in arguments.lengths)
    positions = {"max_sequence_length": longest}
    found = list(compare(TASK, shapes, arguments, vocabulary_size, **positions))
    by_length = {
        length: found[2 * place : 2 * place + 2]
        for place, length in enumerate(arguments.lengths)
    }
    shapes = ((4, min(arguments.lengths)),)
    by_depth = {}
    for depth in arguments.depths:
        points = list(
            compare(TASK, shapes, arguments, vocabulary_size, num_layers=depth)
        )
        for point in points:
            point.title += f", {depth} layers"
        by_depth[depth] = points
    return {"length": by_length, "depth": by_depth}


def draw(found: dict[str, dict[int, list[Comparison]]], path: Path) -> None:
    """Plot the seconds of a prediction and of a training step."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(2, 2, figsize=(11, 8))
    for column, (what, points) in enumerate(found.items()):
        for row, title in enumerate(("prediction", "training step")):
            axes = rows[row][column]
            names = {name for both in points.values() for name in both[row].costs}
            for name in sorted(names):
                known = [p for p, both in points.items() if name in both[row].costs]
                middle = [spread(points[p][row].costs[name])[1] for p in known]
                axes.plot(known, middle, marker="o", label=name)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(list(points), [str(point) for point in points])
            axes.set(title=f"{title}, by {what}", xlabel=what, ylabel="s a batch")
    rows[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main() -> None:
    made = shapes_parser(__doc__)
    made.add_argument("--lengths", type=int, nargs="+", default=[128, 512, 2048])
    made.add_argument("--depths", type=int, nargs="+", default=[12, 24, 48, 96])
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    found = curves(arguments)
    comparisons = [
        each for points in found.values() for both in points.values() for each in both
    ]
    backend = keras.config.backend()
    report("long_inputs", comparisons, arguments, backend)
    draw(found, arguments.output / f"long_inputs_{backend}_curves.png")


if __name__ == "__main__":
    main()
