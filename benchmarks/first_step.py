"""Compare the first training step (tracing, compiling, running), in new processes.

    KERAS_BACKEND=jax python benchmarks/first_step.py --size base --depths 12 48

Timing begins with a built model with loaded weights, and ends with the first loss.
Depth counts virtual layers, which share their weights, so that one file of weights fits
any depth. `XLA_FLAGS`, caches and similar settings keep their defaults. On JAX, "again"
is a program that ran before, with JAX' compilation cache. The wall-clock time of the
phases of the step's program is printed as well: trace, lower, compile or read.
"""

import tempfile
from pathlib import Path
from typing import Any

from equal_shapes import VOCABULARY_SIZE, inputs_of, transformers_outputs, variants
from fresh_process import answer_worker, ask
from settings import prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

TASK = "AlbertClassifier"
AGAIN = ", again"
# JAX's events for the phases of a program.
PHASES = {
    "jaxpr_trace_duration": "trace",
    "jaxpr_to_mlir_module_duration": "lower",
    "backend_compile_duration": "compile or read",
}


def cache_settings(folder: Path) -> dict[str, str]:
    """Return the environment in which JAX keeps all compiled programs in a folder."""
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def build(library: str, folder: str) -> Any:
    """Load a side's model, compiled for training."""
    import keras
    from peer_models import TransformersModel, compile_alike, load_keras_hub

    from keras_albert import AlbertClassifier

    if library.startswith("transformers"):
        peer = TransformersModel(Path(folder))
        return peer.compiled() if "compiled" in library else peer
    if library == "KerasHub":
        model, compiling = load_keras_hub(Path(folder)), {}
    else:
        changes, compiling = variants(keras.config.backend())[library]
        model = AlbertClassifier.from_preset(folder + "/keras_albert", **changes)
    model.preprocessor = None
    compile_alike(model, **compiling)
    return model


def longest_phases() -> dict[str, float]:
    """Return a dict that fills with the longest seconds of each phase.

    The step's program is the longest; programs within it have events of their own.
    """
    import jax.monitoring

    found: dict[str, float] = {}

    def listen(event: str, seconds: float, **_: Any) -> None:
        phase = PHASES.get(event.rsplit("/", 1)[-1])
        if phase is not None:
            found[phase] = max(seconds, found.get(phase, 0))

    jax.monitoring.register_event_duration_secs_listener(listen)
    return found


def work(
    library: str, folder: str, rows: int, length: int, vocabulary_size: int, clock: str
) -> dict[str, Any]:
    """Run the first step and return its seconds."""
    import keras

    model = build(library, folder)
    phases = longest_phases() if keras.config.backend() == "jax" else {}
    ids, y = inputs_of(TASK, vocabulary_size, rows, length)
    if library.startswith("transformers"):
        inputs = model.tensors(ids)
        start = CLOCKS[clock]()
        model.train_step(inputs, y)
    else:
        start = CLOCKS[clock]()
        model.train_on_batch(ids, y)
    return {"seconds": CLOCKS[clock]() - start, "phases": phases}


def check(folder: str, vocabulary_size: int) -> str:
    """Check that all models compute the same outputs."""
    import numpy as np
    from peer_models import check_agreement

    ids, _ = inputs_of(TASK, vocabulary_size, 2, 16)
    outputs = {
        library: np.asarray(build(library, folder).predict_on_batch(ids))
        for library in ("keras_albert", "KerasHub")
    }
    peer = build("transformers", folder)
    outputs["transformers"] = transformers_outputs(peer, TASK, ids)
    return check_agreement(outputs)


def compare(arguments: Any, vocabulary_size: int = VOCABULARY_SIZE) -> Comparison:
    import keras
    from equal_shapes import build_task
    from peer_models import write_peers

    libraries = [*variants(keras.config.backend()), "KerasHub", "transformers"]
    if keras.config.backend() == "jax":
        libraries += ["keras_albert" + AGAIN, "KerasHub" + AGAIN]
    if arguments.torch_compile:
        libraries.append("transformers, compiled")
    sides, notes, phases = [], [], {}
    with tempfile.TemporaryDirectory() as name:
        for depth in arguments.depths:
            folder = Path(name) / str(depth)
            ours = build_task(TASK, arguments.size, vocabulary_size, num_layers=depth)
            ours.save_to_preset(folder / "keras_albert")
            write_peers(ours, folder)
            notes.append(f"{depth} layers: {check(str(folder), vocabulary_size)}")
            for library in libraries:
                question = {
                    "library": library.removesuffix(AGAIN),
                    "folder": str(folder),
                    "rows": arguments.rows,
                    "length": arguments.length,
                    "vocabulary_size": vocabulary_size,
                    "clock": arguments.clock,
                }

                environment = {}
                if library.endswith(AGAIN):
                    environment = cache_settings(folder / "programs")
                    ask(__file__, question, **environment)

                side = f"{library}, {depth} layers"

                def run(side=side, question=question, environment=environment) -> float:
                    answer = ask(__file__, question, **environment)
                    phases[side] = answer["phases"]
                    return answer["seconds"]

                sides.append(Side(side, run, gives_cost=True))
        measured = measure(
            f"first step: {arguments.rows} x {arguments.length}",
            sides,
            arguments.repeats,
            notes=notes,
            warm_up=False,
        )
    for side, found in phases.items():
        if found:
            words = (f"{phase} {seconds:.2f} s" for phase, seconds in found.items())
            measured.notes.append(f"{side}: {', '.join(words)}")
    return measured


def main() -> None:
    if answer_worker(work):
        return
    made = timing_parser(__doc__)
    made.add_argument("--depths", type=int, nargs="+", default=[12, 48])
    made.add_argument("--rows", type=int, default=8)
    made.add_argument("--length", type=int, default=128)
    made.add_argument("--torch-compile", action="store_true")
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    report("first_step", [compare(arguments)], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
