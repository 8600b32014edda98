"""A step of AdamW on the weights of a model: ours, Keras' own, PyTorch's fused one.

    KERAS_BACKEND=torch python benchmarks/optimizer.py --size base

Gradients are clipped by their norm, as in training. On TensorFlow and JAX, where `fit`
compiles the step, both Keras optimizers are one; here they run by themselves.
"""

from typing import Any

import numpy as np
from equal_shapes import VOCABULARY_SIZE
from peers import RATE, build_backbone
from settings import parser, prepare
from side_by_side import Comparison, Side, measure

TOLERANCE = 1e-6
# So small, beside any gradient, that it is all one where it is added: Keras and PyTorch
# differ in that.
EPSILON = 1e-12


def keras_step(optimizer: Any, gradients: list[Any], size: str) -> tuple[Any, Any]:
    """Give a step, and a look at the weights."""
    weights = build_backbone(size, VOCABULARY_SIZE).trainable_variables
    return (
        lambda: optimizer.apply(gradients, weights),
        lambda: [np.asarray(weight) for weight in weights],
    )


def torch_step(gradients: list[Any], size: str) -> tuple[Any, Any]:
    """The same of PyTorch's own AdamW."""
    import torch

    variables = build_backbone(size, VOCABULARY_SIZE).trainable_variables
    weights = [variable.value for variable in variables]
    optimizer = torch.optim.AdamW(
        weights, lr=RATE, eps=EPSILON, weight_decay=0.0, fused=True
    )

    def step() -> None:
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient.clone()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()

    return step, lambda: [np.asarray(variable) for variable in variables]


def compare(arguments: Any) -> Comparison:
    import keras

    from keras_albert.tasks.adamw import AdamW

    generator = np.random.default_rng(0)
    start = [
        np.asarray(weight)
        for weight in build_backbone(
            arguments.size, VOCABULARY_SIZE
        ).trainable_variables
    ]
    gradients = [
        keras.ops.convert_to_tensor(generator.uniform(1e-3, 2e-3, w.shape).astype("f"))
        for w in start
    ]
    made = {
        name: keras_step(
            kind(RATE, weight_decay=0.0, epsilon=EPSILON, global_clipnorm=1.0),
            gradients,
            arguments.size,
        )
        for name, kind in (
            ("keras_albert", AdamW),
            ("Keras", keras.optimizers.AdamW),
        )
    }
    if keras.config.backend() == "torch":
        made["PyTorch, fused"] = torch_step(gradients, arguments.size)
    ours, *others = (look for step, look in made.values() if step() or True)
    worst = max(
        float(np.abs(one - other).max())
        for look in others
        for one, other in zip(ours(), look(), strict=True)
    )
    moved = max(
        float(np.abs(one - other).max())
        for one, other in zip(ours(), start, strict=True)
    )
    if not worst < TOLERANCE < moved:
        msg = f"After a step of {moved:.1e} the weights differ by {worst:.1e}."
        raise ValueError(msg)
    return measure(
        f"AdamW: {arguments.size}, {sum(w.size for w in start):,} weights",
        [Side(name, step) for name, (step, _) in made.items()],
        arguments.repeats,
        notes=[f"weights within {worst:.1e} of each other after a step"],
    )


def main() -> None:
    arguments = parser(__doc__).parse_args()
    prepare(arguments)
    import keras
    from reports import report

    report("optimizer", [compare(arguments)], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
