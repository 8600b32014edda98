"""Measure what `import keras_albert` adds to `import keras_hub`, in new processes.

KERAS_BACKEND=torch python benchmarks/import_time.py --repeats 9 --clock cpu
"""

import importlib
import sys

from fresh_process import answer_worker, ask
from settings import prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

# What `pip uninstall tensorflow tensorflow-text` removes.
TENSORFLOW = ["tensorflow", "tensorflow_text"]


def work(
    modules: list[str], counted: str, clock: str, hidden: list[str]
) -> dict[str, float]:
    """Import modules in order, and return the seconds of one or of all."""
    # As if they were not installed.
    sys.modules.update(dict.fromkeys(hidden))
    seconds = {}
    for module in modules:
        start = CLOCKS[clock]()
        importlib.import_module(module)
        seconds[module] = CLOCKS[clock]() - start
    seconds["all"] = sum(seconds.values())
    return {"seconds": seconds[counted]}


def compare(repeats: int, clock: str, without_tensorflow: bool) -> Comparison:
    both = ["keras_hub", "keras_albert"]
    imports = {
        "keras_albert, with keras_hub": (both, "all", []),
        "keras_albert alone adds": (both, "keras_albert", []),
        "keras_hub": (both[:1], "all", []),
        "transformers and its ALBERT": (["transformers.models.albert"], "all", []),
    }
    if without_tensorflow:
        imports["keras_hub without TensorFlow"] = both[:1], "all", TENSORFLOW
        imports["keras without TensorFlow"] = ["keras"], "all", TENSORFLOW
    sides = []
    for name, (modules, counted, hidden) in imports.items():
        question = {
            "modules": modules,
            "counted": counted,
            "clock": clock,
            "hidden": hidden,
        }

        def run(question=question) -> float:
            return ask(__file__, question)["seconds"]

        sides.append(Side(name, run, gives_cost=True))
    return measure("import", sides, repeats)


def main() -> None:
    if answer_worker(work):
        return
    arguments = timing_parser(__doc__).parse_args()
    prepare(arguments)
    import keras
    from reports import report

    backend = keras.config.backend()
    comparison = compare(arguments.repeats, arguments.clock, backend != "tensorflow")
    report("import_time", [comparison], arguments, backend)


if __name__ == "__main__":
    main()
