"""Compare AdamW steps: keras_albert's, Keras', and PyTorch's fused implementation.

    KERAS_BACKEND=torch python benchmarks/optimizer.py --size base

Gradients are clipped by their norm, as in training. On TensorFlow and JAX, where `fit`
compiles the step, both Keras optimizers are the same; here they run uncompiled.
"""

import functools
from typing import Any

import numpy as np
from equal_shapes import VOCABULARY_SIZE
from peer_models import RATE, build_backbone
from settings import prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

TOLERANCE = 1e-6
# Negligible beside any gradient, because Keras and PyTorch add it at different places.
EPSILON = 1e-12


def keras_step(kind: Any, weights: list[Any], gradients: list[Any]) -> Any:
    """Return a function that takes a step of a Keras optimizer."""
    optimizer = kind(RATE, weight_decay=0.0, epsilon=EPSILON, global_clipnorm=1.0)
    return lambda: optimizer.apply(gradients, weights)


def torch_step(weights: list[Any], gradients: list[Any]) -> Any:
    """Return a function that takes a step of PyTorch's optimizer."""
    import torch

    values = [weight.value for weight in weights]
    optimizer = torch.optim.AdamW(
        values, lr=RATE, eps=EPSILON, weight_decay=0.0, fused=True
    )

    def step() -> None:
        for value, gradient in zip(values, gradients, strict=True):
            value.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(values, 1.0)
        optimizer.step()

    return step


def farthest(some: list[Any], others: list[Any]) -> float:
    """Return the largest difference between two lists of weights."""
    pairs = zip(some, others, strict=True)
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in pairs)


def compare(arguments: Any) -> Comparison:
    import keras

    from keras_albert.tasks.optimizers import AdamW

    model = build_backbone(arguments.size, VOCABULARY_SIZE)
    start = [np.array(weight) for weight in model.trainable_variables]
    generator = np.random.default_rng(0)
    gradients = [
        keras.ops.convert_to_tensor(generator.uniform(1e-3, 2e-3, w.shape).astype("f"))
        for w in start
    ]
    makers: dict[str, Any] = {
        "keras_albert": functools.partial(keras_step, AdamW),
        "Keras": functools.partial(keras_step, keras.optimizers.AdamW),
    }
    if keras.config.backend() == "torch":
        makers["PyTorch, fused"] = torch_step
    weights = {name: [keras.Variable(w) for w in start] for name in makers}
    steps = {name: make(weights[name], gradients) for name, make in makers.items()}
    for step in steps.values():
        step()
    ours, *others = weights.values()
    worst = max(farthest(ours, other) for other in others)
    moved = farthest(ours, start)
    if not worst < TOLERANCE < moved:
        msg = f"After a step of {moved:.1e} the weights differ by {worst:.1e}."
        raise ValueError(msg)
    return measure(
        f"AdamW: {arguments.size}, {sum(w.size for w in start):,} weights",
        [Side(name, step) for name, step in steps.items()],
        arguments.repeats,
        clock=CLOCKS[arguments.clock],
        notes=[f"weights within {worst:.1e} of each other after a step"],
    )


def main() -> None:
    arguments = timing_parser(__doc__).parse_args()
    prepare(arguments)
    import keras
    from reports import report

    report("optimizer", [compare(arguments)], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
