"""Compare programs that run an export from strings with Python's answers.

MediaPipe, fastembed and infinity, as far as they are installed, read the first
sentences of a file in GLUE's format:

    python benchmarks/string_clients.py path/to/SST-2/dev.tsv
"""

import argparse
import asyncio
import csv
import importlib.util
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

from keras_albert import AlbertClassifier, AlbertTextEmbedder
from keras_albert.checkpoints import export_checkpoint

CLASSIFIER, EMBEDDER = "albert_small_en_uncased_sst2", "albert_small_en_uncased"
QUANTIZED = (None, "dynamic_int8", "fp16")


def show(name, differences, texts, path=None):
    """Print the largest difference of each text's numbers, for two kinds of texts."""
    is_ascii = np.array([text.isascii() for text in texts])
    words = [name]
    for kind, chosen in (("ASCII", is_ascii), ("others", ~is_ascii)):
        if chosen.any():
            words.append(f"{chosen.sum()} {kind}: {differences[chosen].max():.1e}")
    if path is not None:
        files = [path] if path.is_file() else path.rglob("*")
        words.append(f"{sum(each.stat().st_size for each in files) / 1e6:.1f} MB")
    print(", ".join(words), flush=True)


def run_mediapipe(texts, folder):
    from mediapipe.tasks.python import text

    texts = [*texts, " ".join(texts)]  # The last one is longer than a row.
    classifier = AlbertClassifier.from_preset(CLASSIFIER)
    expected = classifier.classify(texts)
    for quantize in QUANTIZED:
        path = folder / f"classifier_{quantize}.tflite"
        classifier.export(path, format="mediapipe", quantize=quantize)
        with text.TextClassifier.create_from_model_path(str(path)) as client:
            answers = [client.classify(each).classifications[0] for each in texts]
        best = [answer.categories[0] for answer in answers]
        pairs = list(zip(best, expected, strict=True))
        same = sum(one.category_name == other["label"] for one, other in pairs)
        differences = [abs(one.score - other["score"]) for one, other in pairs]
        name = f"classifier {quantize or 'float32'}, {same} labels equal"
        show(name, np.array(differences), texts, path)
    embedder = AlbertTextEmbedder.from_preset(EMBEDDER)
    path = embedder.export(folder / "embedder.tflite", format="mediapipe")
    with text.TextEmbedder.create_from_model_path(str(path)) as client:
        vectors = [client.embed(each).embeddings[0].embedding for each in texts]
    differences = np.abs(np.stack(vectors) - embedder.embed(texts)).max(axis=1)
    show("embedder float32", differences, texts, path)


def run_fastembed(texts, folder):
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    embedder = AlbertTextEmbedder.from_preset(EMBEDDER)
    path = embedder.export(folder / "onnx", format="transformers_onnx")
    TextEmbedding.add_custom_model(
        model="mine/embedder",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(url="http://localhost"),
        dim=embedder.backbone.hidden_dim,
        model_file="onnx/model.onnx",
    )
    client = TextEmbedding("mine/embedder", specific_model_path=str(path), threads=1)
    vectors = np.stack(list(client.embed(texts)))
    show("embedder", np.abs(vectors - embedder.embed(texts)).max(axis=1), texts)


def run_infinity_emb(texts, folder):
    from infinity_emb import AsyncEmbeddingEngine, EngineArgs

    embedder = AlbertTextEmbedder.from_preset(EMBEDDER)
    path = folder / "sentence_transformers"
    export_checkpoint(embedder, path, "sentence-transformers")
    settings = {"engine": "torch", "device": "cpu", "bettertransformer": False}
    engine = AsyncEmbeddingEngine.from_args(
        EngineArgs(model_name_or_path=str(path), compile=False, **settings)
    )

    async def embed():
        async with engine:
            return (await engine.embed(sentences=texts))[0]

    vectors = np.stack(asyncio.run(embed()))
    show("embedder, torch", np.abs(vectors - embedder.embed(texts)).max(axis=1), texts)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dev", type=Path, help="a TSV file with the column `sentence`")
    parser.add_argument("--limit", type=int, default=200)
    arguments = parser.parse_args()
    with arguments.dev.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        texts = [row["sentence"] for row in rows][: arguments.limit]
    for name, run in (
        ("mediapipe", run_mediapipe),
        ("fastembed", run_fastembed),
        ("infinity_emb", run_infinity_emb),
    ):
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed")
            continue
        print(f"{name} {version(name)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            run(texts, Path(folder))


if __name__ == "__main__":
    main()
