"""Compare preprocessing of strings: tokenizing, truncating, packing, padding.

    python benchmarks/text_to_batch.py --data DIRECTORY --threads 1
    python benchmarks/text_to_batch.py --data DIRECTORY

The first command uses one core, the second all. Three sentences for each passage,
batches of 32, as NumPy arrays. No model runs.
"""

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from settings import mixed_texts, prepare, read_vocabulary, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

BATCH_SIZE = 32
LENGTH = 512


def transformers_sides(tokenizer: Any, texts: list[str]) -> list[Side]:
    options = {
        "padding": True,
        "truncation": True,
        "max_length": LENGTH,
        "return_tensors": "np",
    }

    def by_batch() -> None:
        for start in range(0, len(texts), BATCH_SIZE):
            tokenizer(texts[start : start + BATCH_SIZE], **options)

    def at_once() -> None:
        tokenizer(texts, **options)

    return [
        Side("transformers, each batch padded", by_batch, len(texts)),
        Side("transformers, padding=True", at_once, len(texts)),
    ]


def keras_hub_sides(preprocessor: Any, texts: list[str]) -> list[Side]:
    def by_batch() -> None:
        for start in range(0, len(texts), BATCH_SIZE):
            preprocessor(texts[start : start + BATCH_SIZE])

    sides = [Side(f"KerasHub, length {LENGTH}", by_batch, len(texts))]
    if importlib.util.find_spec("tensorflow") is None:
        return sides

    def in_graph() -> None:
        import tensorflow as tf

        from keras_albert.data.datasets import without_autotune

        texts_in = tf.data.Dataset.from_tensor_slices(texts).batch(BATCH_SIZE)
        batches = texts_in.map(preprocessor, num_parallel_calls=tf.data.AUTOTUNE)
        # Without autotuning, which would delay the end of the data set.
        for _ in without_autotune(batches.prefetch(2)).as_numpy_iterator():
            pass

    name = f"KerasHub in tf.data, length {LENGTH}"
    return [*sides, Side(name, in_graph, len(texts), optional=True)]


def compare(texts: list[str], vocabulary: bytes, arguments: Any) -> Comparison:
    from peer_models import (
        TransformersModel,
        build_classifier,
        load_keras_hub,
        write_peers,
    )
    from text_ways import make_batches, same_ids

    # The model is only needed to write the checkpoints.
    ours = build_classifier("tiny", vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        write_peers(ours, Path(folder))
        preprocessor = load_keras_hub(Path(folder)).preprocessor
        peer = TransformersModel(Path(folder))
    ids = {
        name: made(texts[:64])["token_ids"]
        for name, made in (("ours", ours.preprocessor), ("KerasHub", preprocessor))
    }
    width = ids["ours"].shape[1]
    if not np.array_equal(ids["ours"], _numpy(ids["KerasHub"])[:, :width]):
        msg = "KerasHub's preprocessor returns other ids."
        raise ValueError(msg)
    notes = [
        "KerasHub's preprocessor returns the same ids",
        same_ids(ours, peer, texts[:1000]),
    ]
    ours_side = Side("keras_albert", lambda: make_batches(ours, texts), len(texts))
    return measure(
        "text to batch",
        [
            ours_side,
            *transformers_sides(peer.tokenizer, texts),
            *keras_hub_sides(preprocessor, texts),
        ],
        arguments.repeats,
        clock=CLOCKS[arguments.clock],
        work="texts",
        notes=notes,
    )


def _numpy(array: Any) -> Any:
    import keras

    return keras.ops.convert_to_numpy(array)


def main() -> None:
    made = timing_parser(__doc__)
    made.add_argument("--examples", type=int, default=4096)
    arguments = made.parse_args()
    prepare(arguments)
    from reports import machine, report

    cores = machine()["cores"]
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if cores > 1 else "false"
    texts = mixed_texts(arguments.data, arguments.examples)
    comparison = compare(texts, read_vocabulary(arguments.data), arguments)
    report("text_to_batch", [comparison], arguments, f"{cores} cores")


if __name__ == "__main__":
    main()
