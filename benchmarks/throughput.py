"""Measure tokens per second in pretraining, and hardware utilisation.

    KERAS_BACKEND=torch python benchmarks/throughput.py --sizes base large
    KERAS_BACKEND=jax python benchmarks/throughput.py

Training steps of the masked language model in bfloat16, with full rows of 128 and 512
tokens, as in pretraining. The peak rate is that of one large matrix product in the same
precision, measured in the same run, or the value of `--peak`, such as the data sheet's.
On a GPU start JAX with XLA_PYTHON_CLIENT_PREALLOCATE=false, so that memory is left for
PyTorch; on a CPU use `--tokens 1024`.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from typing import Any

from equal_shapes import VOCABULARY_SIZE, compare, mask_slots, shapes_parser
from settings import SIZES, prepare
from side_by_side import Comparison

TASK = "AlbertMaskedLM"
TERA = 1e12


def step_operations(config: dict[str, Any], length: int) -> float:
    """Return the floating-point operations of a training step for one row.

    Only matrix products count, with two operations for a multiplication and addition,
    and twice as many for the backward pass. Recomputation and scoring positions that
    are not masked do not count. Source: appendix B of
    [PaLM](https://arxiv.org/abs/2204.02311).

    Args:
        config: dict. The backbone's configuration.
        length: int. Tokens in the row.

    Returns:
        float.
    """
    hidden, embedding = config["hidden_dim"], config["embedding_dim"]
    inner = config["num_inner_repetitions"]
    weights = 4 * hidden**2 + 2 * hidden * config["intermediate_dim"]
    attention = 2 * length * hidden
    token = config["num_layers"] * inner * (weights + attention) + embedding * hidden
    slot = hidden * embedding + embedding * config["vocabulary_size"]
    return 3.0 * 2.0 * (length * token + mask_slots(length) * slot)


def product_rate(policy: str, repeats: int = 9) -> float:
    """Measure operations per second of a large product on PyTorch's device."""
    import torch

    is_gpu = torch.cuda.is_available()
    width = 8192 if is_gpu else 2048
    dtype = torch.float32 if policy == "float32" else torch.bfloat16
    a, b = torch.randn(2, width, width, device="cuda" if is_gpu else "cpu").to(dtype)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        # Reading one number waits for the device.
        (a @ b)[0, 0].item()
        seconds.append(time.perf_counter() - start)
    return 2.0 * width**3 / statistics.median(seconds[1:])


def with_utilisation(
    comparison: Comparison, operations: float, tokens: int, peak: float
) -> Comparison:
    """Add notes of each side's tokens per second and share of the peak rate."""
    for name, costs in comparison.costs.items():
        seconds = statistics.median(costs)
        rate = operations / seconds
        comparison.notes.append(
            f"{name}: {tokens / seconds:.4g} tokens/s, {rate / TERA:.3g} TFLOP/s, "
            f"{rate / peak:.1%} of {peak / TERA:.4g}"
        )
    return comparison


def compare_throughput(arguments: Any, size: str, peak: float) -> Iterator[Comparison]:
    from keras_albert.backbone import MODEL_SIZES

    of_size = argparse.Namespace(**vars(arguments) | {"size": size})
    config = {"num_inner_repetitions": 1, "vocabulary_size": VOCABULARY_SIZE}
    config |= MODEL_SIZES[size]
    for length in arguments.lengths:
        rows = max(1, arguments.tokens // length)
        shapes = ((rows, length),)
        (found,) = compare(TASK, shapes, of_size, kinds=("training step",))
        found.title = f"{size}, {arguments.policy}, {found.title}"
        operations = rows * step_operations(config, length)
        yield with_utilisation(found, operations, rows * length, peak)


def main() -> None:
    made = shapes_parser(__doc__)
    made.set_defaults(policy="mixed_bfloat16")
    made.add_argument("--sizes", nargs="+", choices=SIZES, help="default: --size")
    made.add_argument("--lengths", nargs="+", type=int, default=(128, 512))
    made.add_argument("--tokens", type=int, default=32768, help="of a batch")
    made.add_argument("--peak", type=float, help="TFLOP/s; default: a product's")
    arguments = made.parse_args()
    prepare(arguments)
    import keras
    from reports import report

    sizes = arguments.sizes or [arguments.size]
    peak = arguments.peak * TERA if arguments.peak else product_rate(arguments.policy)
    comparisons = (
        comparison
        for size in sizes
        for comparison in compare_throughput(arguments, size, peak)
    )
    report("throughput", comparisons, arguments, keras.config.backend())


if __name__ == "__main__":
    main()
