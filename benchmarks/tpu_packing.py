"""Compare the estimated cycles of a fine-tuning step on a TPU with KerasHub's.

    pip install libtpu
    python benchmarks/tpu_packing.py --data DIRECTORY --sizes base tiny

A step trains a classifier on the same number of texts, in mixed_bfloat16. Those of
keras_albert share rows (`pack_sequences=True`, in the shape that `fit` chooses), those
of KerasHub are padded to a fixed length. The TPU compiler compiles it without a
TPU and estimates the cycles of most instructions. Their sum has no noise, but nothing
has run: it contains neither gathers and scatters, of which there is no estimate and
which are only counted, nor what a step waits for memory and for the host. The ratio is
to the first row of a size.
"""

import argparse
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lower_step import Described, lower_step
from settings import SEED, SIZES, TextTask, read_tasks, read_vocabulary
from tpu_cycles import Cycles, count_cycles

POLICY = "mixed_bfloat16"
# Lengths of KerasHub's rows are multiples of it.
GRAIN = 8


@dataclass(frozen=True)
class Texts:
    """Texts whose ids are known.

    Args:
        examples: The encoded texts, a `text.packing.Examples`.
        batches: The batches that `fit` makes of them, a `PackedBatches`.
    """

    examples: Any
    batches: Any

    def longest(self) -> int:
        """Return the shortest multiple of 8 tokens that no text exceeds."""
        return -(-int(self.examples.lengths.max()) // GRAIN) * GRAIN

    def cut(self, length: int) -> int:
        """Return how many texts have more tokens than a row."""
        return int((self.examples.lengths > length).sum())


def encode(model: Any, task: TextTask, count: int) -> Texts:
    """Return the texts of a task, in batches of `count` texts that share rows."""
    import keras
    import numpy as np

    from keras_albert.data.batches import make_batches
    from keras_albert.data.tables import RawData

    # The order of the texts, and with it the shape of rows, is random.
    keras.utils.set_random_seed(SEED)
    model.preprocessor.pack_sequences = True
    texts, labels = task.train
    data = RawData(texts, np.asarray(labels, "int32"))
    batches = make_batches(model, data, count, "training", shuffle=True)
    return Texts(batches.examples, batches)


def packed_batch(texts: Texts, width: int | None = None) -> Any:
    """Return a batch whose texts share rows.

    Args:
        texts: `Texts`.
        width: int. The tokens of a row. Defaults to `None`, as `fit` chooses.
    """
    from keras_albert.data.batches import pack_sequences
    from keras_albert.text.packing import PackedShape

    batch = texts.batches[0]
    if width is None:
        return batch
    shape = PackedShape(texts.batches.shape.hidden_dim)
    shape.width = width
    return pack_sequences(batch, shape)


def padded_batch(model: Any, count: int, length: int) -> Any:
    """Return the shapes of a batch whose texts have a row each."""
    x = {name: Described((count, length), "int32") for name in model.input}
    return x, Described((count,), "int32")


def estimate(model: Any, batch: Any, device: Any) -> Cycles:
    """Compile a training step for a TPU and return the sum of its estimates."""
    from peer_models import compile_alike

    compile_alike(model)
    model.optimizer.build(model.trainable_variables)
    return count_cycles(lower_step(model, batch, [device]).compile().as_text())


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    side: str
    shape: tuple[int, int]
    cycles: Cycles


def measure(
    task: TextTask, vocabulary: bytes, size: str, arguments: Any, device: Any
) -> Iterator[Row]:
    """Yield the rows of a size, keras_albert's first."""
    import keras_hub
    from peer_models import build_classifier, keras_hub_backbone

    parameters = set()
    for unroll in (None, True):
        model = build_classifier(
            size, vocabulary, task.num_classes, dtype=POLICY, unroll=unroll
        )
        parameters.add(model.count_params())
        texts = encode(model, task, arguments.texts)
        for width in arguments.widths or (None,):
            batch = packed_batch(texts, width)
            side = "keras_albert, unrolled" if unroll else "keras_albert"
            cycles = estimate(model, batch, device)
            yield Row(side, batch[0]["row_tokens"].shape, cycles)
    peer = keras_hub.models.AlbertTextClassifier(
        keras_hub_backbone(model.backbone, POLICY), num_classes=task.num_classes
    )
    parameters.add(peer.count_params())
    if len(parameters) > 1:
        msg = f"The sides are not of one size: {parameters}"
        raise ValueError(msg)
    for length in arguments.lengths or (64, texts.longest()):
        batch = padded_batch(peer, arguments.texts, length)
        cut = texts.cut(length)
        side = f"KerasHub, {cut} texts cut" if cut else "KerasHub"
        cycles = estimate(peer, batch, device)
        yield Row(side, (arguments.texts, length), cycles)


def main() -> None:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--data", type=Path, help="with SST-2; otherwise the messages")
    made.add_argument("--sizes", nargs="+", default=("base", "tiny"), choices=SIZES)
    made.add_argument("--texts", type=int, default=256, help="of a step")
    made.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        help="of KerasHub; default: 64, and the longest",
    )
    made.add_argument(
        "--widths", nargs="+", type=int, help="of shared rows; default: that of `fit`"
    )
    made.add_argument("--chips", default="v5e:2x2", help="of which one runs the step")
    arguments = made.parse_args()
    # It sets the backend and must be imported first.
    importlib.import_module("tpu_compile")
    from jax.experimental import topologies

    (device, *_) = topologies.get_topology_desc(
        platform="tpu", topology_name=arguments.chips
    ).devices
    (task,) = read_tasks(arguments.data, ["sst-2"])
    vocabulary = read_vocabulary(arguments.data)
    print("| size | side | rows | million cycles | in loops | no estimate | ratio |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for size in arguments.sizes:
        ours = 0
        for row in measure(task, vocabulary, size, arguments, device):
            cycles = row.cycles
            # The first row.
            ours = ours or cycles.total
            print(
                f"| {size} | {row.side} | {row.shape[0]} x {row.shape[1]} "
                f"| {cycles.total / 1e6:.2f} | {cycles.loops / 1e6:.2f} "
                f"| {cycles.moves} | {cycles.total / ours:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
