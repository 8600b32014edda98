"""Fine-tune an embedder on the sentence pairs of STS-B, and print Spearman's rho.

    python examples/sentence_similarity.py path/to/STS-B --limit 1000
    python examples/sentence_similarity.py path/to/STS-B --objective contrastive \
        --preset albert_base_v2_en_uncased

The data are the official GLUE files `train.tsv` and `dev.tsv`: pairs of sentences and
their similarity, from 0 to 5. It is compared with the cosine of the two embeddings,
before and after training. `--objective contrastive` trains on the pairs alone, those
with a score of at least 4: each sentence must be matched with its partner in the batch.
Without `--preset`, a small model is trained from random weights.
"""

import argparse
import csv
import time
from pathlib import Path

from keras_albert.cli.arguments import SEED, whole_number
from keras_albert.cli.loading import loading

with loading("sentence_similarity.py"):
    import keras

    from keras_albert import (
        AlbertBackbone,
        AlbertTextEmbedder,
        AlbertTextEmbedderPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.tasks import similarity_scores
    from keras_albert.text import train_vocabulary

Pairs = tuple[list[str], list[str]]
ALIKE = 4.0
HIGHEST = 5.0


def read_file(path: Path, limit: int | None) -> tuple[Pairs, list[float]]:
    """Read pairs and their scores; truncated rows are skipped."""
    names = ("sentence1", "sentence2", "score")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [[row[name] for name in names] for row in reader]
    rows = [row for row in rows if None not in row][:limit]
    first, second, scores = map(list, zip(*rows, strict=True))
    return (first, second), [float(score) for score in scores]


def build(preset: str | None, pairs: Pairs, objective: str) -> AlbertTextEmbedder:
    """Build an embedder with pretrained weights, or a small one with random ones."""
    if preset is not None:
        return AlbertTextEmbedder.from_preset(preset, objective=objective)
    tokenizer = AlbertTokenizer(
        train_vocabulary(
            pairs[0] + pairs[1], vocabulary_size=4000, hard_vocab_limit=False
        )
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=4,
        embedding_dim=128,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=0.1,
        max_sequence_length=64,
    )
    preprocessor = AlbertTextEmbedderPreprocessor(tokenizer, max_sequence_length=64)
    return AlbertTextEmbedder(backbone, preprocessor, objective=objective)


def spearman(embedder: AlbertTextEmbedder, pairs: Pairs, scores: list[float]) -> float:
    """Return the rank correlation of the cosines and the scores."""
    first, second = (embedder.embed(column, batch_size=64) for column in pairs)
    return similarity_scores(first, second, scores)["Spearman"]


def main() -> None:
    """Evaluate, fine-tune, and evaluate again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="directory with train.tsv and dev.tsv")
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument(
        "--objective", choices=("cosine", "contrastive"), default="cosine"
    )
    parser.add_argument("--epochs", type=whole_number(), default=4)
    parser.add_argument("--batch-size", type=whole_number(), default=32)
    parser.add_argument(
        "--limit", type=whole_number(), help="maximum number of rows of each file"
    )
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    started = time.perf_counter()
    keras.utils.set_random_seed(arguments.seed)
    pairs, scores = read_file(arguments.data / "train.tsv", arguments.limit)
    dev = read_file(arguments.data / "dev.tsv", arguments.limit)
    embedder = build(arguments.preset, pairs, arguments.objective)
    before = spearman(embedder, *dev)
    how = {"batch_size": arguments.batch_size, "epochs": arguments.epochs}
    if arguments.objective == "cosine":
        embedder.fit(
            pairs,
            [score / HIGHEST for score in scores],
            validation_data=(dev[0], [score / HIGHEST for score in dev[1]]),
            **how,
        )
    else:
        alike = [row for row, score in enumerate(scores) if score >= ALIKE]
        first, second = ([column[row] for row in alike] for column in pairs)
        embedder.fit((first, second), **how)
    after = spearman(embedder, *dev)
    minutes = (time.perf_counter() - started) / 60
    print(
        f"STS-B dev, Spearman's rho: {before:.3f} before training, {after:.3f} after "
        f"({len(dev[1]):,} pairs, {minutes:.1f} minutes, {keras.config.backend()}, "
        f"{embedder.count_params():,} parameters)"
    )
    if arguments.output:
        embedder.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
