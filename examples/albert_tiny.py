r"""Train `albert_tiny_en_uncased`, the pretrained model in the package.

    KERAS_BACKEND=torch python examples/albert_tiny.py "wikipedia/*.txt.gz" \
        --books "books/*.txt.gz" --manifest books/MANIFEST.tsv --output runs/albert_tiny

Trains a vocabulary of 20,000 pieces, initializes their embeddings from counts of
neighbouring pieces (`word_vectors.py`), and pretrains the model in one run of several
stages (`albert_tiny.toml`). The model, with its card and its curve, is written to
`OUTPUT/albert_tiny_en_uncased`. After an interruption, the same command resumes. With
`--preset albert_tiny_en_uncased --config examples/albert_tiny_more.toml`, it continues
from that model, its vocabulary and its word vectors instead, on other batches.

With `--teacher DIRECTORY`, a sentence encoder in the format of transformers, the model
then learns to predict the vectors of that encoder, too (`distil.py`); with `--preset`
as well, that is all it does.

On
processors with instructions for bfloat16, `--precision mixed_bfloat16` is several times
as fast; on others, it is far slower. Text files, plain or gzip, contain one paragraph
per line and a blank line between documents.

Books require a table of the content of each file (columns `shard`, `title`, `year`,
`chapters`; each chapter is a document). Books of 1930 or later are excluded, because
they may not be in the public domain.
"""

import argparse
import glob
import gzip
import os
import shutil
from pathlib import Path

from keras_albert_cli.loading import loading
from keras_albert_cli.number_types import fraction, whole_number
from keras_albert_cli.run_command import run_command

with loading("albert_tiny.py"):
    import h5py
    from books import read_books
    from distil import LOSS_WEIGHTS, distil
    from teacher_vectors import write_vectors
    from word_vectors import word_vectors

    from keras_albert import AlbertMaskedLM
    from keras_albert.presets.preset_files import preset_directory
    from keras_albert.pretraining import PretrainingConfig, PretrainingData
    from keras_albert.pretraining.dataset import EVALUATION_MASKS, HeldOut
    from keras_albert.pretraining.model import build_pretrainer
    from keras_albert.pretraining.run import model_card, training_cost
    from keras_albert.text.masking import MaskingRates
    from keras_albert.training.run_folder import TrainingCurve, draw_curves
    from keras_albert.utils.atomic_files import atomic_file
    from keras_albert.utils.environment import versions

HERE = Path(__file__).parent
NAME = "albert_tiny_en_uncased"
FIRST_YEAR_OUT = 1930
SEQUENCE_LENGTH = 512


def free_books(manifest: Path, shards: list[Path], output: Path) -> None:
    """Copy the documents of the books before 1930."""
    output.mkdir(parents=True, exist_ok=True)
    for path in shards:
        kept = []
        for book, chapters in read_books(manifest, path):
            if book["year"].isdigit() and int(book["year"]) < FIRST_YEAR_OUT:
                kept += chapters
        with (
            atomic_file(output / path.name) as partial,
            gzip.open(partial, "wt", encoding="utf-8") as file,
        ):
            file.write("\n\n".join(kept) + "\n")


def command(*arguments: object) -> None:
    """Run a keras-albert command in this process, and exit if it fails."""
    status = run_command([str(argument) for argument in arguments])
    if status:
        raise SystemExit(status)


def start(data: Path, settings: Path, target: Path) -> Path:
    """Save a model with random weights, except for word vectors as embeddings."""
    if not target.is_dir():
        examples = PretrainingData(data)
        places = {"data": str(data), "output": str(target)}
        config = PretrainingConfig.from_file(settings, **places)
        task = build_pretrainer(config, examples.tokenizer, examples.sequence_length)
        table = task.backbone.embedding.token_embedding
        table.embeddings.assign(word_vectors(examples, table.output_dim))
        with preset_directory(target) as directory:
            task.save_to_preset(directory)
    return target


def learn_from_teacher(
    preset: str | Path,
    data: Path,
    teacher: str,
    count: int,
    settings: dict[str, object],
    output: Path,
) -> Path:
    """Distil a sentence encoder into a preset, and save the result with its card."""
    target = output / "distilled"
    config = PretrainingConfig.from_file(
        HERE / "albert_tiny_distil.toml", data=str(data), output=str(target), **settings
    )
    curve = TrainingCurve(output / "distilling" / "curve.jsonl").rows()
    if target.is_dir() and curve[-1]["step"] >= config.steps:
        return target
    rates = MaskingRates(config.masked, 1.0, 0.0, max_ngram=1)
    examples = PretrainingData(data, "train", None, rates, config.seed)
    unread = PretrainingData(data, "held_out", None, EVALUATION_MASKS, config.seed)
    held_out = HeldOut.read(unread, config.evaluation_examples, 32, 128)
    vectors = output / "teacher"
    half = config.precision.endswith("bfloat16")
    dtype = "bfloat16" if half else "float32"
    write_vectors(examples, teacher, vectors, count, dtype)
    task, scores, rows = distil(
        preset, examples, held_out, vectors, output / "distilling", config
    )
    used = ("steps", "optimizer", "learning_rate", "warmup_steps", "ema_momentum")
    report = {
        "scores": scores,
        "baselines": held_out.baselines,
        "settings": {name: getattr(config, name) for name in used}
        | {
            "teacher": Path(teacher).name,
            "weights of the losses": LOSS_WEIGHTS,
            "precision": config.precision,
            "second_task": "none",
            "license": config.license,
            "dataset": None,
            "preset": str(preset),
        },
        "cost": training_cost(rows),
        "data": {
            **examples.metadata.counters,
            "texts that the teacher read": count,
            "training tokens": examples.num_tokens,
            "masked held-out tokens": held_out.num_masked,
        },
        "versions": versions(),
    }
    finished = AlbertMaskedLM.from_preset(preset)
    finished.set_weights(task.get_weights())
    # The validation set has no teacher.
    rows = [row | {"loss": row["masked_lm_loss"]} for row in rows]
    with preset_directory(target) as directory:
        finished.save_to_preset(directory)
        draw_curves(directory / "curve.png", rows, baselines=held_out.baselines)
        card = model_card(report, rows, finished, language="en")
        (directory / "README.md").write_text(card, encoding="utf-8")
    return target


def release(preset: Path, target: Path) -> None:
    """Copy a preset with float16 weights, and replace the last part of its card."""
    with preset_directory(target) as directory:
        shutil.copytree(preset, directory, dirs_exist_ok=True)
        for path in directory.glob("*.h5"):
            path.unlink()
            with h5py.File(preset / path.name) as old, h5py.File(path, "w") as new:
                copy_half(old, new)
        card = (preset / "README.md").read_text(encoding="utf-8")
        story, _, _ = card.partition("## What is not known")
        story = story.replace("path/to/this/directory", NAME)
        story = story.replace("name: albert-pretrained", f"name: {NAME}")
        limits = (HERE / "albert_tiny.md").read_text(encoding="utf-8")
        (directory / "README.md").write_text(story + limits, encoding="utf-8")


def copy_half(old: h5py.Group, new: h5py.Group) -> None:
    """Copy a weights file, with float32 values converted to float16.

    Keras converts a weight to the dtype of its variable when it loads it.
    """
    new.attrs.update(old.attrs)
    for name, entry in old.items():
        if isinstance(entry, h5py.Group):
            copy_half(entry, new.create_group(name))
        else:
            values = entry[()]
            half = values.astype("float16") if entry.dtype == "float32" else values
            new.create_dataset(name, data=half).attrs.update(entry.attrs)


def main() -> None:
    """Prepare the data, pretrain, and write the released preset."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", help="files or globs")
    parser.add_argument("--books", default="", help="a glob of files with a table")
    parser.add_argument("--manifest", type=Path, help="the books' table")
    parser.add_argument("--vocabulary-size", type=whole_number(), default=20000)
    parser.add_argument("--preset", help="a model to continue")
    parser.add_argument("--teacher", help="a sentence encoder to distil")
    parser.add_argument("--teacher-texts", type=whole_number(), default=24 * 8192)
    parser.add_argument(
        "--teacher-steps", type=whole_number(), help="not the settings'"
    )
    parser.add_argument("--held-out", type=fraction, default=0.005)
    parser.add_argument("--config", type=Path, default=HERE / "albert_tiny.toml")
    parser.add_argument("--steps", type=whole_number(), help="not the settings'")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--output", type=Path, default=Path("runs/albert_tiny"))
    parser.add_argument("--workers", type=whole_number(), default=os.cpu_count() or 1)
    arguments = parser.parse_args()

    output: Path = arguments.output
    inputs = list(arguments.texts)
    if arguments.books:
        if arguments.manifest is None:
            parser.error("--books needs --manifest")
        shards = [Path(name) for name in sorted(glob.glob(arguments.books))]
        free_books(arguments.manifest, shards, output / "books")
        inputs.append(str(output / "books" / "*.txt.gz"))
    data = output / "prepared"
    vocabulary = ("--vocabulary-size", arguments.vocabulary_size)
    if arguments.preset:
        vocabulary = ("--vocabulary", arguments.preset)
    command(
        *("prepare", *inputs, "--output", data, "--workers", arguments.workers),
        *vocabulary,
        *("--held-out", arguments.held_out, "--sequence-length", SEQUENCE_LENGTH),
    )

    config, run = arguments.config, output / "run"
    preset: str | Path = run / "preset"
    if arguments.preset and arguments.teacher:
        preset = arguments.preset
    elif not preset.is_dir():
        steps = () if arguments.steps is None else ("--steps", arguments.steps)
        begin = arguments.preset or start(data, config, output / "start")
        command(
            *("pretrain", "--config", config, "--data", data, "--output", run),
            *("--preset", begin, "--precision", arguments.precision, *steps),
        )
    if arguments.teacher:
        settings = {"precision": arguments.precision}
        if arguments.teacher_steps is not None:
            settings["steps"] = arguments.teacher_steps
        count = arguments.teacher_texts
        preset = learn_from_teacher(
            preset, data, arguments.teacher, count, settings, output
        )
    release(preset, output / NAME)
    print(f"the model: {output / NAME}")


if __name__ == "__main__":
    main()
