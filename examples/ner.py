"""Train an entity tagger on CoNLL files, and print F1 by entity on the dev file.

The files have a word and its tag on each line, and a blank line after each text. Pass
the directory that contains them, or the files themselves:

    python examples/ner.py path/to/wnut17
    python examples/ner.py --train train.conll --dev dev.conll --preset some/preset

Entities are scored by seqeval (`pip install seqeval`): bounds and label must both be
correct. Pretrained weights are far better than random ones: pass `--preset` with the
name or the directory of a preset. Without one, a small cased model with a vocabulary
from the words is trained.
"""

import argparse
import time
from pathlib import Path

from keras_albert.cli.arguments import SEED, positive_number, whole_number
from keras_albert.cli.loading import loading

with loading("ner.py"):
    import keras
    import numpy as np

    from keras_albert import (
        AlbertBackbone,
        AlbertTokenClassifier,
        AlbertTokenClassifierPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.text import TextRules, read_conll, tag_names, train_vocabulary
    from keras_albert.text.tags import convert_tags, detect_scheme, tags_to_spans

Texts = list[list[str]]


def find_file(directory: Path | None, part: str) -> Path:
    """Find the only file in a directory whose name contains the part."""
    if directory is None:
        raise SystemExit("Name the directory of the files, or both --train and --dev.")
    found = [path for path in sorted(directory.iterdir()) if part in path.name.lower()]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise SystemExit(
            f"One file of {directory} should have {part!r} in its name; found: "
            f"{names}. Pass --{part} FILE."
        )
    return found[0]


def read_tagged(path: Path, limit: int | None) -> tuple[Texts, Texts]:
    """Read words and their tags, converted to BIO."""
    words, tags = read_conll(path)
    words, tags = words[:limit], tags[:limit]
    return words, convert_tags(tags, detect_scheme(tags), "BIO")


def build_tagger(
    words: Texts, labels: tuple[str, ...], preset: str | None, vocabulary_size: int
) -> AlbertTokenClassifier:
    """Build a tagger with pretrained weights, or a small one with random ones."""
    if preset is not None:
        return AlbertTokenClassifier.from_preset(preset, labels=labels, scheme="BIO")
    proto = train_vocabulary(
        [" ".join(row) for row in words],
        vocabulary_size=vocabulary_size,
        text_rules=TextRules(lowercase=False, strip_accents=False),
        hard_vocab_limit=False,
    )
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=256,
        dropout=0.1,
        max_sequence_length=128,
    )
    preprocessor = AlbertTokenClassifierPreprocessor(tokenizer, max_sequence_length=128)
    return AlbertTokenClassifier(
        backbone, preprocessor=preprocessor, labels=labels, scheme="BIO"
    )


def main() -> None:
    """Train, and score the entities of the dev file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?", help="directory of the files")
    parser.add_argument("--train", type=Path, help="the file to train on")
    parser.add_argument("--dev", type=Path, help="the file to evaluate on")
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument("--epochs", type=whole_number(), default=20)
    parser.add_argument("--batch-size", type=whole_number(), default=32)
    parser.add_argument("--learning-rate", type=positive_number, help="the peak rate")
    parser.add_argument("--vocabulary-size", type=whole_number(), default=3000)
    parser.add_argument(
        "--limit", type=whole_number(), help="maximum number of texts of each file"
    )
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    started = time.perf_counter()
    keras.utils.set_random_seed(arguments.seed)
    train, dev = (
        read_tagged(path or find_file(arguments.data, part), arguments.limit)
        for part, path in (("train", arguments.train), ("dev", arguments.dev))
    )
    rows = train[1] + dev[1]
    kinds = {span.label for tags in rows for span in tags_to_spans(tags)}
    tagger = build_tagger(
        train[0], tag_names(kinds), arguments.preset, arguments.vocabulary_size
    )
    # This size allows a high rate from random weights, and rare entities need it.
    rate = None if arguments.preset else 3e-3
    tagger.compile(learning_rate=arguments.learning_rate or rate)
    tagger.fit(
        *train,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=dev,
        verbose=2,
    )
    scores = tagger.evaluate_entities(*dev)
    print(f"{'':16} precision recall     F1 entities")
    for name, row in [*scores["labels"].items(), ("all", scores)]:
        figures = f"{row['precision']:9.1%} {row['recall']:6.1%} {row['f1']:6.1%}"
        print(f"{name:16} {figures} {row['support']:8}")
    minutes = (time.perf_counter() - started) / 60
    count = np.sum([np.prod(v.shape) for v in tagger.weights])
    print(f"{minutes:.1f} minutes, {keras.config.backend()}, {count:,} parameters")
    text = "Empire State Building in New York, says Barack Obama"
    for entity in tagger.tag(text):
        print(f"{entity['label']:>16} {entity['score']:.3f}  {entity['text']}")
    if arguments.output:
        tagger.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
