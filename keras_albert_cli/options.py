"""The commands, with their options and help."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_albert_cli.depth_options import add_depth_options
from keras_albert_cli.number_types import (
    BATCH_SIZE,
    LAYERS,
    SEED,
    TOKENS,
    positive_number,
    probability,
    whole_number,
)
from keras_albert_cli.prepare_options import add_prepare_options
from keras_albert_cli.settings_options import add_settings
from keras_albert_cli.versions import describe_versions

Parser = argparse.ArgumentParser

# The tasks of `finetune`, and the files that each reads.
FINETUNE_TASKS = {
    "classification": "TSV, CSV or JSON lines: text, optionally text_pair, label",
    "masked-lm": "plain text, one paragraph per line; or TSV, CSV, JSON lines: text",
    "multiple-choice": "JSON lines: optionally context, question, choices, answer "
    "(number or letter)",
    "question-answering": "SQuAD's JSON, 1.1 or 2.0",
    "regression": "TSV, CSV or JSON lines: text, optionally text_pair, score",
    "similarity": "TSV, CSV or JSON lines: text, text_pair, score",
    "token-classification": "CoNLL: one word and its tag per line; or JSON lines: "
    "words, tags",
}
# Constants of the package, which is not imported for help; a test compares them.
RECIPES = (
    *("cola", "mnli", "mrpc", "qnli", "qqp", "race", "rte", "squad-1.1", "squad-2.0"),
    *("sst-2", "sts-b", "wnli"),
)
_FORMATS = (
    *("keras-albert", "transformers", "sentence-transformers", "keras-hub", "google"),
)


@dataclass(frozen=True)
class Command:
    """A command."""

    group: str
    module: str
    summary: str
    description: str
    example: str
    add_options: Callable[[Parser], None]
    paths: tuple[str, ...] = ()
    new_path: str = ""
    check: Callable[[Mapping[str, Any]], None] | None = None


class _Version(argparse.Action):
    """Prints versions, which are looked up when they are asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        help = "show the versions of this package and of those that it uses"  # noqa: A001
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: Parser, *_: Any) -> None:
        """Print the versions and end the process."""
        print(describe_versions())
        parser.exit()


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """Build the parser of the command line."""
    listed = ""
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        listed += f"\n{group}:\n"
        for name, command in COMMANDS.items():
            if command.group == group:
                listed += f"  {name:<10}{command.summary}\n"
    parser = Parser(
        prog="keras-albert",
        description=f"ALBERT on Keras 3, from raw text to a served model.\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="KERAS_BACKEND=tensorflow, jax or torch chooses the backend.\n"
        "`keras-albert COMMAND --help` shows the options of a command and an example.",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="one of the above"
    )
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            description=command.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=f"example:\n  {command.example}",
        )
        command.add_options(subparser)
        messages = subparser.add_argument_group("messages")
        messages.add_argument(
            "--debug", action="store_true", help="show the traceback of errors"
        )
        messages.add_argument(
            "--verbose", action="store_true", help="show the messages of libraries"
        )
    return parser, commands.choices


def _add_compress(parser: Parser) -> None:
    parser.add_argument("preset", help="the trained model: a directory or a handle")
    parser.add_argument("output", type=Path, help="a new directory")
    parser.add_argument(
        "--task", metavar="NAME", help="the class to load it as; by default its own"
    )
    size = parser.add_argument_group("size")
    for name, what in (
        ("layers", "layers"),
        ("groups", "groups of layers that share weights"),
    ):
        size.add_argument(
            *(f"--num-{name}", f"--{name}"), type=LAYERS, metavar="N", help=what
        )
    size.add_argument(
        "--embedding-dim",
        type=whole_number(2, 2**16),
        metavar="N",
        help="the width of the embeddings",
    )
    size.add_argument(
        "--adapter-rank",
        type=whole_number(0, 2**16),
        metavar="N",
        help="the rank of what each layer adds to the weights of its group",
    )
    size.add_argument(
        "--vocabulary", metavar="PATH", help="another vocabulary, or a preset with it"
    )
    size.add_argument(
        "--student",
        metavar="PRESET",
        help="instead of sizes: a small model to go on with",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--texts",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="for an embedder or a masked language model: a text per line (.txt, .gz), "
        "or a column `text`",
    )
    data.add_argument("--train", type=Path, help="for other tasks: as in finetune")
    data.add_argument("--dev", type=Path, help="the validation file")
    data.add_argument(
        "--limit", type=whole_number(), help="maximum number of examples per file"
    )
    _add_columns(data, "text", "text-pair", "label")
    training = parser.add_argument_group("training")
    training.add_argument("--hours", type=positive_number, help="how long to train")
    training.add_argument(
        "--steps",
        type=whole_number(),
        help="or how many steps; by default three epochs of --train",
    )
    training.add_argument(
        "--learning-rate",
        type=positive_number,
        default=4e-4,
        help="peak rate; by default 4e-4",
    )
    training.add_argument(
        "--batch-tokens",
        type=whole_number(),
        default=4096,
        help="tokens of --texts in a batch; by default 4096",
    )
    training.add_argument(
        "--batch-size",
        type=BATCH_SIZE,
        default=32,
        help="examples of --train in a batch; by default 32",
    )
    training.add_argument(
        "--max-length",
        type=TOKENS,
        default=128,
        help="tokens of the longest passage of --texts; by default 128",
    )
    training.add_argument(
        "--precision",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
        help="of both models; by default Keras' policy",
    )
    training.add_argument("--seed", type=SEED, default=0, help="by default 0")
    _add_card(parser)


def _add_card(parser: Parser, title: str = "model card") -> None:
    card = parser.add_argument_group(title)
    card.add_argument("--language", metavar="CODE", help="of the texts: en, say")
    card.add_argument(
        "--license", metavar="ID", help="of the model, a hub's id: apache-2.0, say"
    )
    card.add_argument(
        "--dataset", metavar="ID", help="a hub's id of the data: stanfordnlp/sst2, say"
    )


def _add_convert(parser: Parser) -> None:
    parser.add_argument("source", help="a built-in name, a directory or a handle")
    parser.add_argument("target", type=Path, help="a new directory")
    parser.add_argument(
        "--to", required=True, choices=_FORMATS, help="the format to write"
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="the class to load it as, for instance AlbertClassifier or "
        "AlbertBackbone; by default the task that the checkpoint has a head for",
    )
    parser.add_argument(
        "--without-vocabulary", action="store_true", help="convert only the weights"
    )


def _add_export(parser: Parser) -> None:
    parser.add_argument("preset", help="a fine-tuned model: a directory or a handle")
    parser.add_argument("path", type=Path, help="the file or directory to write")
    parser.add_argument(
        "--format",
        choices=("tf_saved_model", "onnx", "litert"),
        help="by default onnx for a path that ends in .onnx, litert for .tflite, and "
        "tf_saved_model for any other",
    )
    parser.add_argument(
        "--task", metavar="NAME", help="the class to load it as; by default its own"
    )
    saved_model = parser.add_argument_group("options of tf_saved_model")
    saved_model.add_argument(
        "--version", type=whole_number(0, 2**63 - 1), help="by default the next one"
    )
    saved_model.add_argument(
        "--max-length", type=TOKENS, help="the maximum length of rows in tokens"
    )
    saved_model.add_argument(
        "--top-k", type=whole_number(), help="number of predictions"
    )
    files = parser.add_argument_group("options of onnx and litert")
    files.add_argument(
        "--quantize", help="onnx: int8; litert: dynamic_int8 or fp16; by default float"
    )
    files.add_argument("--inputs", help="onnx: tokens (by default) or text")
    files.add_argument("--pairs", action="store_true", help="onnx: take pairs of texts")
    files.add_argument(
        "--early",
        choices=("patience", "threshold"),
        help="onnx: the rule by which texts leave a model with exits",
    )
    files.add_argument(
        "--sequence-length",
        type=TOKENS,
        help="litert: fixed length of rows in tokens; by default any",
    )
    files.add_argument("--overwrite", action="store_true", help="replace the file")


def _add_finetune(parser: Parser) -> None:
    tasks = "".join(f"\n  {name:<22}{files}" for name, files in FINETUNE_TASKS.items())
    parser.epilog = f"tasks and their files:{tasks}\n\n{parser.epilog}"
    parser.add_argument(
        "task", choices=FINETUNE_TASKS, metavar="TASK", help="listed below"
    )
    parser.add_argument(
        "--preset",
        help="weights to start from: a built-in name, a directory or a handle; without "
        "it, a small model is trained from random weights",
    )
    parser.add_argument("--train", type=Path, required=True, help="the training file")
    parser.add_argument("--dev", type=Path, required=True, help="the validation file")
    parser.add_argument("--output", type=Path, required=True, help="a new directory")
    training = parser.add_argument_group("training")
    training.add_argument(
        "--recipe",
        choices=RECIPES,
        help="with a preset: use the hyperparameters of the paper for this task",
    )
    training.add_argument(
        "--epochs", type=whole_number(), help="by default 3 or the recipe's"
    )
    training.add_argument(
        "--batch-size", type=BATCH_SIZE, help="by default 32 or the recipe's"
    )
    training.add_argument(
        "--learning-rate", type=positive_number, help="peak rate; by default automatic"
    )
    training.add_argument("--seed", type=SEED, default=0, help="by default 0")
    training.add_argument(
        "--exits",
        action="store_true",
        default=None,
        help="classification, regression: train a head after each layer, so that "
        "texts can leave early",
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--max-length",
        type=TOKENS,
        help="tokens per row; by default 128",
    )
    data.add_argument(
        "--limit", type=whole_number(), help="maximum number of examples per file"
    )
    _add_columns(data, "text", "text-pair", "label")
    _add_card(parser)


def _check_compress(chosen: Mapping[str, Any]) -> None:
    sizes = ("num_groups", "num_layers", "embedding_dim", "adapter_rank", "vocabulary")
    names = ", ".join(f"--{name.replace('_', '-')}" for name in sizes)
    is_sized = any(chosen[name] for name in sizes)
    texts, train, dev = (chosen[name] for name in ("texts", "train", "dev"))
    is_timed = chosen["hours"] or chosen["steps"]
    if not is_sized and chosen["student"] is None:
        msg = f"Nothing becomes smaller: pass at least one of {names}, or --student."
        raise ValueError(msg)
    if is_sized and chosen["student"] is not None:
        raise ValueError(f"The sizes are those of --student: leave out {names}.")
    if (train is None) != (dev is None):
        raise ValueError("Pass both --train and --dev, or neither.")
    if texts and train:
        raise ValueError("Pass either --texts or --train and --dev.")
    if texts and not is_timed:
        raise ValueError("Pass --hours, or --steps: how long to train on --texts.")
    if is_timed and not (texts or train):
        msg = "There is nothing to train on: pass --texts, or --train and --dev."
        raise ValueError(msg)
    _check_unfinished(chosen)


def _check_finetune(chosen: Mapping[str, Any]) -> None:
    if chosen["recipe"] is not None and chosen["preset"] is None:
        raise ValueError("A recipe is for pretrained weights: pass --preset as well.")
    if chosen["exits"] and chosen["task"] not in ("classification", "regression"):
        msg = (
            f"A model for {chosen['task']} has no exits; those for classification and "
            "regression have. Leave out --exits."
        )
        raise ValueError(msg)
    # Cleaning up can be resumed while it exists.
    if not (chosen["output"] / "training" / "last.safetensors").is_file():
        _check_unfinished(chosen)


def _check_unfinished(chosen: Mapping[str, Any]) -> None:
    """Raise if a run has written its model; a settings file may name the output."""
    preset = Path(chosen.get("output", ""), "preset")
    if "output" in chosen and preset.exists():
        msg = f"{preset} already exists: the run is finished. Choose another output."
        raise FileExistsError(msg)


def _add_exits(parser: Parser) -> None:
    parser.add_argument("preset", help="a classifier with exits")
    parser.add_argument("dev", type=Path, metavar="FILE", help="the validation file")
    parser.add_argument("--output", type=Path, help="a directory")
    rules = parser.add_argument_group("rules, each with one or more values")
    rules.add_argument(
        "--patience",
        type=LAYERS,
        nargs="+",
        help="exits in a row that agree; by default each number that is possible",
    )
    rules.add_argument(
        "--threshold",
        type=probability,
        nargs="+",
        help="probabilities; by default 0.7 0.8 0.9 0.95 0.99",
    )
    rules.add_argument(
        "--tolerance",
        type=positive_number,
        nargs="+",
        help="regression: differences of scores that agree; by default 0.05 0.1 0.2",
    )
    time = parser.add_argument_group("time")
    time.add_argument("--batch-size", type=BATCH_SIZE, default=32, help="by default 32")
    time.add_argument(
        "--rounds",
        type=whole_number(),
        default=3,
        help="how often each setting is timed, after a first run; by default 3",
    )
    data = parser.add_argument_group("data")
    data.add_argument("--limit", type=whole_number(), help="maximum number of examples")
    _add_columns(data, "text", "text-pair", "label")


def _add_columns(parser: Any, *roles: str) -> None:
    for role in roles:
        parser.add_argument(
            f"--{role}-column", metavar="NAME", help=f"the column of the {role}"
        )


def _add_predict(parser: Parser) -> None:
    parser.add_argument("model", help="a preset or an export")
    parser.add_argument("file", type=Path, help="the rows to predict for")
    parser.add_argument(
        "--output", type=Path, help="a new file; by default predictions are printed"
    )
    parser.add_argument(
        "--to",
        choices=("jsonl", "tsv"),
        help="JSON lines or TSV; by default the suffix of --output, or jsonl",
    )
    parser.add_argument(
        "--batch-size", type=BATCH_SIZE, default=32, help="by default 32"
    )
    model = parser.add_argument_group("model")
    model.add_argument(
        "--task",
        metavar="NAME",
        help="the class to load a preset as; by default its own",
    )
    model.add_argument(
        "--preset", help="for a model of token ids: the preset with its preprocessor"
    )
    model.add_argument(
        "--signature",
        help="a signature of a SavedModel; by default the one reading most columns",
    )
    add_depth_options(parser)
    _add_columns(parser.add_argument_group("data"), "text", "text-pair")


def _add_pretrain(parser: Parser) -> None:
    parser.add_argument("--config", type=Path, help="a TOML or JSON file of settings")
    parser.add_argument(
        "--quiet", action="store_true", help="print one line for each row of the curve"
    )
    add_settings(parser.add_argument_group("settings"))


def _add_push(parser: Parser) -> None:
    parser.add_argument(
        "directory", metavar="PRESET", type=Path, help="a directory with a model"
    )
    parser.add_argument("handle", type=_hub_handle, help="hf://user/model")
    parser.add_argument(
        "--private", action="store_true", help="make a new model private"
    )
    parser.add_argument(
        "--revision", metavar="BRANCH", help="by default the main branch"
    )
    parser.add_argument(
        "--to",
        choices=_FORMATS,
        help="convert the files to this format first; by default, they are pushed as "
        "they are",
    )
    _add_card(parser, "new model card, if PRESET has no README.md")


def _hub_handle(text: str) -> str:
    name = r"[A-Za-z0-9_][\w.-]*"
    if not re.fullmatch(rf"hf://{name}/{name}", text, re.ASCII):
        remedy = " Pass the branch as --revision." if "@" in text else ""
        msg = f"must be hf://user/model. Received: {text[:99]}.{remedy}"
        raise argparse.ArgumentTypeError(msg)
    return text


def _add_verify(parser: Parser) -> None:
    parser.add_argument(
        "directory", type=Path, help="an exported version, or the directory of versions"
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter whose TensorFlow loads it; by default this one",
    )


COMMANDS = {
    "prepare": Command(
        "Train",
        "prepare",
        "prepare texts for pretraining",
        """Prepare texts for pretraining.

INPUT is a file or a glob, in any filesystem that Apache Beam supports: text, plain or
.gz, with a paragraph or a sentence per line and a blank line between documents; or JSON
lines (.jsonl, .jsonl.gz) with a document per line. If the command is interrupted,
repeating it completes the remaining parts.
""",
        'keras-albert prepare "texts/*.gz" --vocabulary-size 8192 --output prepared',
        add_prepare_options,
    ),
    "pretrain": Command(
        "Train",
        "pretrain",
        "pretrain a model on prepared texts",
        """Pretrain on the output of `keras-albert prepare`.

Settings are read from a TOML or JSON file and from flags, which take precedence. OUTPUT
receives checkpoints, curves and, at the end, a preset with a model card. If the run is
interrupted, the same command resumes it with the same result.
""",
        "keras-albert pretrain --data prepared --output run --size tiny --steps 20000",
        _add_pretrain,
        ("config",),
        check=_check_unfinished,
    ),
    "finetune": Command(
        "Train",
        "finetune",
        "fine-tune a model on your own files",
        """Fine-tune a model on your own files.

The weights of the best epoch on the dev file are kept. OUTPUT receives a preset with a
model card, the report, the learning curve and, if matplotlib is installed, plots. If
the run is interrupted, the same command resumes it with the same result.
""",
        "keras-albert finetune classification --preset albert_base_en_uncased \\\n"
        "      --train train.tsv --dev dev.tsv --output runs/mine",
        _add_finetune,
        ("train", "dev"),
        check=_check_finetune,
    ),
    "compress": Command(
        "Train",
        "compress",
        "make a small model of a large one",
        """Make a small model of a large one, and train it to do the same.

PRESET is an ALBERT, BERT or ELECTRA, from any source. Embeddings become narrower,
layers fewer or shared, and the weights start from those of PRESET. An embedder or a
masked language model then learns PRESET's hidden states and vectors of --texts; any
other task learns PRESET's outputs for --train, and the labels. OUTPUT receives a preset
with a model card, and a report and a plot that compare quality, size and time. If the
run is interrupted, the same command resumes it with the same result.
""",
        "keras-albert compress hf://sentence-transformers/all-MiniLM-L6-v2 runs/small "
        "\\\n      --layers 3 --embedding-dim 128 --texts corpus/*.txt --hours 2",
        _add_compress,
        ("texts", "train", "dev"),
        check=_check_compress,
    ),
    "predict": Command(
        "Use",
        "predict",
        "predict for the rows of a file",
        """Predict for each row of a file.

MODEL is a preset, the directory of a SavedModel, or an .onnx or .tflite file. FILE is
.txt with one text per line, or .tsv, .csv or .jsonl with a column for each input: text
and optionally text_pair; question and context; or question, choices and optionally
context. The output has one line for each row, in the same order. With --output, an
interrupted run can be resumed: the same command continues after the last complete line.
""",
        "keras-albert predict runs/mine/preset reviews.tsv --output answers.jsonl",
        _add_predict,
        ("model", "file"),
        "output",
    ),
    "exits": Command(
        "Use",
        "exits",
        "compare rules by which texts leave a classifier early",
        """Compare rules by which texts leave a classifier early.

PRESET is the result of `keras-albert finetune classification --exits` or `regression
--exits`, and FILE a validation file of the same task. The table has a row for each
number of layers, patience and threshold: the accuracy (of a regression, the root of the
squared error), the mean number of layers, the time, and how many texts leave after
each layer. The settings take turns, and the time is the median of the rounds, also in
per cent of the time of all layers. It depends on the machine, the backend and the batch
size. OUTPUT receives exits.json and exits.png, for which matplotlib is required.
""",
        "keras-albert exits runs/mine/preset dev.tsv --patience 1 2 --threshold 0.9",
        _add_exits,
        ("dev",),
    ),
    "export": Command(
        "Use",
        "export",
        "export a model for a server or a device",
        """Export a model for a server or a device.

  tf_saved_model  a directory of versions for TensorFlow Serving; takes texts
  onnx            a file for ONNX Runtime or OpenVINO; takes token ids or texts
  litert          a file for LiteRT (TensorFlow Lite); takes token ids
""",
        "keras-albert export runs/mine/preset mine.onnx --inputs text",
        _add_export,
        new_path="path",
    ),
    "verify": Command(
        "Use",
        "verify",
        "check that a server can serve an export",
        """Load a SavedModel as TensorFlow Serving does, and run it.

TensorFlow's session loads it in a separate process, without Python code of this package
or of tensorflow-text. A stock server must have all of its operations, and the warm-up
requests are replayed. Prints the signatures and example requests.
""",
        "keras-albert verify served/mine",
        _add_verify,
        ("directory",),
    ),
    "convert": Command(
        "Use",
        "convert",
        "convert a checkpoint to another library's format",
        """Convert a checkpoint and verify the result.

The new files are loaded again, by this package and, if it is installed, by the other
library, and each model computes a small batch. If the outputs differ, nothing is
written.
""",
        "keras-albert convert albert_base_v2_en_uncased mine --to transformers",
        _add_convert,
        new_path="target",
    ),
    "push": Command(
        "Use",
        "push",
        "push a model with its card to the Hugging Face Hub",
        """Push a model with its card to the Hugging Face Hub.

PRESET is a preset or a checkpoint of another library. All of its files are pushed in
one commit, except hidden ones. Its README.md becomes the model's page, with the handle
in the code; without one, --license writes a short card, which replaces none on the hub.
Log in before, with `hf auth login` or the variable HF_TOKEN.
""",
        "keras-albert push runs/mine/preset hf://user/model --private",
        _add_push,
        ("directory",),
    ),
}
