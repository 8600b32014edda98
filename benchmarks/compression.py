"""Compare sharing with adapters of several ranks, after equally long training.

    KERAS_BACKEND=torch python benchmarks/compression.py --teacher PRESET \\
        --texts corpus/*.txt --dev dev.tsv --steps 1500

The small table of relaxed recursive transformers
([Bae et al., 2025](https://arxiv.org/abs/2410.20672)): the teacher's layers share
weights in `--groups`, and each adds matrices of a rank, 0 for none. Each student is
distilled from the same texts for the same number of steps. DEV has pairs of texts with
a score of their similarity, as STS-B does; the quality is Spearman's correlation of
cosines with these scores, before and after the training. The runs of all models are
interleaved.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from settings import SEED, prepare
from side_by_side import CLOCKS, Side, measure, spread

TEXT = ["A man in a blue shirt is playing a guitar on a small stage."]
COLUMNS = ("rank", "parameters", "MB", "ms of a text", "before", "after")


def read_dev(path: Path) -> Any:
    """Read pairs of texts and their scores, whose columns are found by their names."""
    from keras_albert.tools.tasks import TASKS

    return TASKS["similarity"].read_all([path], {})[0]


def spearman(embedder: Any, dev: Any) -> float:
    """Return Spearman's correlation of the cosines of pairs with their scores."""
    from keras_albert.tools.tasks import TASKS

    return TASKS["similarity"].evaluate_tuned(embedder, dev).report.scores["Spearman"]


def compare(
    teacher: Any, texts: Sequence[str], dev: Any, arguments: argparse.Namespace
) -> list[dict[str, Any]]:
    """Train a student for each rank, and return the rows of the table."""
    from keras_albert import compress, distill

    models = {"teacher": teacher}
    scores = {"teacher": (spearman(teacher, dev),) * 2}
    for rank in arguments.ranks:
        name = str(rank)
        student = compress(
            teacher,
            num_groups=arguments.groups,
            num_layers=arguments.layers,
            embedding_dim=arguments.embedding_dim,
            adapter_rank=rank,
            seed=SEED,
        )
        before = spearman(student, dev)
        distill(
            student,
            teacher,
            texts,
            steps=arguments.steps,
            batch_size=arguments.batch_size,
            max_length=arguments.max_length,
            learning_rate=arguments.learning_rate,
            seed=SEED,
            output=arguments.output and arguments.output / f"rank_{name}",
            verbose=0,
        )
        models[name], scores[name] = student, (before, spearman(student, dev))
        print(f"rank {name}: {before:.4f} before, {scores[name][1]:.4f} after")
    sides = [Side(name, lambda m=m: m.embed(TEXT)) for name, m in models.items()]
    clock = CLOCKS[arguments.clock]
    costs = measure("", sides, arguments.repeats, clock=clock).costs
    rows = []
    for name, model in models.items():
        count = model.count_params()
        milliseconds = spread(costs[name])[1] * 1000
        values = (name, count, count * 4 / 1e6, milliseconds, *scores[name])
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Format rows in Markdown."""
    formats = ("{}", "{:,}", "{:.1f}", "{:.2f}", "{:.4f}", "{:.4f}")
    lines = [COLUMNS, ["---"] * len(COLUMNS)]
    for row in rows:
        cells = zip(formats, row.values(), strict=True)
        lines.append([form.format(value) for form, value in cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--teacher", required=True, help="a preset of an encoder")
    made.add_argument("--texts", required=True, type=Path, nargs="+")
    made.add_argument("--dev", required=True, type=Path)
    made.add_argument("--ranks", type=int, nargs="+", default=[0, 4, 16, 64])
    made.add_argument("--groups", type=int, default=1)
    made.add_argument("--layers", type=int, help="by default the teacher's")
    made.add_argument("--embedding-dim", type=int, help="by default the teacher's")
    made.add_argument("--steps", type=int, default=500)
    made.add_argument("--batch-size", type=int, default=32)
    made.add_argument("--max-length", type=int, default=128)
    made.add_argument("--learning-rate", type=float, default=4e-4)
    made.add_argument("--output", type=Path, help="to resume an interrupted run")
    made.add_argument("--repeats", type=int, default=50, help="timed rounds")
    made.add_argument("--clock", default="wall", choices=tuple(CLOCKS))
    made.add_argument("--threads", type=int, help="cores to run on; by default all")
    return made.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    arguments = parse(words)
    prepare(arguments)
    import keras

    from keras_albert import AlbertTextEmbedder
    from keras_albert.cli.compress import read_passages

    texts, dev = read_passages(arguments.texts, {}), read_dev(arguments.dev)
    print(f"{len(texts):,} texts; {dev.description}")
    keras.utils.set_random_seed(SEED)
    teacher = AlbertTextEmbedder.from_preset(arguments.teacher)
    rows = compare(teacher, texts, dev, arguments)
    print(
        f"\n{arguments.teacher} on {keras.config.backend()}: {arguments.steps:,} steps "
        f"of {arguments.batch_size} passages; Spearman on {arguments.dev.name}\n\n"
        f"{table(rows)}"
    )


if __name__ == "__main__":
    main()
