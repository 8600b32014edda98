"""Fine-tune an embedder on titles and paragraphs, measure its search, and search.

    python examples/semantic_search.py wiki.txt.gz --query "who governed Egypt?"

The file has documents with a blank line between them: the title, and paragraphs, each
on a line. The title must find the second paragraph, which seldom repeats it, among
those of all documents that are not trained on. The other paragraphs of a batch are the
wrong answers in training. A batch is computed in parts (gradient caching), so that its
size does not cost memory, and the first numbers of a vector can be used alone
(Matryoshka). `--reference` names another embedder to compare with.
"""

import argparse
import gzip
import time
from pathlib import Path

from keras_albert.cli.arguments import SEED, whole_number
from keras_albert.cli.loading import loading

with loading("semantic_search.py"):
    import keras

    from keras_albert import AlbertTextEmbedder
    from keras_albert.tasks import retrieval_scores, search

SHORTEST = 200
LENGTH = 64


def read_pairs(path: Path, count: int) -> tuple[list[str], list[str]]:
    """Return titles, and the second paragraph of each that is not short."""
    unpack = gzip.open if path.suffix == ".gz" else open
    pairs: dict[str, str] = {}
    with unpack(path, "rt", encoding="utf-8") as file:
        for document in file.read().split("\n\n"):
            title, *paragraphs = document.strip().split("\n")
            long = [text for text in paragraphs[1:] if len(text) >= SHORTEST]
            if title and long:
                pairs.setdefault(title, long[0])
    if len(pairs) < count:
        raise SystemExit(f"{path} has {len(pairs)} documents, and {count} are needed.")
    titles = list(pairs)[:count]
    return titles, [pairs[title] for title in titles]


def load(preset: str, **kwargs: object) -> AlbertTextEmbedder:
    """Load an embedder that reads the beginning of each text."""
    embedder = AlbertTextEmbedder.from_preset(preset, **kwargs)
    embedder.preprocessor.max_sequence_length = LENGTH
    return embedder


def measure(
    name: str,
    embedder: AlbertTextEmbedder,
    dims: list[int],
    pairs: tuple[list[str], list[str]],
) -> None:
    """Print how well titles find their paragraphs, at each width."""
    titles, texts = pairs
    for dim in dims:
        queries, corpus = (embedder.embed(x, dim=dim) for x in (titles, texts))
        rows, _ = search(corpus, queries, top_k=100)
        scores = retrieval_scores(rows, [{row} for row in range(len(titles))])
        shown = "  ".join(f"{key} {value:.3f}" for key, value in scores.items())
        print(f"{name:<16} {dim:>3} numbers: {shown}", flush=True)


def main() -> None:
    """Measure, fine-tune, measure again, and search."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="a file of documents, .txt or .txt.gz")
    parser.add_argument("--preset", default="albert_small_en_uncased")
    parser.add_argument("--reference", help="a preset or a folder to compare with")
    parser.add_argument("--dims", type=whole_number(), nargs="+", default=[384, 64])
    parser.add_argument("--pairs", type=whole_number(), default=3000)
    parser.add_argument("--held-out", type=whole_number(), default=1000)
    parser.add_argument("--batch-size", type=whole_number(), default=64)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--query", action="append", default=[])
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    keras.utils.set_random_seed(arguments.seed)
    held, dims = arguments.held_out, arguments.dims
    titles, texts = read_pairs(arguments.data, arguments.pairs + held)
    held_out = titles[:held], texts[:held]
    if arguments.reference:
        measure("reference", load(arguments.reference), dims, held_out)
    embedder = load(
        arguments.preset,
        objective="contrastive",
        matryoshka_dims=dims,
        mini_batch_size=32,
    )
    measure("before training", embedder, dims, held_out)
    embedder.compile(learning_rate=arguments.learning_rate)
    started = time.perf_counter()
    embedder.fit(
        (titles[held:], texts[held:]), batch_size=arguments.batch_size, verbose=2
    )
    minutes = (time.perf_counter() - started) / 60
    print(f"{arguments.pairs:,} pairs, {minutes:.1f} minutes, {keras.config.backend()}")
    measure("after training", embedder, dims, held_out)
    if arguments.output:
        embedder.save_to_preset(arguments.output)
    corpus = embedder.embed(texts)
    for query in arguments.query:
        for row, cosine in zip(*embedder.search(corpus, query, top_k=3), strict=True):
            print(f"{query}  {cosine:.2f}  {titles[row]}: {texts[row][:60]}...")


if __name__ == "__main__":
    main()
