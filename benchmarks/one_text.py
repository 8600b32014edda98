"""Compare the time of one short text, from the string to the answer, for each method.

    KERAS_BACKEND=torch python benchmarks/one_text.py --data DIRECTORY --size base
    KERAS_BACKEND=jax python benchmarks/one_text.py --methods classify tag

Without `--size` the model is the preset of the package. Both sides read the same texts
one by one: the method of keras_albert, and transformers' pipeline or, where it has
none, its tokenizer and model, which run on PyTorch whatever the backend. The first 100
calls are measured one by one, in turns: the milliseconds of some, the largest, and the
median ratio from the second on. Then the answers to all texts are compared, so that a
side that compiles each length has seen all texts, and all texts are measured together.
`classify` is also compared with `predict` of KerasHub, which pads to the longest text,
on fewer texts.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

from settings import prepare, read_tasks, read_vocabulary, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure, spread

PRESET = "albert_tiny_en_uncased"
FIRST_CALLS = 100
SHOWN_CALLS = (1, 2, 10, 64)


def compare(name: str, texts: list[str], arguments: Any, **changes: Any) -> Comparison:
    """Compare one method.

    Args:
        name: string. A name of `METHODS`.
        texts: list of string.
        arguments: The settings.
        **changes: Other arguments of the backbone.
    """
    from one_text_methods import METHODS, build
    from peer_models import TransformersModel, write_peers

    method = METHODS[name]
    ours = build(
        method, arguments.size, lambda: read_vocabulary(arguments.data), **changes
    )
    inputs = [method.read(text) for text in texts]
    count = len(texts)
    sides = [
        Side("keras_albert", lambda: [method.run(ours, *x) for x in inputs], count)
    ]
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        if name == "classify" and arguments.keras_hub:
            write_peers(ours, Path(folder))
            side, note = _keras_hub(ours, Path(folder), texts)
            sides.append(side)
            notes.append(note)
        else:
            ours.export_to_transformers(Path(folder) / "transformers")
        theirs = TransformersModel(Path(folder), method.auto)
    peer = method.make_peer(theirs)
    sides.append(Side("transformers", lambda: [peer(*x) for x in inputs], count))
    calls = {"keras_albert": lambda *x: method.run(ours, *x), "transformers": peer}
    notes += time_first_calls(calls, inputs, CLOCKS[arguments.clock])
    worst = method.check(ours, theirs, inputs)
    notes.append(f"equal results for {count} texts, numbers within {worst:.1e}")
    return measure(
        f"one text: {name}",
        sides,
        arguments.repeats,
        clock=CLOCKS[arguments.clock],
        work="texts",
        notes=notes,
    )


def time_first_calls(
    calls: dict[str, Callable[..., Any]],
    inputs: Sequence[Any],
    clock: Callable[[], float],
) -> list[str]:
    """Call new models in turns, and return a note on each, and on their ratio."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for x in islice(cycle(inputs), FIRST_CALLS):
        for name, call in calls.items():
            start = clock()
            call(*x)
            times[name].append(1000 * (clock() - start))
    notes = []
    for name, found in times.items():
        shown = ", ".join(f"{n}: {found[n - 1]:.1f}" for n in SHOWN_CALLS)
        notes.append(
            f"{name}, ms of call {shown}; the largest {max(found):.1f}, "
            f"from call 2 on {max(found[1:]):.1f}, the median {median(found):.1f}"
        )
    ours, theirs = (found[1:] for found in times.values())
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    notes.append(f"calls 2 to {FIRST_CALLS}: {ratio:.2f} of transformers' time")
    return notes


def _keras_hub(ours: Any, folder: Path, texts: list[str]) -> tuple[Side, str]:
    """Return the side of KerasHub, and a note that its outputs are equal."""
    from peer_models import check_agreement, load_keras_hub
    from text_ways import longest_row

    theirs = load_keras_hub(folder)
    theirs.preprocessor.sequence_length = longest_row(ours, texts)
    few = texts[: max(1, len(texts) // 8)]

    def predict() -> list[Any]:
        return [theirs.predict([text], verbose=0) for text in few]

    found = {"keras_albert": ours.predict(few, verbose=0), "KerasHub": predict()}
    found["KerasHub"] = [row[0] for row in found["KerasHub"]]
    note = f"KerasHub: {check_agreement(found)}"
    return Side("KerasHub", predict, len(few)), note


def summarize(comparison: Comparison) -> str:
    """Return the ratio of transformers' time to ours, and its spread."""
    least, median, most = spread(comparison.ratios("transformers"))
    return f"{comparison.title}: {median:.2f} ({least:.2f} to {most:.2f})"


def main() -> None:
    from one_text_methods import METHODS

    made = timing_parser(__doc__)
    made.set_defaults(size=PRESET)
    made.add_argument("--texts", type=int, default=32)
    made.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    made.add_argument("--no-keras-hub", dest="keras_hub", action="store_false")
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    texts, _ = read_tasks(arguments.data, ["sst-2"])[0].examples("dev", arguments.texts)
    lines = []

    def comparisons() -> Iterator[Comparison]:
        for name in arguments.methods:
            comparison = compare(name, texts, arguments)
            lines.append(summarize(comparison))
            yield comparison

    report("one_text", comparisons(), arguments, keras.config.backend())
    print("transformers, times keras_albert:", *lines, sep="\n")


if __name__ == "__main__":
    main()
