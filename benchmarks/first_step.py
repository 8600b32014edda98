"""Compare the first training step (tracing, compiling, running), in new processes.

    KERAS_BACKEND=jax python benchmarks/first_step.py --size base --depths 12 48

Timing begins with a built model with loaded weights, and ends with the first loss.
Depth counts virtual layers, which share their weights, so that one file of weights fits
any depth. `XLA_FLAGS`, caches and similar settings keep their defaults. On JAX, "again"
is a program that ran before, with JAX' compilation cache.
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


def work(
    library: str,
    folder: str,
    rows: int,
    length: int,
    vocabulary_size: int,
    clock: str,
) -> dict[str, float]:
    """Run the first step and return its seconds."""
    model = build(library, folder)
    ids, y = inputs_of(TASK, vocabulary_size, rows, length)
    if library.startswith("transformers"):
        inputs = model.tensors(ids)
        start = CLOCKS[clock]()
        model.train_step(inputs, y)
    else:
        start = CLOCKS[clock]()
        model.train_on_batch(ids, y)
    return {"seconds": CLOCKS[clock]() - start}


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
    sides, notes = [], []
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

                def run(question=question, environment=environment) -> float:
                    return ask(__file__, question, **environment)["seconds"]

                sides.append(Side(f"{library}, {depth} layers", run, gives_cost=True))
        return measure(
            f"first step: {arguments.rows} x {arguments.length}",
            sides,
            arguments.repeats,
            notes=notes,
            warm_up=False,
        )


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
