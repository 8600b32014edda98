"""Train a small ALBERT from random weights to fill in masked words.

The data are text files, plain or gzip, with one paragraph per line:

    python examples/fill_mask.py path/to/texts
    KERAS_BACKEND=jax python examples/fill_mask.py a.txt b.txt.gz --limit 20000

The last paragraphs are held out. The accuracy on their masked tokens is printed beside
the share of the most frequent token; a tenth of the masked tokens are unchanged, and
thus easy to predict. In a few hundred steps, the model learns little more than the
frequencies of tokens: 3 epochs of 3,000 paragraphs reach 11%. For more, train for hours
on a GPU, or start from published weights: `--preset albert_base_en_uncased`.
"""

import argparse
import gzip
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from keras_albert.cli.arguments import SEED, positive_number, whole_number
from keras_albert.cli.loading import loading

with loading("fill_mask.py"):
    import keras
    import numpy as np

    from keras_albert import (
        AlbertBackbone,
        AlbertMaskedLM,
        AlbertMaskedLMPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.text import train_vocabulary

SENTENCES = (
    "She opened the [MASK] and looked out.",
    "He was the [MASK] of the house.",
    "It was a long time [MASK].",
)


def read_paragraphs(paths: list[Path]) -> Iterator[str]:
    """Read the lines of files, and of the text files in directories."""
    for path in paths:
        if path.is_dir():
            found = (*path.glob("*.txt"), *path.glob("*.txt.gz"))
            yield from read_paragraphs(sorted(found))
            continue
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as file:
            yield from (line.strip() for line in file if line.strip())


def build_masked_lm(
    texts: list[str], vocabulary_size: int, sequence_length: int
) -> AlbertMaskedLM:
    """Build a model of random weights, and train its vocabulary."""
    proto = train_vocabulary(
        texts, vocabulary_size=vocabulary_size, hard_vocab_limit=False
    )
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=3,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=512,
        max_sequence_length=sequence_length,
    )
    preprocessor = AlbertMaskedLMPreprocessor(
        tokenizer, max_sequence_length=sequence_length
    )
    return AlbertMaskedLM(backbone, preprocessor=preprocessor)


def commonest_accuracy(masked_lm: AlbertMaskedLM, texts: list[str]) -> float:
    """Return the accuracy of always predicting the most frequent token."""
    ids = masked_lm.preprocessor.tokenizer.tokenize_rows(texts).values
    counts = np.bincount(ids)
    return float(counts.max() / counts.sum())


def main() -> None:
    """Train, evaluate, and fill in a few masks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", type=Path, nargs="+", help="files or directories")
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument(
        "--limit", type=whole_number(), help="maximum number of paragraphs"
    )
    parser.add_argument("--epochs", type=whole_number(), default=3)
    parser.add_argument("--batch-size", type=whole_number(), default=32)
    parser.add_argument("--learning-rate", type=positive_number, default=2e-3)
    parser.add_argument("--vocabulary-size", type=whole_number(), default=4000)
    parser.add_argument("--sequence-length", type=whole_number(), default=64)
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    started = time.perf_counter()
    keras.utils.set_random_seed(arguments.seed)
    paragraphs = list(islice(read_paragraphs(arguments.texts), arguments.limit))
    cut = len(paragraphs) - max(1, len(paragraphs) // 20)
    train, held_out = paragraphs[:cut], paragraphs[cut:]
    if arguments.preset:
        masked_lm = AlbertMaskedLM.from_preset(arguments.preset)
    else:
        masked_lm = build_masked_lm(
            train, arguments.vocabulary_size, arguments.sequence_length
        )
        masked_lm.compile(learning_rate=arguments.learning_rate)
    masked_lm.fit(
        train,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=held_out,
        verbose=2,
    )
    scores = masked_lm.evaluate(held_out, verbose=0, return_dict=True)
    minutes = (time.perf_counter() - started) / 60
    print(
        f"held-out masked tokens: loss {scores['loss']:.3f}, accuracy "
        f"{scores['accuracy']:.1%} (the commonest token: "
        f"{commonest_accuracy(masked_lm, held_out):.1%}) after {minutes:.1f} minutes "
        f"({keras.config.backend()}, {masked_lm.count_params():,} parameters, "
        f"{len(train):,} paragraphs)"
    )
    for sentence in SENTENCES:
        print(sentence)
        for answer in masked_lm.fill_mask(sentence):
            print(f"  {answer['score']:6.1%}  {answer['sequence']}")
    if arguments.output:
        masked_lm.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
