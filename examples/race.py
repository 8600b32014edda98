"""Fine-tune on RACE, or on CommonsenseQA, and print the accuracy.

    python examples/race.py --train train.*.jsonl.gz --dev dev.middle.jsonl.gz \
        dev.high.jsonl.gz --preset albert_base_v2_en_uncased
    python examples/race.py --train train_rand_split.jsonl --dev dev_rand_split.jsonl \
        --limit 500

Files contain JSON with one text or question per line, and may be gzipped; the folders
of `.txt` files in RACE's release are supported, too. The fields of a line determine
which of the data sets it belongs to.

With `--preset`, all hyperparameters are those of the paper for RACE
(`keras_albert.tasks.recipes`), and the best epoch on the dev files is kept. Without a
preset, a small model is trained from random weights, and learns little: guessing
reaches 25% on RACE and 33% on CommonsenseQA.
"""

import argparse
import gzip
import json
import math
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from keras_albert.cli.arguments import SEED, whole_number
from keras_albert.cli.loading import loading

with loading("race.py"):
    import keras
    import numpy as np

    from keras_albert import (
        AlbertBackbone,
        AlbertMultipleChoice,
        AlbertMultipleChoicePreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.tasks.recipes import Recipe, recipe
    from keras_albert.text import train_vocabulary

Questions = tuple[list[dict[str, Any]], list[str]]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read JSON, line by line, from a file or from all `.txt` files in a folder."""
    files = sorted(path.rglob("*.txt")) if path.is_dir() else [path]
    for file in files:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "rt", encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines if line.strip())


def read_file(path: Path, limit: int | None) -> Questions:
    """Read questions and the letters of their answers."""
    questions: list[dict[str, Any]] = []
    answers = []
    for line in read_lines(path):
        if "article" in line:  # RACE: a text and its questions
            for question, options in zip(
                line["questions"], line["options"], strict=True
            ):
                questions.append(
                    {
                        "context": line["article"],
                        "question": question,
                        "choices": options,
                    }
                )
            answers += line["answers"]
        else:  # CommonsenseQA: a question
            question = line["question"]
            choices = [choice["text"] for choice in question["choices"]]
            questions.append({"question": question["stem"], "choices": choices})
            answers.append(line["answerKey"])
        if limit and len(questions) >= limit:
            break
    return questions[:limit], answers[:limit]


def join(files: list[Questions]) -> Questions:
    """Concatenate the questions of several files."""
    questions, answers = zip(*files, strict=True)
    return list(chain.from_iterable(questions)), list(chain.from_iterable(answers))


def build(preset: str | None, questions: list[dict[str, Any]], how: Recipe) -> Any:
    """Build a model with pretrained weights, or a small one with random ones."""
    if preset is not None:
        return how.build(AlbertMultipleChoice, preset)
    lines = {question.get("context", "") for question in questions}
    for question in questions:
        lines.update((question["question"], *question["choices"]))
    tokenizer = AlbertTokenizer(
        train_vocabulary(sorted(lines), vocabulary_size=4000, hard_vocab_limit=False)
    )
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=3,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=0.1,
        max_sequence_length=128,
    )
    preprocessor = AlbertMultipleChoicePreprocessor(
        tokenizer, max_sequence_length=128, max_qa_length=48
    )
    return AlbertMultipleChoice(backbone, preprocessor)


def main() -> None:
    """Fine-tune, and score on each dev file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--dev", type=Path, nargs="+", required=True)
    parser.add_argument("--preset", help="pretrained weights to start from")
    parser.add_argument("--version", choices=("v1", "v2"), default="v2")
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
    how = recipe("race", arguments.version)
    x, y = join([read_file(path, arguments.limit) for path in arguments.train])
    dev_files = {path.name: read_file(path, arguments.limit) for path in arguments.dev}
    held_out = join(list(dev_files.values()))
    chooser = build(arguments.preset, x, how)
    batch_size = arguments.batch_size or how.batch_size
    epochs = arguments.epochs or how.epochs(len(y))
    if arguments.preset is not None:
        steps = epochs * math.ceil(len(y) / batch_size)
        how = how.for_width(chooser.backbone.hidden_dim)
        chooser.compile(optimizer=how.optimizer(steps))
    keep_best = keras.callbacks.EarlyStopping(
        "val_accuracy", mode="max", patience=epochs, restore_best_weights=True
    )
    chooser.fit(
        x,
        y,
        batch_size=batch_size,
        epochs=epochs,
        validation_data=held_out,
        callbacks=[keep_best],
    )
    for name, (questions, answers) in dev_files.items():
        scores = chooser.evaluate(questions, answers, verbose=0, return_dict=True)
        guessing = np.mean([1 / len(q["choices"]) for q in questions])
        print(
            f"{name}: accuracy {scores['accuracy']:.1%} of {len(answers):,} questions "
            f"(guessing: {guessing:.1%})"
        )
    minutes = (time.perf_counter() - started) / 60
    count = np.sum([np.prod(v.shape) for v in chooser.weights])
    print(f"{minutes:.1f} minutes, {keras.config.backend()}, {count:,} parameters")
    first = held_out[0][0]
    answer = chooser.choose(first.get("context"), first["question"], first["choices"])
    print(first["question"])
    for number, (choice, score) in enumerate(
        zip(first["choices"], answer["scores"], strict=True)
    ):
        print(f"  {'>' if number == answer['index'] else ' '} {score:.2f}  {choice}")
    if arguments.output:
        chooser.save_to_preset(arguments.output)
        print(f"saved to {arguments.output}")


if __name__ == "__main__":
    main()
