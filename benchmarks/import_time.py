"""Measure what `import keras_albert` adds to `import keras_hub`, in new processes.

KERAS_BACKEND=torch python benchmarks/import_time.py --repeats 9
"""

import importlib
import time

from fresh_process import answer_worker, ask
from settings import parser, prepare
from side_by_side import Comparison, Side, measure


def work(modules: list[str], counted: str) -> dict[str, float]:
    """Import modules in order, and return the seconds of one or of all."""
    seconds = {}
    for module in modules:
        start = time.perf_counter()
        importlib.import_module(module)
        seconds[module] = time.perf_counter() - start
    seconds["all"] = sum(seconds.values())
    return {"seconds": seconds[counted]}


def side(name: str, modules: list[str], counted: str = "all") -> Side:
    question = {"modules": modules, "counted": counted}
    return Side(name, lambda: ask(__file__, question)["seconds"], gives_cost=True)


def compare(repeats: int) -> Comparison:
    both = ["keras_hub", "keras_albert"]
    sides = [
        side("keras_albert, with keras_hub", both),
        side("keras_albert alone adds", both, "keras_albert"),
        side("keras_hub", both[:1]),
        side("transformers and its ALBERT", ["transformers.models.albert"]),
    ]
    return measure("import", sides, repeats)


def main() -> None:
    if answer_worker(work):
        return
    arguments = parser(__doc__).parse_args()
    prepare(arguments)
    import keras
    from reports import report

    comparison = compare(arguments.repeats)
    report("import_time", [comparison], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
