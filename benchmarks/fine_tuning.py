"""Compare fine-tuning on texts: an epoch of SST-2, STS-B pairs and RACE's passages.

    KERAS_BACKEND=torch python benchmarks/fine_tuning.py --data DIRECTORY --size base
    ... --accuracy 4000 --epochs 3   # also train all from the same weights, and score

All sides take texts and use the same weights, batches of 32 and the same optimizer;
`amount` counts examples. Speed is only comparable at equal accuracy: `--accuracy` also
trains every side for `--epochs` on that many examples, and includes compilation, as in
a single run. Random weights learn little; `--preset` starts from pretrained ones.
"""

from collections.abc import Iterator

import numpy as np
from settings import TextTask, prepare, read_tasks, read_vocabulary, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure


def compare(task: TextTask, vocabulary: bytes, arguments) -> Iterator[Comparison]:
    from peer_models import build_classifier, check_classifiers, compile_alike, peers_of
    from text_ways import all_ways, longest_row, make_batches, padding_note, same_ids

    from keras_albert import (
        AlbertBackbone,
        AlbertClassifier,
        AlbertClassifierPreprocessor,
    )

    rows, labels = task.examples("train", arguments.examples)
    if arguments.preset:
        ours = AlbertClassifier(
            # KerasHub supports only this form of GELU.
            AlbertBackbone.from_preset(arguments.preset, activation="gelu_approximate"),
            num_classes=task.num_classes,
            preprocessor=AlbertClassifierPreprocessor.from_preset(arguments.preset),
        )
    else:
        ours = build_classifier(arguments.size, vocabulary, task.num_classes)
    compile_alike(ours)
    with peers_of(ours) as (keras_hub, theirs):
        notes = [
            check_classifiers(ours, keras_hub, theirs),
            same_ids(ours, theirs, rows[:1000]),
            padding_note(ours, rows),
        ]
        longest = longest_row(ours, rows)
        ways = all_ways(ours, keras_hub, theirs, longest, arguments.torch_compile)
        if arguments.sides:
            ways = [way for way in ways if way.name.startswith(tuple(arguments.sides))]
        for way in ways:
            way.restart(None)
        sides = [
            Side(
                way.name,
                lambda way=way: way.fit(
                    rows[: way.share(rows)], labels[: way.share(rows)]
                ),
                way.share(rows),
                way.optional,
            )
            for way in ways
        ]
        # An upper limit of an epoch's waiting for texts; none if it is a few percent.
        name = "keras_albert, batches alone"
        sides.append(Side(name, lambda: make_batches(ours, rows), len(rows)))
        yield measure(
            f"fine-tuning: {task.name}",
            sides,
            arguments.repeats,
            clock=CLOCKS[arguments.clock],
            work="examples",
            notes=notes,
        )
        if arguments.accuracy:
            yield compare_accuracy(task, ways, arguments)


def compare_accuracy(task: TextTask, ways, arguments) -> Comparison:
    """Train each side from the same weights, and score it on the validation set."""
    from peer_models import BATCH_SIZE

    rows, labels = task.examples("train", arguments.accuracy)
    held_out, expected = task.examples("dev", arguments.held_out)
    seconds, scores = {}, []
    clock = CLOCKS[arguments.clock]
    for way in ways:
        way.restart(-(-len(rows) // BATCH_SIZE) * arguments.epochs)
        start = clock()
        try:
            for _ in range(arguments.epochs):
                way.fit(rows, labels)
        except Exception as error:
            if not way.optional:
                raise
            scores.append(f"{way.name} does not run here: {str(error)[:200]}")
            continue
        seconds[way.name] = [clock() - start]
        scores.append(f"{way.name}: {score(way.predict(held_out), expected)}")
    return Comparison(
        f"accuracy: {task.name}, epochs: {arguments.epochs}",
        seconds,
        dict.fromkeys(seconds, len(rows) * arguments.epochs),
        work="examples",
        notes=scores,
    )


def score(outputs, expected: list) -> str:
    """Describe the quality of outputs: the accuracy, or the correlation of scores."""
    if outputs.shape[-1] == 1:
        value = np.corrcoef(outputs[:, 0], expected)[0, 1]
        return f"Pearson {value:.3f} on {len(expected)} held-out rows"
    value = float((outputs.argmax(-1) == np.asarray(expected)).mean())
    return f"accuracy {value:.1%} on {len(expected)} held-out rows"


def main() -> None:
    made = timing_parser(__doc__)
    made.add_argument("--examples", type=int, default=1024, help="of a timed epoch")
    made.add_argument("--preset", help="pretrained weights, instead of a size")
    made.add_argument("--accuracy", type=int, help="also train on this many examples")
    made.add_argument("--epochs", type=int, default=1, help="of --accuracy")
    made.add_argument("--held-out", type=int, default=500, help="to score on")
    made.add_argument("--tasks", nargs="+", help='of "sst-2 sts-b race"; default: all')
    made.add_argument(
        "--sides", nargs="+", help="beginnings of the names of sides; default: all"
    )
    made.add_argument("--no-torch-compile", dest="torch_compile", action="store_false")
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    vocabulary = read_vocabulary(arguments.data)
    comparisons = (
        comparison
        for task in read_tasks(arguments.data, arguments.tasks)
        for comparison in compare(task, vocabulary, arguments)
    )
    report("fine_tuning", comparisons, arguments, keras.config.backend())


if __name__ == "__main__":
    main()
