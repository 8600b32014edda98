"""Compare training steps in float32, bfloat16 and float16 with loss scaling.

    KERAS_BACKEND=jax python benchmarks/mixed_precision.py --sizes base large
    ... --sizes xlarge xxlarge --rows 1 --length 64 --repeats 1

The loss and the weights must be finite after every step. Whether 16 bits are faster
depends on the hardware: many CPUs emulate them.
"""

from typing import Any

import numpy as np
from equal_shapes import VOCABULARY_SIZE, build_task, inputs_of
from settings import SIZES, prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

TASK = "AlbertMaskedLM"
POLICIES = ("float32", "mixed_bfloat16", "mixed_float16")


def build(size: str, vocabulary_size: int, policy: str) -> Any:
    import keras
    from peer_models import compile_alike

    model = build_task(TASK, size, vocabulary_size, dtype=policy)
    compile_alike(model)
    is_scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    if is_scaled != (policy == "mixed_float16"):
        msg = f"{policy}: the optimizer is {type(model.optimizer).__name__}."
        raise ValueError(msg)
    return model


def step(model: Any, ids: Any, y: Any) -> None:
    """Train on a batch and check that the loss is finite."""
    loss = np.asarray(model.train_on_batch(ids, y)).reshape(-1)[0]
    if not np.isfinite(loss):
        msg = f"The loss is {loss} under {model.backbone.dtype_policy.name}."
        raise ValueError(msg)


def check_weights(models: dict[str, Any]) -> str:
    for name, model in models.items():
        for path, weight in zip(
            (w.path for w in model.weights), model.get_weights(), strict=True
        ):
            if not np.isfinite(np.asarray(weight, "float32")).all():
                msg = f"{name}: {path} is not finite any more."
                raise ValueError(msg)
    return "losses and weights are finite after every step"


def compare(
    arguments: Any, size: str, vocabulary_size: int = VOCABULARY_SIZE
) -> Comparison:
    ids, y = inputs_of(TASK, vocabulary_size, arguments.rows, arguments.length)
    models = {
        f"keras_albert, {policy}": build(size, vocabulary_size, policy)
        for policy in arguments.policies
    }
    start, *others = models.values()
    for model in others:
        model.set_weights(start.get_weights())
    outputs = [np.asarray(m.predict_on_batch(ids), "f") for m in models.values()]
    scale = float(np.abs(outputs[0]).max())
    worst = max(float(np.abs(o - outputs[0]).max()) / scale for o in outputs)
    # 8 bits of precision, through all layers.
    if not worst < 0.2:
        msg = f"Outputs differ by {worst:.0%} of the largest between precisions."
        raise ValueError(msg)
    found = measure(
        f"precision: {size}, {arguments.rows} x {arguments.length}",
        [
            Side(name, lambda m=model: step(m, ids, y), arguments.rows)
            for name, model in models.items()
        ],
        arguments.repeats,
        clock=CLOCKS[arguments.clock],
        work="rows",
        notes=[f"same weights, outputs within {worst:.1%} of the largest"],
    )
    found.notes.append(check_weights(models))
    return found


def main() -> None:
    made = timing_parser(__doc__)
    made.add_argument("--sizes", nargs="+", choices=SIZES, help="default: --size")
    made.add_argument("--policies", nargs="+", default=POLICIES, choices=POLICIES)
    made.add_argument("--rows", type=int, default=8)
    made.add_argument("--length", type=int, default=128)
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    sizes = arguments.sizes or [arguments.size]
    comparisons = (compare(arguments, size) for size in sizes)
    report("mixed_precision", comparisons, arguments, keras.config.backend())


if __name__ == "__main__":
    main()
