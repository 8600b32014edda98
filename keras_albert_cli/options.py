"""The commands, with their options and help."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any

from keras_albert_cli.command import (
    Command,
    Options,
    Parser,
    flag,
    option,
    settings_options,
)
from keras_albert_cli.number_types import (
    BATCH_SIZE,
    LAYERS,
    SEED,
    TOKENS,
    fraction,
    positive_number,
    probability,
    whole_number,
)

# The tasks of `finetune`, and the files that each reads. The table imports nothing, so
# that it can be read without the package.
_TABLE = Path(__file__).parents[1] / "keras_albert/tasks/table.py"
FINETUNE_TASKS = {
    name: how.files
    for row in run_path(str(_TABLE))["TASKS"].values()
    for name, how in row.finetuning.items()
}
# Constants of the package, which is not imported for help; a test compares them.
RECIPES = (
    *("cola", "mnli", "mrpc", "qnli", "qqp", "race", "rte", "squad-1.1", "squad-2.0"),
    *("sst-2", "sts-b", "wnli"),
)
# Constants of the package, too: of `prepare`.
PART_SIZE = 64 * 2**20
VOCABULARY_LINES = 500_000
_FORMATS = (
    *("keras-albert", "transformers", "sentence-transformers", "keras-hub", "google"),
)


class _Version(argparse.Action):
    """Prints versions, which are looked up when they are asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        help = "show the versions of this package and of those that it uses"  # noqa: A001
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: Parser, *_: Any) -> None:
        """Print the versions and end the process."""
        from keras_albert_cli.run_command import describe_versions  # noqa: PLC0415

        print(describe_versions())
        parser.exit()


_PRESET = option("preset", "a fine-tuned model: a directory or a handle")
_OWN_TASK = option(
    "--task", "the class to load it as; by default its own", metavar="NAME"
)
_LIMIT = option("--limit", "maximum number of examples per file", whole_number())
_SEED = option("--seed", "", SEED, 0)
_PRECISION = option(
    "--precision",
    "the policy of Keras to train with; by default float32",
    choices=("float32", "mixed_bfloat16", "mixed_float16"),
)
_BATCH_SIZE = option("--batch-size", "", BATCH_SIZE, 32)
_COLUMNS = tuple(
    option(f"--{role}-column", f"the column of the {role}", metavar="NAME")
    for role in ("text", "text-pair", "label")
)
_CARD = (
    option("--language", "of the texts: en, say", metavar="CODE"),
    option("--license", "of the model, a hub's id: apache-2.0, say", metavar="ID"),
    option("--dataset", "a hub's id of the data: stanfordnlp/sst2, say", metavar="ID"),
)

_PREPARE: Options = {
    "": (
        option("inputs", "a file or a glob", nargs="+", metavar="INPUT"),
        option("--output", "a directory", required=True),
    ),
    "vocabulary (one of the first two)": (
        option(
            "--vocabulary",
            "a SentencePiece model, a vocab.txt or tokenizer.json of BERT, or the "
            "preset to continue from",
        ),
        option(
            "--vocabulary-size",
            "train a vocabulary of this many pieces on the texts",
            whole_number(most=10**7),
        ),
        option(
            "--vocabulary-lines",
            "the maximum number of lines to train it on",
            whole_number(),
            VOCABULARY_LINES,
        ),
    ),
    "examples": (
        option("--sequence-length", "", whole_number(8, 2**16), 512),
        option(
            "--held-out", "the fraction of the documents to evaluate on", fraction, 0.01
        ),
        option("--short-seq-prob", "the fraction of shortened rows", fraction, 0.1),
        _SEED,
        option("--language", "the language code", None, "en"),
        option("--text-field", "the field of JSON lines", None, "text"),
    ),
    "work": (
        option(
            "--part-size",
            "size of a plain file's parts in bytes",
            whole_number(most=2**62),
            PART_SIZE,
        ),
        option("--workers", "processes on this machine", whole_number(most=1000), 1),
        option(
            "--max-broken",
            "stop if more than this fraction of the files are damaged .gz files; by "
            "default they are read up to the damage, and named",
            fraction,
            metavar="FRACTION",
        ),
        flag("--quiet", "show no progress bar in a terminal"),
        option(
            "--beam",
            "Beam's options in one string, to run elsewhere: "
            "--beam='--runner=DataflowRunner --project=...'",
            metavar="OPTIONS",
        ),
    ),
}

_FINETUNE: Options = {
    "": (
        option("task", "listed below", choices=FINETUNE_TASKS, metavar="TASK"),
        option(
            "--preset",
            "weights to start from: a built-in name, a directory or a handle; without "
            "it, a small model is trained from random weights",
        ),
        option("--train", "the training file", Path, required=True),
        option("--dev", "the validation file", Path, required=True),
        option("--output", "a new directory", Path, required=True),
    ),
    "training": (
        option(
            "--recipe",
            "with a preset: use the hyperparameters of the paper for this task",
            choices=RECIPES,
        ),
        option("--epochs", "by default 3 or the recipe's", whole_number()),
        option("--batch-size", "by default 32 or the recipe's", BATCH_SIZE),
        option("--learning-rate", "peak rate; by default automatic", positive_number),
        _PRECISION,
        _SEED,
        option(
            "--lora",
            "with a preset: train low-rank updates of the encoder's matrices instead "
            "of these, besides biases, LayerNorms and the head",
            whole_number(),
            metavar="RANK",
        ),
        option(
            "--difference",
            "with --lora: save only the difference from --preset, which is then "
            "needed to load the result; by default all weights",
            action="store_const",
            const=True,
        ),
        option(
            "--exits",
            "classification, regression: train a head after each layer, so that texts "
            "can leave early",
            action="store_const",
            const=True,
        ),
    ),
    "data": (
        option("--max-length", "tokens per row; by default 128", TOKENS),
        _LIMIT,
        *_COLUMNS,
    ),
    "model card": _CARD,
}

_COMPRESS: Options = {
    "": (
        option("preset", "the trained model: a directory or a handle"),
        option("output", "a new directory", Path),
        _OWN_TASK,
    ),
    "size": (
        option("--num-layers --layers", "layers", LAYERS, metavar="N"),
        option(
            "--num-groups --groups",
            "groups of layers that share weights",
            LAYERS,
            metavar="N",
        ),
        option(
            "--embedding-dim",
            "the width of the embeddings",
            whole_number(2, 2**16),
            metavar="N",
        ),
        option(
            "--adapter-rank",
            "the rank of what each layer adds to the weights of its group",
            whole_number(0, 2**16),
            metavar="N",
        ),
        option(
            "--vocabulary", "another vocabulary, or a preset with it", metavar="PATH"
        ),
        option(
            "--student",
            "instead of sizes: a small model to go on with",
            metavar="PRESET",
        ),
    ),
    "data": (
        option(
            "--texts",
            "for an embedder or a masked language model: a text per line (.txt, .gz), "
            "or a column `text`",
            Path,
            nargs="+",
            metavar="FILE",
        ),
        option("--train", "for other tasks: as in finetune", Path),
        option("--dev", "the validation file", Path),
        _LIMIT,
        *_COLUMNS,
    ),
    "training": (
        option("--hours", "how long to train", positive_number),
        option(
            "--steps",
            "or how many steps; by default three epochs of --train",
            whole_number(),
        ),
        option("--learning-rate", "peak rate", positive_number, 4e-4),
        option("--batch-tokens", "tokens of --texts in a batch", whole_number(), 4096),
        option("--batch-size", "examples of --train in a batch", BATCH_SIZE, 32),
        option("--max-length", "tokens of the longest passage of --texts", TOKENS, 128),
        _PRECISION,
        _SEED,
    ),
    "model card": _CARD,
}

_PREDICT: Options = {
    "": (
        option("model", "a preset or an export"),
        option("file", "the rows to predict for", Path),
        option("--output", "a new file; by default predictions are printed", Path),
        option(
            "--to",
            "JSON lines or TSV; by default the suffix of --output, or jsonl",
            choices=("jsonl", "tsv"),
        ),
        _BATCH_SIZE,
    ),
    "model": (
        option(
            "--task",
            "the class to load a preset as; by default its own",
            metavar="NAME",
        ),
        option(
            "--preset", "for a model of token ids: the preset with its preprocessor"
        ),
        option(
            "--signature",
            "a signature of a SavedModel; by default the one reading most columns",
        ),
    ),
    "depth of a preset, or an export with exits": (
        option("--num-layers", "layers to run; by default all", LAYERS),
        option(
            "--patience",
            "with exits: a text leaves after this many exits in a row that agree",
            LAYERS,
        ),
        option(
            "--threshold",
            "with exits: a text leaves once its answer is this probable",
            probability,
        ),
        option(
            "--tolerance",
            "with --patience: the difference of scores that agree",
            positive_number,
        ),
        flag("--return-depths", "write the depth of each text"),
    ),
    "data": _COLUMNS[:2],
}

_EXITS: Options = {
    "": (
        option("preset", "a classifier with exits"),
        option("dev", "the validation file", Path, metavar="FILE"),
        option("--output", "a directory", Path),
    ),
    "rules, each with one or more values": (
        option(
            "--patience",
            "exits in a row that agree; by default each number that is possible",
            LAYERS,
            nargs="+",
        ),
        option(
            "--threshold",
            "probabilities; by default 0.7 0.8 0.9 0.95 0.99",
            probability,
            nargs="+",
        ),
        option(
            "--tolerance",
            "regression: differences of scores that agree; by default 0.05 0.1 0.2",
            positive_number,
            nargs="+",
        ),
    ),
    "time": (
        _BATCH_SIZE,
        option(
            "--rounds",
            "how often each setting is timed, after a first run",
            whole_number(),
            3,
        ),
    ),
    "data": (
        option("--limit", "maximum number of examples", whole_number()),
        *_COLUMNS,
    ),
}

_EXPORT: Options = {
    "": (
        _PRESET,
        option("path", "the file or directory to write", Path),
        option(
            "--format",
            "by default onnx for a path that ends in .onnx, litert for .tflite, and "
            "tf_saved_model for any other",
            choices=("tf_saved_model", "onnx", "litert"),
        ),
        _OWN_TASK,
    ),
    "options of tf_saved_model": (
        option("--version", "by default the next one", whole_number(0, 2**63 - 1)),
        option("--max-length", "the maximum length of rows in tokens", TOKENS),
        option("--top-k", "number of predictions", whole_number()),
    ),
    "options of onnx and litert": (
        option(
            "--quantize", "onnx: int8; litert: dynamic_int8 or fp16; by default float"
        ),
        option("--inputs", "onnx: tokens (by default) or text"),
        flag("--pairs", "onnx: take pairs of texts"),
        option(
            "--early",
            "onnx: the rule by which texts leave a model with exits",
            choices=("patience", "threshold"),
        ),
        option(
            "--sequence-length",
            "litert: fixed length of rows in tokens; by default any",
            TOKENS,
        ),
        flag("--overwrite", "replace the file"),
    ),
}

_VERIFY: Options = {
    "": (
        option("directory", "an exported version, or the directory of versions", Path),
        option(
            "--python",
            "the interpreter whose TensorFlow loads it; by default this one",
            metavar="PATH",
        ),
    )
}

_CONVERT: Options = {
    "": (
        option("source", "a built-in name, a directory or a handle"),
        option("target", "a new directory", Path),
        option("--to", "the format to write", required=True, choices=_FORMATS),
        option(
            "--task",
            "the class to load it as, for instance AlbertClassifier or AlbertBackbone; "
            "by default the task that the checkpoint has a head for",
            metavar="NAME",
        ),
        flag("--without-vocabulary", "convert only the weights"),
    )
}


def _hub_handle(text: str) -> str:
    name = r"[A-Za-z0-9_][\w.-]*"
    if not re.fullmatch(rf"hf://{name}/{name}", text, re.ASCII):
        remedy = " Pass the branch as --revision." if "@" in text else ""
        msg = f"must be hf://user/model. Received: {text[:99]}.{remedy}"
        raise argparse.ArgumentTypeError(msg)
    return text


_PUSH: Options = {
    "": (
        option("directory", "a directory with a model", Path, metavar="PRESET"),
        option("handle", "hf://user/model", _hub_handle),
        flag("--private", "make a new model private"),
        option("--revision", "by default the main branch", metavar="BRANCH"),
        option(
            "--to",
            "convert the files to this format first; by default, they are pushed as "
            "they are",
            choices=_FORMATS,
        ),
    ),
    "new model card, if PRESET has no README.md": _CARD,
}

_PRETRAIN: Options = {
    "": (
        option("--config", "a TOML or JSON file of settings", Path),
        flag("--quiet", "print one line for each row of the curve"),
    ),
    "settings": tuple(settings_options()),
}


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
    if chosen["lora"] is not None and chosen["preset"] is None:
        raise ValueError("LoRA is for pretrained weights: pass --preset as well.")
    if chosen["difference"] and chosen["lora"] is None:
        raise ValueError("Without --lora, all weights differ: leave out --difference.")
    if chosen["exits"] and chosen["task"] not in ("classification", "regression"):
        raise ValueError(
            f"A model for {chosen['task']} has no exits; those for classification and "
            "regression have. Leave out --exits."
        )
    # Cleaning up can be resumed while it exists.
    if not (chosen["output"] / "training" / "last.safetensors").is_file():
        _check_unfinished(chosen)


def _check_unfinished(chosen: Mapping[str, Any]) -> None:
    """Raise if a run has written its model; a settings file may name the output."""
    preset = Path(chosen.get("output", ""), "preset")
    if "output" in chosen and preset.exists():
        msg = f"{preset} already exists: the run is finished. Choose another output."
        raise FileExistsError(msg)


COMMANDS = {
    "prepare": Command(
        "Train",
        "pretrain:run_prepare",
        "prepare texts for pretraining",
        """Prepare texts for pretraining.

INPUT is a file or a glob, in any filesystem that Apache Beam supports: text, plain or
.gz, with a paragraph or a sentence per line and a blank line between documents; or JSON
lines (.jsonl, .jsonl.gz) with a document per line. If the command is interrupted,
repeating it completes the remaining parts.
""",
        'keras-albert prepare "texts/*.gz" --vocabulary-size 8192 --output prepared',
        _PREPARE,
        one_of=("--vocabulary", "--vocabulary-size"),
    ),
    "pretrain": Command(
        "Train",
        "pretrain:run_pretrain",
        "pretrain a model on prepared texts",
        """Pretrain on the output of `keras-albert prepare`.

Settings are read from a TOML or JSON file and from flags, which take precedence. OUTPUT
receives checkpoints, curves and, at the end, a preset with a model card. If the run is
interrupted, the same command resumes it with the same result.
""",
        "keras-albert pretrain --data prepared --output run --size tiny --steps 20000",
        _PRETRAIN,
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
        _FINETUNE,
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
        _COMPRESS,
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
        _PREDICT,
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
        _EXITS,
        ("dev",),
    ),
    "export": Command(
        "Use",
        "convert:run_export",
        "export a model for a server or a device",
        """Export a model for a server or a device.

  tf_saved_model  a directory of versions for TensorFlow Serving; takes texts
  onnx            a file for ONNX Runtime or OpenVINO; takes token ids or texts
  litert          a file for LiteRT (TensorFlow Lite); takes token ids
""",
        "keras-albert export runs/mine/preset mine.onnx --inputs text",
        _EXPORT,
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
        _VERIFY,
        ("directory",),
    ),
    "convert": Command(
        "Use",
        "convert:run_convert",
        "convert a checkpoint to another library's format",
        """Convert a checkpoint and verify the result.

The new files are loaded again, by this package and, if it is installed, by the other
library, and each model computes a small batch. If the outputs differ, nothing is
written.
""",
        "keras-albert convert albert_base_v2_en_uncased mine --to transformers",
        _CONVERT,
        new_path="target",
    ),
    "push": Command(
        "Use",
        "convert:run_push",
        "push a model with its card to the Hugging Face Hub",
        """Push a model with its card to the Hugging Face Hub.

PRESET is a preset or a checkpoint of another library. All of its files are pushed in
one commit, except hidden ones. Its README.md becomes the model's page, with the handle
in the code; without one, --license writes a short card, which replaces none on the hub.
Log in before, with `hf auth login` or the variable HF_TOKEN.
""",
        "keras-albert push runs/mine/preset hf://user/model --private",
        _PUSH,
        ("directory",),
    ),
}


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
        example = f"example:\n  {command.example}"
        if name == "finetune":
            tasks = "".join(
                f"\n  {k:<22}{files}" for k, files in FINETUNE_TASKS.items()
            )
            example = f"tasks and their files:{tasks}\n\n{example}"
        subparser = commands.add_parser(
            name,
            description=command.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=example,
        )
        command.add_options(subparser)
    return parser, commands.choices
