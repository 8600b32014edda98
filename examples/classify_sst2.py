"""Train a small ALBERT from random weights on SST-2, and print its dev accuracy.

The data are the official GLUE files `train.tsv` and `dev.tsv`:

    python examples/classify_sst2.py path/to/SST-2
    KERAS_BACKEND=jax python examples/classify_sst2.py path/to/SST-2

There are about 67,000 phrases of movie reviews, positive or negative. Half of the dev
sentences are positive, so guessing reaches 51%. Pretrained weights reach 90% and more:
pass `--preset` with the name or the directory of a preset.
"""

import argparse
import csv
import time
from pathlib import Path

from keras_albert.cli.arguments import SEED, whole_number
from keras_albert.cli.loading import loading

with loading("classify_sst2.py"):
    import keras

    from keras_albert import (
        AlbertBackbone,
        AlbertClassifier,
        AlbertClassifierPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.text import train_vocabulary

LABELS = ("negative", "positive")


def read_glue(path: Path, limit: int | None) -> tuple[list[str], list[int]]:
    """Read the sentences and the labels of a GLUE file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = rows[:limit]
    return [row["sentence"] for row in rows], [int(row["label"]) for row in rows]


def build_classifier(texts: list[str], vocabulary_size: int) -> AlbertClassifier:
    """Build a model of 0.9 million random weights, and train its vocabulary."""
    proto = train_vocabulary(texts, vocabulary_size=vocabulary_size)
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=3,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=0.2,
        max_sequence_length=128,
    )
    preprocessor = AlbertClassifierPreprocessor(tokenizer, max_sequence_length=128)
    return AlbertClassifier(backbone, preprocessor=preprocessor, labels=LABELS)


def main() -> None:
    """Train, evaluate, and print the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="directory with train.tsv and dev.tsv")
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument("--epochs", type=whole_number(), default=2)
    parser.add_argument("--batch-size", type=whole_number(), default=64)
    parser.add_argument("--vocabulary-size", type=whole_number(), default=8000)
    parser.add_argument(
        "--limit", type=whole_number(), help="maximum number of rows of each file"
    )
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    started = time.perf_counter()
    keras.utils.set_random_seed(arguments.seed)
    texts, labels = read_glue(arguments.data / "train.tsv", arguments.limit)
    dev = read_glue(arguments.data / "dev.tsv", arguments.limit)
    if arguments.preset:
        classifier = AlbertClassifier.from_preset(arguments.preset, labels=LABELS)
    else:
        classifier = build_classifier(texts, arguments.vocabulary_size)
    classifier.fit(
        texts,
        labels,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=dev,
    )
    scores = classifier.evaluate(*dev, verbose=0, return_dict=True)
    minutes = (time.perf_counter() - started) / 60
    print(
        f"SST-2 dev accuracy {scores['accuracy']:.1%} after {minutes:.1f} minutes "
        f"({keras.config.backend()}, {classifier.count_params():,} parameters)"
    )
    for text in ("a gorgeous, witty, seductive movie .", "a dull, lifeless mess ."):
        answer = classifier.classify(text)
        print(f"{answer['label']:>8} {answer['score']:.3f}  {text}")
    if arguments.output:
        classifier.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
