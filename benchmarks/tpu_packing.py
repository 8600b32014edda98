"""Compare texts per training step on a TPU, whose compiler estimates memory and time.

    pip install libtpu
    python benchmarks/tpu_packing.py --data DIRECTORY

The classifier in mixed_bfloat16, on one chip, with texts of SST-2: ours with
`share_rows=True`, whose rows are those of its batches, and KerasHub's with a row for
each text, of the length of the longest one. No TPU is needed. Prints the largest number
of texts that fits on a chip. The seconds are the compiler's estimate (`cost_analysis`)
for unrolled layers on both sides, since it counts the body of a loop once.
"""

from typing import Any

# It sets the backend and must be imported first.
from tpu_compile import compile_lowered, search_rows  # isort: skip

import numpy as np
from lower_step import lower_step
from peer_models import build_backbone, compile_alike
from settings import parser, read_tasks, read_vocabulary

from keras_albert import AlbertClassifier, AlbertClassifierPreprocessor, AlbertTokenizer
from keras_albert.layers.shared_rows import ROW_TOKENS, TOKEN_PLACES
from keras_albert.tasks.inputs.shared_row_batches import SharedRowBatches
from keras_albert.text.packing.shared_rows import RowShape

POLICY = "mixed_bfloat16"
LIBRARIES = ("keras_albert", "KerasHub")


def build(library: str, size: str, vocabulary_size: int, unroll: bool) -> Any:
    """Return a side's compiled classifier."""
    backbone = build_backbone(size, vocabulary_size, dtype=POLICY, unroll=unroll)
    if library == "keras_albert":
        model = AlbertClassifier(backbone, num_classes=2)
    else:
        import keras_hub

        config = backbone.get_config()
        names = (
            *("vocabulary_size", "num_layers", "num_heads", "embedding_dim"),
            *("hidden_dim", "intermediate_dim", "num_groups", "max_sequence_length"),
        )
        peer = keras_hub.models.AlbertBackbone(
            **{name: config[name] for name in names}, dtype=POLICY
        )
        model = keras_hub.models.AlbertTextClassifier(peer, num_classes=2)
    compile_alike(model)
    model.optimizer.build(model.trainable_variables)
    return model


def make_batch(texts: int, length: int, shape: RowShape | None = None) -> Any:
    """Return arrays of the shapes of a batch, with rows that texts share or without."""
    names = ("token_ids", "segment_ids", "padding_mask")
    x = {name: np.empty((texts, length), "int32") for name in names}
    if shape is not None:
        x[ROW_TOKENS] = np.empty((shape.rows[texts], shape.width), "int32")
        x[TOKEN_PLACES] = np.empty((texts, length), "int32")
    return x, np.empty(texts, "int32")


def choose_rows(examples: Any, padded_length: Any, texts: int, width: int) -> RowShape:
    """Return the rows in which each batch of that many texts fits."""
    shape = RowShape(width)
    SharedRowBatches(examples, padded_length, texts, True, shape=shape)
    return shape


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--chip", default="v5e:2x2", help="one chip of this topology")
    made.add_argument(
        "--length", type=int, help="KerasHub's; default: that of the longest text"
    )
    made.add_argument("--first", type=int, default=8192, help="texts tried first")
    made.add_argument(
        "--libraries", nargs="+", default=LIBRARIES, choices=LIBRARIES, metavar="NAME"
    )
    arguments = made.parse_args()
    from jax.experimental import topologies

    topology = topologies.get_topology_desc(
        platform="tpu", topology_name=arguments.chip
    )
    devices = topology.devices[:1]
    tokenizer = AlbertTokenizer(read_vocabulary(arguments.data))
    preprocessor = AlbertClassifierPreprocessor(tokenizer, share_rows=True)
    (texts, _), *_ = (task.train for task in read_tasks(arguments.data, ["sst-2"]))
    examples, _ = preprocessor.encode(texts)
    lengths = examples.lengths
    longest = -(-int(lengths.max()) // 8) * 8
    fixed = arguments.length or longest
    padded = preprocessor.padded_length
    print(
        f"{len(texts)} texts of {lengths.mean():.1f} tokens, {lengths.max()} at most, "
        f"{(lengths > fixed).sum()} of more than {fixed}; {arguments.size}, {POLICY}, "
        f"a chip of {arguments.chip}\n"
    )
    print("| | texts a step | rows | GB | flops | bytes | s | texts/s |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for library in arguments.libraries:
        model = build(library, arguments.size, tokenizer.vocabulary_size(), False)

        width = model.backbone.hidden_dim

        def batch_of(count: int, library: str = library, width: int = width) -> Any:
            if library != "keras_albert":
                return make_batch(count, fixed)
            shape = choose_rows(examples, padded, count, width)
            return make_batch(count, longest, shape)

        def compile_rows(count: int, model: Any = model, batch: Any = batch_of) -> Any:
            return compile_lowered(lower_step(model, batch(count), devices))

        count, compiled = search_rows(compile_rows, arguments.first)
        program, batch = compiled.program, batch_of(count)
        rows = batch[0].get(ROW_TOKENS, batch[0]["token_ids"]).shape
        if library == "keras_albert":
            model = build(library, arguments.size, tokenizer.vocabulary_size(), True)
            program = lower_step(model, batch, devices).compile()
        cost = program.cost_analysis()
        seconds = cost["optimal_seconds"]
        print(
            f"| {library} | {count} | {rows[0]} x {rows[1]} | {compiled.used:.1f} "
            f"| {cost['flops']:.3g} | {cost['bytes accessed']:.3g} | {seconds:.3g} "
            f"| {count / seconds:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
