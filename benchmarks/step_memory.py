"""Compare the memory of a training step of the masked language model.

    KERAS_BACKEND=jax python benchmarks/step_memory.py --size base
    python benchmarks/step_memory.py --chips v5e:2x2 --sizes base large xlarge
    KERAS_BACKEND=torch python benchmarks/step_memory.py --size base

On JAX it is the compiler's figure, without noise: the memory of a step in addition to
weights and optimizer. `--chips` uses the TPU compiler (`pip install libtpu`): the
largest batch for a chip, by default in mixed_bfloat16, and the compilation time. On
PyTorch and TensorFlow, without such figures, it is the increase of a new process's peak
resident memory in its first step; on a GPU, PyTorch's peak.
"""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equal_shapes import (
    POLICIES,
    VOCABULARY_SIZE,
    build_task,
    inputs_of,
    mask_slots,
    transformers_step,
)
from fresh_process import answer_worker, ask
from settings import SIZES, prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

TASK = "AlbertMaskedLM"
MEGABYTE = 2**20
LIBRARIES = ("keras_albert", "keras_albert, remat", "KerasHub")


def build(library: str, size: str, vocabulary_size: int, dtype: str = "float32") -> Any:
    """Build a side's model of the same sizes and with the same optimizer."""
    import keras_hub
    from peer_models import compile_alike, keras_hub_backbone

    is_remat = library.endswith("remat")
    model = build_task(TASK, size, vocabulary_size, remat=is_remat, dtype=dtype)
    if library == "KerasHub":
        backbone = keras_hub_backbone(model.backbone, dtype)
        model = keras_hub.models.AlbertMaskedLM(backbone)
    compile_alike(model)
    model.optimizer.build(model.trainable_variables)
    return model


@dataclass(frozen=True)
class Step:
    """A step to measure in a new process."""

    library: str
    size: str
    vocabulary_size: int
    rows: int
    length: int
    policy: str
    clock: str

    def build(self) -> Any:
        return build(self.library, self.size, self.vocabulary_size, self.policy)


def account(step: Step) -> dict[str, float]:
    """Return the JAX compiler's MB of temporaries, and seconds to trace and compile."""
    from lower_step import lower_training_step

    model, clock = step.build(), CLOCKS[step.clock]
    start = clock()
    slots = mask_slots(step.length)
    compiled = lower_training_step(model, step.rows, step.length, slots).compile()
    memory = compiled.memory_analysis().temp_size_in_bytes / MEGABYTE
    seconds = clock() - start
    return {"MB": memory, "seconds": seconds, "parameters": model.count_params()}


def peak(step: Step) -> dict[str, float]:
    """Run a step and return the growth of memory."""
    ids, y = inputs_of(TASK, step.vocabulary_size, step.rows, step.length)
    parameters, clock = 0, CLOCKS[step.clock]
    if step.library == "transformers":
        run = _transformers(step, ids, y)
    else:
        model = step.build()
        parameters = model.count_params()

        def run() -> None:
            model.train_on_batch(ids, y)

    before = _memory(reset=True)
    start = clock()
    run()
    seconds = clock() - start
    grown = (_memory() - before) / MEGABYTE
    return {"MB": grown, "seconds": seconds, "parameters": parameters}


def _transformers(step: Step, ids: Any, y: Any) -> Any:
    import tempfile

    from peer_models import TransformersModel

    ours = build_task(TASK, step.size, step.vocabulary_size)
    with tempfile.TemporaryDirectory() as folder:
        ours.export_to_transformers(Path(folder) / "transformers")
        peer = TransformersModel(Path(folder), "AutoModelForMaskedLM", step.policy)
    return transformers_step(peer, TASK, ids, y)


def _memory(reset: bool = False) -> int:
    """Return the peak memory in bytes, or with `reset` the current one."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        if reset:
            torch.cuda.reset_peak_memory_stats()
            return torch.cuda.memory_allocated()
        return torch.cuda.max_memory_allocated()
    words = Path("/proc/self/status").read_text().split()
    # A higher peak before the step would hide the step's.
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return int(words[words.index("VmRSS:" if reset else "VmHWM:") + 1]) * 1024


def compare(
    arguments: Any, size: str, vocabulary_size: int = VOCABULARY_SIZE
) -> Iterator[Comparison]:
    """Yield comparisons of a step's memory and of its time with compilation."""
    import keras

    is_jax = keras.config.backend() == "jax"
    libraries = [*arguments.libraries]
    if keras.config.backend() == "torch":
        # Its ALBERT does not support gradient checkpointing.
        libraries.append("transformers")
    question = {
        "size": size,
        "vocabulary_size": vocabulary_size,
        "rows": arguments.rows,
        "length": arguments.length,
        "policy": arguments.policy,
        "clock": arguments.clock,
    }
    answers: dict[str, list[dict[str, float]]] = {}

    def run(library: str) -> float:
        kind = "account" if is_jax else "peak"
        found = ask(__file__, {"kind": kind, "library": library, **question})
        answers.setdefault(library, []).append(found)
        return found["MB"]

    shape = f"{arguments.rows} x {arguments.length}"
    title = f"memory of a step: {size}, {shape}, {question['policy']}"
    memory = measure(
        title,
        [Side(n, lambda n=n: run(n), gives_cost=True) for n in libraries],
        # The compiler's figure is always the same.
        1 if is_jax else arguments.repeats,
        unit="MB",
        notes=["ours and KerasHub have as many parameters; equal_shapes runs them"],
        warm_up=False,
    )
    counts = {n: found[0]["parameters"] for n, found in answers.items()}
    if len({count for count in counts.values() if count}) > 1:
        msg = f"The sides are not of one size: {counts}"
        raise ValueError(msg)
    yield memory
    yield Comparison(
        title.replace("memory of a step", "time of that step, compilation included"),
        {n: [a["seconds"] for a in found] for n, found in answers.items()},
        memory.amounts,
    )


def compare_on_chips(
    arguments: Any, size: str, chips: str, vocabulary_size: int
) -> Iterator[Comparison]:
    """Yield comparisons of the largest batch for a chip and its compilation time."""
    from jax.experimental import topologies
    from tpu_compile import search

    topology = topologies.get_topology_desc(platform="tpu", topology_name=chips)
    rows, seconds, found = {}, {}, []
    clock = CLOCKS[arguments.clock]
    for library in arguments.libraries:
        model = build(library, size, vocabulary_size, arguments.policy)
        slots = mask_slots(arguments.length)
        rows[library], compiled = search(
            model, slots, topology.devices, arguments.first, clock
        )
        seconds[library] = [compiled.seconds]
        fits = "" if compiled.available is None else ", which does not fit"
        found.append(f"{library}: {rows[library]} rows a chip{fits}")
    title = f"{size} on {chips}, {arguments.length} tokens"
    # So that a ratio is keras_albert's number of rows relative to the side's.
    room = {library: [1 / n] for library, n in rows.items()}
    ones = dict.fromkeys(rows, 1.0)
    yield Comparison(f"share of a chip for a row: {title}", room, ones, "1", "", found)
    yield Comparison(f"compilation: {title}", seconds, ones)


def work(kind: str, **question: Any) -> dict[str, float]:
    return {"account": account, "peak": peak}[kind](Step(**question))


def main() -> None:
    if answer_worker(work):
        return
    made = timing_parser(__doc__)
    made.add_argument("--sizes", nargs="+", choices=SIZES, help="default: --size")
    made.add_argument(
        "--libraries", nargs="+", default=LIBRARIES, choices=LIBRARIES, metavar="NAME"
    )
    made.add_argument("--rows", type=int, default=8)
    made.add_argument("--length", type=int, default=512)
    made.add_argument("--policy", choices=POLICIES)
    made.add_argument("--chips", help="of a TPU, for instance v5e:2x2")
    made.add_argument("--first", type=int, default=512, help="rows a chip tried first")
    arguments = made.parse_args()
    if arguments.policy is None:
        arguments.policy = "mixed_bfloat16" if arguments.chips else "float32"
    prepare(arguments)
    if arguments.chips:
        # It sets the backend and must be imported first.
        importlib.import_module("tpu_compile")
    import keras
    from reports import report

    backend = keras.config.backend()
    where = arguments.chips
    comparisons = (
        comparison
        for size in arguments.sizes or [arguments.size]
        for comparison in (
            compare_on_chips(arguments, size, where, VOCABULARY_SIZE)
            if where
            else compare(arguments, size)
        )
    )
    report("step_memory", comparisons, arguments, where or backend)


if __name__ == "__main__":
    main()
