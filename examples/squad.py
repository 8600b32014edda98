"""Fine-tune on SQuAD, and print exact match and F1 on the dev file.

    python examples/squad.py --train train-v1.1.json --dev dev-v1.1.json
    python examples/squad.py --train train-v2.0.json --dev dev-v2.0.json \
        --head conditional --preset albert_base_en_uncased

If the dev file has questions without an answer, as in SQuAD 2.0, part of the training
paragraphs is held out to choose the no-answer threshold, so that nothing is chosen on
the dev file. Otherwise such questions are left out of the training.

With `--preset`, the hyperparameters are those of the paper. Without a preset, a small
model is trained from random weights, which takes minutes and only shows that the parts
work together; useful answers need pretrained weights.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any

from keras_albert.cli.arguments import SEED, whole_number
from keras_albert.cli.loading import loading

with loading("squad.py"):
    import keras

    from keras_albert import (
        AlbertBackbone,
        AlbertQuestionAnswerer,
        AlbertQuestionAnswererPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.tasks import squad_scores
    from keras_albert.tasks.recipes import Recipe, recipe
    from keras_albert.text import SquadFile, read_squad, train_vocabulary


def pick(file: SquadFile, rows: list[int]) -> SquadFile:
    """Select some questions of a file."""
    return SquadFile(*([column[row] for row in rows] for column in file))


def hold_out(file: SquadFile, every: int = 10) -> tuple[SquadFile, SquadFile]:
    """Hold out every tenth paragraph with all its questions."""
    numbers: dict[str, int] = {}
    paragraphs = [numbers.setdefault(text, len(numbers)) for text in file.contexts]
    held = [row for row, number in enumerate(paragraphs) if number % every == 0]
    kept = [row for row, number in enumerate(paragraphs) if number % every]
    return pick(file, kept), pick(file, held)


def build(preset: str | None, train: SquadFile, head: str, how: Recipe) -> Any:
    """Build a model with pretrained weights, or a small one with random ones."""
    if preset is not None:
        return how.build(AlbertQuestionAnswerer, preset, head=head)
    lines = sorted({*train.questions, *train.contexts})
    tokenizer = AlbertTokenizer(
        train_vocabulary(lines, vocabulary_size=6000, hard_vocab_limit=False)
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=3,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=0.1,
        max_sequence_length=192,
    )
    preprocessor = AlbertQuestionAnswererPreprocessor(
        tokenizer, max_sequence_length=192, max_query_length=48
    )
    return AlbertQuestionAnswerer(backbone, preprocessor, head=head)


def main() -> None:
    """Fine-tune, choose the threshold, and score on the dev file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument(
        "--version-2",
        action=argparse.BooleanOptionalAction,
        help="whether questions may have no answer; by default as in the dev file",
    )
    parser.add_argument(
        "--head", choices=("independent", "conditional"), default="independent"
    )
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument(
        "--epochs", type=whole_number(), help="instead of the recipe's steps"
    )
    parser.add_argument(
        "--batch-size", type=whole_number(), help="instead of the recipe's"
    )
    parser.add_argument(
        "--limit", type=whole_number(), help="maximum number of questions per file"
    )
    parser.add_argument("--output", type=Path, help="where to save the model")
    parser.add_argument("--seed", type=SEED, default=0)
    arguments = parser.parse_args()

    started = time.perf_counter()
    keras.utils.set_random_seed(arguments.seed)
    train = read_squad(arguments.train).take(slice(arguments.limit))
    dev = read_squad(arguments.dev).take(slice(arguments.limit))
    version_2 = arguments.version_2
    if version_2 is None:
        version_2 = dev.has_unanswerable
    how = recipe("squad-2.0" if version_2 else "squad-1.1")
    held_out = None
    if version_2:
        train, held_out = hold_out(train)
    else:
        train = pick(train, [r for r, a in enumerate(train.answers) if a["text"]])
    reader = build(arguments.preset, train, arguments.head, how)
    batch_size = arguments.batch_size or how.batch_size
    epochs = arguments.epochs or how.epochs(len(train.ids))
    if arguments.preset is not None:
        windows, _ = reader.preprocessor.encode(train.x)
        reader.compile(
            optimizer=how.for_width(reader.backbone.hidden_dim).optimizer(
                epochs * math.ceil(len(windows) / batch_size)
            )
        )
    reader.fit(train.x, train.answers, batch_size=batch_size, epochs=epochs)
    if held_out is not None:
        threshold = reader.choose_null_threshold(held_out.x, held_out.answers)
        empty = sum(not answer["text"] for answer in held_out.answers)
        print(
            f"null threshold {threshold:.2f}, chosen on {len(held_out.ids):,} training "
            f"questions held out, {empty:,} of them without an answer"
        )

    answers = [answer["answer"] for answer in reader.answer(*dev.x)]
    scores = squad_scores(answers, dev.answers, version_2)
    minutes = (time.perf_counter() - started) / 60
    print(
        f"{arguments.dev.name}: exact match {scores['exact_match']:.1f}, "
        f"F1 {scores['f1']:.1f} of {scores['total']:,} questions "
        f"({arguments.head} head, {len(train.ids):,} questions to train on, "
        f"{minutes:.1f} minutes, {keras.config.backend()}, "
        f"{reader.count_params():,} parameters)"
    )
    if version_2:
        always = squad_scores([""] * len(answers), dev.answers, version_2)
        print(f"  always saying that there is no answer: F1 {always['f1']:.1f}")
    for kind, what in (("HasAns", "with an answer"), ("NoAns", "without")):
        if f"{kind}_total" in scores:
            print(
                f"  {what}: exact match {scores[f'{kind}_exact_match']:.1f}, "
                f"F1 {scores[f'{kind}_f1']:.1f} of {scores[f'{kind}_total']:,}"
            )
    print(f"  {dev.questions[0].strip()} -> {answers[0] or 'no answer'}")
    if arguments.output:
        reader.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
