"""Pretrain a very small ALBERT on the stories beside this file, in a minute or two.

    python examples/pretrain.py
    KERAS_BACKEND=torch python examples/pretrain.py --output runs/stories

All steps are included: a vocabulary from the texts, examples of two segments from the
documents, masked tokens and sentence order, and a classifier that starts from the
weights. 240 stories are only enough to see losses fall: for a useful model, pass your
own texts, or see `albert_tiny.py`.
"""

import argparse
import tempfile
from pathlib import Path

from keras_albert.cli.arguments import whole_number
from keras_albert.cli.loading import loading

with loading("pretrain.py"):
    from keras_albert import AlbertClassifier
    from keras_albert.pretraining import (
        PretrainingConfig,
        prepare_examples,
        pretrain,
        train_vocabulary_on,
    )
    from keras_albert.training.run_folder import RunFolder

STORIES = Path(__file__).parent / "data" / "stories.txt"
MESSAGES = [("a story with a good end", "good"), ("they lost the way", "bad")] * 8


def main() -> None:
    """Prepare texts, pretrain and fine-tune."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", default=[str(STORIES)], help="text files")
    parser.add_argument("--output", type=Path, help="a directory for the results")
    parser.add_argument("--steps", type=whole_number(), default=600)
    parser.add_argument("--vocabulary-size", type=whole_number(), default=400)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run(arguments, arguments.output or Path(temporary))


def run(arguments: argparse.Namespace, output: Path) -> None:
    """Run all steps in a directory."""
    vocabulary = train_vocabulary_on(
        arguments.texts, arguments.vocabulary_size, hard_vocab_limit=False
    )
    prepared = prepare_examples(
        arguments.texts,
        output / "prepared",
        vocabulary,
        sequence_length=64,
        held_out=0.1,
    )
    for name, count in prepared.counters.items():
        print(f"{name:<32}{count:>8,}")
    config = PretrainingConfig(
        data=str(output / "prepared"),
        output=str(output / "run"),
        size="tiny",
        backbone={
            "num_layers": 2,
            "num_heads": 2,
            "embedding_dim": 32,
            "hidden_dim": 64,
            "intermediate_dim": 128,
        },
        steps=arguments.steps,
        batch_size=32,
        learning_rate=2e-3,
        log_every=max(1, arguments.steps // 8),
        evaluate_every=2 * max(1, arguments.steps // 8),
        checkpoint_every=max(1, arguments.steps // 4),
    )
    scores = pretrain(config, verbose=2)
    first, *_, last = RunFolder(output / "run").curve.rows()
    print(f"training loss: {first['loss']:.2f} -> {last['loss']:.2f}")
    print(
        f"held out: {scores['masked_lm_accuracy']:.1%} of the masked tokens, "
        f"{scores['sentence_order_accuracy']:.1%} of the orders"
    )
    texts, labels = zip(*MESSAGES, strict=True)
    classifier = AlbertClassifier.from_preset(
        output / "run" / "preset", labels=["bad", "good"]
    )
    classifier.compile(learning_rate=1e-3)
    classifier.fit(list(texts), list(labels), epochs=4, verbose=0)
    print(classifier.classify(texts[0]))


if __name__ == "__main__":
    main()
