"""Measure what early exits save in each runtime, and what they cost in quality.

    KERAS_BACKEND=torch python benchmarks/early_exits.py PRESET dev.tsv --threads 1

The preset is an `AlbertClassifier` with exits, the file one that `keras-albert exits`
reads, such as dev.tsv of SST-2 or STS-B. Of each kind of rule (a fixed depth, patience,
threshold), the one with the fewest layers is chosen whose quality is at most 0.3 points
below that of all layers. A rule looks better on the texts that it was chosen on, so
that these are every other row, or those of `--choose`, and the rest is measured.
`--rules` measures other rules on the whole file:

    ... PRESET dev.tsv --rules patience=3 threshold=0.9 num_layers=6
    ... PRESET dev.tsv --rules patience=2,tolerance=0.1    (a regression)

Keras on the backend of the process, the SavedModel and ONNX Runtime run in a process
each, from strings to answers. A first round compiles, and compares all answers with
those of Keras. Then all rules and runtimes take turns: with all texts, in batches of
similar length, and with a sample of them one by one. In both rows of a rule, the
quality is that of all texts, and the depth that of the texts that were timed. The
ratios are to all layers in the same runtime.

`--fixed` measures no time: it compares each depth with models trained at that depth.

    ... PRESET dev.tsv --fixed --against 3=PRESET 6=PRESET
"""

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from itertools import chain, product
from pathlib import Path

import numpy as np
from exit_rules import METRICS, choose, describe, parse_rule, quality, read, take
from exit_runtimes import RUNTIMES, Worker, export, predict, read_answers
from reports import machine, versions
from settings import prepare
from side_by_side import CLOCKS, Comparison, Side, measure, spread


def parse_model(words):
    depth, _, preset = words.partition("=")
    return int(depth), preset


def check(name, found, expected):
    """Compare answers with those of Keras, and print how far they agree.

    Rounding may let a text leave at another layer.
    """
    (outputs, depths), (right, right_depths) = found, expected
    same = depths == right_depths
    within = np.abs(outputs - right)[same].max(initial=0)
    allowed = 1e-3 * max(1, np.abs(right).max())
    words = f"{same.sum()} of {len(same)} depths equal, outputs within {within:.0e}"
    # In this form the check fails for NaN, too.
    if (~same).sum() > max(1, len(same) // 100) or not within <= allowed:
        raise ValueError(f"{name} computes something else than Keras: {words}")
    print(f"- {name}: {words}")


def compare(folder, classifier, data, rules, arguments):
    """Measure all rules in all runtimes; return the rows of the table."""
    columns, y = data
    order = np.argsort([sum(map(len, row)) for row in zip(*columns, strict=True)])
    columns, y = data = take(data, order.tolist())
    size, count = arguments.batch_size, min(arguments.singles, len(y))
    # The texts of each batch; those alone are from short to long, as all are.
    batches = {
        size: [range(len(y))[n : n + size] for n in range(0, len(y), size)],
        1: [[int(n)] for n in np.linspace(0, len(y) - 1, count)],
    }
    output = "logits" if classifier.returns_logits else "probabilities"
    settings = {
        "preset": arguments.preset,
        "threads": arguments.threads,
        "clock": arguments.clock,
        "num_layers": classifier.backbone.num_layers,
        "output": "score" if classifier.is_regression else output,
        "rules": rules,
        "batches": {
            batch: [take(data, rows)[0] for rows in parts]
            for batch, parts in batches.items()
        },
    }
    (folder / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    for runtime in arguments.runtimes:
        export(classifier, folder, runtime, rules, len(columns) == 2)
    sides = {}
    with ExitStack() as stack:
        for runtime in arguments.runtimes:
            worker = stack.enter_context(Worker(folder, runtime))
            for batch, (number, rule) in product(batches, enumerate(rules)):
                sides[runtime, batch, number] = Side(
                    f"{runtime}, {batch}, {describe(rule)}",
                    partial(worker.time, batch, number),
                    amount=sum(map(len, batches[batch])),
                    gives_cost=True,
                )
        found = measure("early exits", list(sides.values()), arguments.rounds)
    expected = [predict(classifier, columns, **rule) for rule in rules]
    rows = []
    for (runtime, batch, number), side in sides.items():
        answers = read_answers(folder, runtime, batch, number)
        timed = list(chain(*batches[batch]))
        check(side.name, answers, [array[timed] for array in expected[number]])
        names = dict.fromkeys((sides[runtime, batch, 0].name, side.name))
        pair = Comparison("", {n: found.costs[n] for n in names}, found.amounts)
        outputs, _ = read_answers(folder, runtime, size, number)
        rows.append(
            {
                "runtime": runtime,
                "batch": batch,
                "rule": describe(rules[number]),
                "quality": quality(classifier, arguments.metric, y, outputs),
                "depth": float(answers[1].mean()),
                "ms": 1000 * spread(found.costs[side.name])[1] / side.amount,
                "ratios": pair.ratios(side.name),
            }
        )
    return rows


def show(header, rows):
    """Print a Markdown table."""
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |")


def show_times(rows, metric):
    cells = []
    for row in rows:
        least, median, most = spread(row["ratios"])
        numbers = f"{row['quality']:.4f}", f"{row['depth']:.2f}", f"{row['ms']:.3g}"
        ratios = f"{median:.2f}", f"{least:.2f} to {most:.2f}"
        cells.append(
            (row["runtime"], str(row["batch"]), row["rule"], *numbers, *ratios)
        )
    header = "runtime", "batch", "rule", metric, "depth", "ms per text", "of all layers"
    show((*header, "least to most"), cells)


def compare_depths(classifier, data, metric, against):
    """Compare each depth with models that were trained at it; return the rows."""
    from keras_albert import AlbertClassifier

    columns, y = data
    others = {}
    for depth, preset in against:
        other = AlbertClassifier.from_preset(preset)
        if (layers := other.backbone.num_layers) != depth:
            sys.exit(f"{preset} has {layers} layers. Received: {depth}={preset}")
        value = quality(other, metric, y, predict(other, columns)[0])
        others.setdefault(depth, []).append(value)
    rows = []
    for depth in range(1, classifier.backbone.num_layers + 1):
        outputs, _ = predict(classifier, columns, num_layers=depth)
        value = quality(classifier, metric, y, outputs)
        rows.append({"depth": depth, "exits": value, "alone": others.get(depth, [])})
    return rows


def show_depths(rows, metric):
    cells = []
    for row in rows:
        alone = ", ".join(f"{value:.4f}" for value in row["alone"])
        cells.append((str(row["depth"]), f"{row['exits']:.4f}", alone))
    show(("depth", f"{metric}, with exits", "trained at this depth"), cells)


def read_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("preset", help="an AlbertClassifier with exits")
    add("dev", type=Path, help="texts and labels or scores")
    add("--choose", type=Path, help="the file on which rules are chosen")
    add("--points", type=float, default=0.3, help="what a chosen rule may cost")
    add("--rules", type=parse_rule, nargs="+", help="instead of choosing")
    add("--metric", choices=METRICS, help="by default accuracy; of scores, Spearman")
    add("--runtimes", nargs="+", default=RUNTIMES, choices=RUNTIMES)
    add("--batch-size", type=int, default=32)
    add("--singles", type=int, default=64, help="texts that are timed one by one")
    add("--rounds", type=int, default=5)
    add("--threads", type=int, help="cores to run on; by default all")
    add("--clock", default="wall", choices=CLOCKS, help="cpu: processor time")
    add("--limit", type=int, help="only so many rows of each file")
    add("--fixed", action="store_true", help="compare depths, without times")
    add("--against", type=parse_model, nargs="+", default=[], metavar="DEPTH=PRESET")
    add("--json", type=Path, help="write the rows here as well")
    arguments = parser.parse_args()
    if arguments.against and not arguments.fixed:
        parser.error("--against needs --fixed")
    if arguments.batch_size < 2 or arguments.singles < 1:
        parser.error("--batch-size is at least 2, --singles at least 1")
    return arguments


def split(data, arguments, classifier):
    """Return the texts that rules are chosen on, and those that are measured."""
    if arguments.choose is not None:
        return read(arguments.choose, classifier, arguments.limit), data
    # No halves: files may be sorted.
    return (take(data, range(first, len(data[1]), 2)) for first in (0, 1))


def main():
    arguments = read_arguments()
    prepare(arguments)
    import keras

    from keras_albert import AlbertClassifier
    from keras_albert.tasks.classification.early_exit import read_exit_rule

    classifier = AlbertClassifier.from_preset(arguments.preset)
    if not classifier.exits:
        sys.exit(f"{arguments.preset} has no exits. Train it with `exits=True`.")
    default = "Spearman" if classifier.is_regression else "accuracy"
    arguments.metric = metric = arguments.metric or default
    data = read(arguments.dev, classifier, arguments.limit)
    found = machine() | {"backend": keras.config.backend()} | versions()
    print(", ".join(f"{name} {value}" for name, value in found.items()))
    if arguments.fixed:
        print(f"{len(data[1])} texts\n")
        rows = compare_depths(classifier, data, metric, arguments.against)
        show_depths(rows, metric)
    else:
        if (rules := arguments.rules) is None:
            seen, data = split(data, arguments, classifier)
            rules = choose(classifier, seen, metric, arguments.points)
        for rule in rules:
            read_exit_rule(classifier, **rule)
        with tempfile.TemporaryDirectory() as folder:
            rows = compare(Path(folder), classifier, data, [{}, *rules], arguments)
        print(f"\n{len(data[1])} texts, {arguments.rounds} rounds\n")
        show_times(rows, metric)
    if arguments.json is not None:
        contents = {"settings": vars(arguments), "setting": found, "rows": rows}
        arguments.json.write_text(json.dumps(contents, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
