"""The commands, with their options and help."""

import argparse
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from runpy import run_path
from typing import Any

from keras_albert_cli.command import (
    KINDS,
    Command,
    Options,
    Parser,
    read_options,
    settings_options,
)

# The tasks of `finetune`, and the files that each reads. The table imports nothing, so
# that it can be read without the package.
_TABLES = run_path(str(Path(__file__).parents[1] / "keras_albert/tasks/table.py"))
FINETUNE_TASKS = {
    name: how.files
    for row in _TABLES["TASKS"].values()
    for name, how in row.finetuning.items()
}
# Constants of the package, which is not imported for help; a test compares them.
RECIPES = (
    *("cola", "mnli", "mrpc", "qnli", "qqp", "race", "rte", "squad-1.1", "squad-2.0"),
    *("sst-2", "sts-b", "wnli"),
)
_FORMATS = (
    *("keras-albert", "transformers", "sentence-transformers", "keras-hub", "google"),
)


class _Version(argparse.Action):
    """Prints versions, which are looked up when they are asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        help = "show the versions of this package and of those that it uses"  # noqa: A001
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: Parser, *_: Any) -> None:
        from keras_albert_cli.run_command import describe_versions  # noqa: PLC0415

        print(describe_versions())
        parser.exit()


def _hub_handle(text: str) -> str:
    name = r"[A-Za-z0-9_][\w.-]*"
    if not re.fullmatch(rf"hf://{name}/{name}", text, re.ASCII):
        remedy = " Pass the branch as --revision." if "@" in text else ""
        msg = f"must be hf://user/model. Received: {text[:99]}.{remedy}"
        raise argparse.ArgumentTypeError(msg)
    return text


KINDS.update(
    {
        "handle": {"type": _hub_handle},
        "task": {"choices": FINETUNE_TASKS},
        "recipe": {"choices": RECIPES},
        "format": {"choices": _FORMATS},
    }
)
_COLUMNS = """
--text-column NAME: the column of the text
--text-pair-column NAME: the column of the second text
--label-column NAME: the column of the label
""".strip()
_CARD = """
--language CODE: the language of the texts, such as en
--license ID: the model's license by its id on the hub, such as apache-2.0
--dataset ID: the data by its id on the hub, such as stanfordnlp/sst2
""".strip()

_PRECISION = """
--precision (float32|mixed_bfloat16|mixed_float16): the policy of Keras to train with;
  by default float32
""".strip()

_PREPARE = read_options("""
inputs INPUT (...): a file or a glob
--output (required): a directory
[vocabulary (one of the first two)]
--vocabulary: a SentencePiece model, a vocab.txt or tokenizer.json of BERT, or the
  preset to continue from
--vocabulary-size (1..10000000): train a vocabulary of this many pieces on the texts
--vocabulary-lines (count = 500_000): the maximum number of lines to train it on
[examples]
--sequence-length (8..65536 = 512):
--held-out (fraction = 0.01): the fraction of the documents to evaluate on
--short-seq-prob (fraction = 0.1): the fraction of shortened rows
--seed (seed = 0):
--language (= en): the language code
--text-field (= text): the field of JSON lines
[work]
--part-size (1..4611686018427387904 = 67_108_864): size of a plain file's parts in bytes
--workers (1..1000 = 1): processes on this machine
--max-broken FRACTION (fraction): stop if more than this fraction of the files are
  damaged .gz files; by default they are read up to the damage, and named
--quiet (flag): show no progress bar in a terminal
--beam OPTIONS: Beam's options in one string, to run elsewhere:
  --beam='--runner=DataflowRunner --project=...'
""")

_FINETUNE = read_options(f"""
task TASK (task): listed below
--preset: weights to start from: a built-in name, a directory or a handle; a model of
  this task with the same labels keeps its head; without it, a small model is trained
  from random weights
--train (path required): the training file
--dev (path required): the validation file
--output (path required): a new directory
[training]
--method (linear|contrastive|finetune): with a preset, linear solves a head for
  classification or regression on vectors of the frozen encoder, in seconds; contrastive
  first trains the encoder on pairs of the texts, in a minute; by default linear for at
  most 500 labels without options of training, else finetune
--recipe (recipe): with a preset: use the hyperparameters of the paper for this task
--epochs (count): by default 3 or the recipe's
--batch-size (batch_size): by default 32 or the recipe's
--learning-rate (positive): peak rate; by default automatic
{_PRECISION}
--seed (seed = 0):
--lora RANK (count): with a preset: train low-rank updates of the encoder's matrices
  instead of these, and also biases, LayerNorms and the head
--exits (switch): classification, regression: train a head after each layer, so that
  texts can leave early
[data]
--max-length (tokens): tokens per row; by default 128
--limit (count): maximum number of examples per file
{_COLUMNS}
[model card]
{_CARD}
""")

_COMPRESS = read_options(f"""
preset: the trained model: a directory or a handle
output (path): a new directory
--task NAME: the class to load it as; by default its own
[size]
--num-layers --layers N (layers): layers
--num-groups --groups N (layers): groups of layers that share weights
--embedding-dim N (2..65536): the width of the embeddings
--adapter-rank N (0..65536): the rank of what each layer adds to the weights of its
  group
--vocabulary PATH: another vocabulary, or a preset with it
--student PRESET: instead of sizes: a small model to train further
[data]
--texts FILE (path...): for an embedder or a masked language model: a text per line
  (.txt, .gz), or the text column of a table
--train (path): for other tasks: as in finetune
--dev (path): the validation file
--limit (count): maximum number of examples per file
{_COLUMNS}
[training]
--hours (positive): how long to train
--steps (count): or how many steps; by default three epochs of --train
--learning-rate (positive = 0.0004): peak rate
--batch-size (batch_size = 32): examples in a batch, or passages of --max-length
--max-length (tokens = 128): tokens of the longest passage of --texts
--workers N (count = 1): processes that prepare --texts; four to six keep a GPU busy
{_PRECISION}
--seed (seed = 0):
[model card]
{_CARD}
""")

_PREDICT = read_options("""
model: a preset or an export
file (path): the rows to predict for
--output (path): a new file; by default predictions are printed
--to (jsonl|tsv): JSON lines or TSV; by default the suffix of --output, or jsonl
--batch-size (batch_size = 32):
[model]
--task NAME: the class to load a preset as; by default its own
--preset: for a model of token ids: the preset with its preprocessor
--signature: a signature of a SavedModel; by default the one reading most columns
[depth of a preset]
--num-layers (layers): layers to run; by default all
--patience (layers): with exits: a text leaves after this many exits in a row that agree
--threshold (positive): with exits: a text leaves once its answer is this probable; of a
  regression, with --patience, the difference of scores that agree
--return-depths (flag): write the depth of each text
[data]
--text-column NAME: the column of the text
--text-pair-column NAME: the column of the second text
""")

_CHECK = read_options(f"""
train FILE (path): labelled rows, as `finetune` reads them
--dev (path): the validation file
--task (task = classification): the task of the files
--preset (= albert_small_en_uncased): the encoder whose vectors compare texts
--unlabelled (path): texts without labels: which ones to label next
--output (path): a new JSON file with all findings
--examples (0..1000 = 3): rows to show for each finding
[data]
--limit (count): maximum number of examples per file
{_COLUMNS}
""")

_EVALUATE = read_options(f"""
preset: a fine-tuned model: a directory, a handle or a built-in name
file FILE (path): rows with their labels, as `finetune` reads them
--output (path): a new directory for report.json, rows.jsonl and plots
--task NAME: the class to load the preset as; by default its own
--slice COLUMN: also show each value of this column
--worst (0..1000 = 5): how many of the worst rows to show
--explain (flag): classifiers: name the words that these answers depend on
--resamples (10..100000 = 1000): draws for the intervals
--seed (seed = 0):
[data]
--limit (count): maximum number of examples
{_COLUMNS}
""")

_CALIBRATE = read_options(f"""
preset: a classifier: a directory, a handle or a built-in name
file FILE (path): labelled rows that it was not trained on
output (path): a new directory
--error-rate (fraction): also give each text a set of labels, which lacks the right one
  for at most this share of texts like these
[data]
--limit (count): maximum number of examples
{_COLUMNS}
""")

_EXPORT = read_options(f"""
preset: a fine-tuned model: a directory or a handle
path (path): the file or directory to write
--format ({"|".join(_TABLES["WRITERS"])}): by default onnx for a path that ends in
  .onnx, litert for .tflite, and tf_saved_model for any other
--task NAME: the class to load it as; by default its own
[options of tf_saved_model]
--version (0..9223372036854775807): by default the next one
--max-length (tokens): the maximum length of rows in tokens
--top-k (count): number of predictions
[options of onnx, litert and mediapipe]
--quantize: onnx: int8; litert, mediapipe: dynamic_int8 or fp16; by default
  float
--inputs: onnx: tokens (by default) or text
--pairs (flag): onnx: take pairs of texts
--sequence-length (tokens): litert, mediapipe: fixed length of rows in tokens; by
  default any
--overwrite (flag): replace the file
[options of web_page]
--javascript DIR: web_page: npm's directory of onnxruntime-web and
  @huggingface/tokenizers; by default this one
""")

_SERVE = read_options("""
preset: a fine-tuned model, or the directory of an exported SavedModel
--task NAME: the class to load a preset as; by default its own
--name (= model): what clients call the model
--host (= 127.0.0.1): the address to listen on
--port (0..65535 = 8501): 0 takes a free one
[limits for clients]
--max-body-bytes N (count = 2_097_152): bytes of a request
--max-rows N (count = 128): rows of a request
--max-characters N (count = 100_000): characters of a text
--max-requests N (count = 16): requests that wait for the model
--max-connections N (count = 64): open connections
--max-batch-rows N (count = 64): rows of several requests that are computed together
--max-seconds N (count = 20): time for a request to arrive
""")

_VERIFY = read_options("""
directory (path): an exported version, or the directory of versions
--python PATH: the interpreter whose TensorFlow loads it; by default this one
""")

_CONVERT = read_options("""
source: a built-in name, a directory or a handle
target (path): a new directory
--to (format required): the format to write
--task NAME: the class to load it as, for instance AlbertClassifier or AlbertBackbone;
  by default the task that the checkpoint has a head for
--without-vocabulary (flag): convert only the weights
""")

_PUSH = read_options(f"""
directory PRESET (path): a directory with a model
handle (handle): hf://user/model
--private (flag): make a new model private
--revision BRANCH: by default the main branch
--to (format): convert the files to this format first; by default, they are pushed as
  they are
[new model card, if PRESET has no README.md]
{_CARD}
""")

_PRETRAIN: Options = {
    **read_options("""
--config (path): a TOML or JSON file of settings
--quiet (flag): print one line for each row of the curve
"""),
    "settings": tuple(settings_options()),
}


def _check_compress(chosen: Mapping[str, Any]) -> None:
    sizes = ("num_groups", "num_layers", "embedding_dim", "adapter_rank", "vocabulary")
    names = ", ".join(f"--{name.replace('_', '-')}" for name in sizes)
    is_sized = any(chosen[name] for name in sizes)
    texts, train, dev = (chosen[name] for name in ("texts", "train", "dev"))
    is_timed = chosen["hours"] or chosen["steps"]
    if not is_sized and chosen["student"] is None:
        msg = (
            f"Nothing would become smaller: pass at least one of {names}, or --student."
        )
        raise ValueError(msg)
    if is_sized and chosen["student"] is not None:
        raise ValueError(f"--student sets the sizes: leave out {names}.")
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
        raise ValueError("A recipe needs pretrained weights: pass --preset as well.")
    if chosen["lora"] is not None and chosen["preset"] is None:
        raise ValueError("LoRA needs pretrained weights: pass --preset as well.")
    is_linear = chosen["method"] in ("linear", "contrastive")
    is_classifier = chosen["task"] in ("classification", "regression")
    if is_linear and (chosen["preset"] is None or not is_classifier):
        raise ValueError(
            "A linear head, for classification and regression, uses the vectors of a "
            "preset. Pass --preset, or leave out --method."
        )
    if chosen["method"] == "contrastive" and chosen["task"] == "regression":
        raise ValueError(
            "Contrastive training needs texts with classes, but a regression has "
            "scores. Pass --method linear."
        )
    steps = ("recipe", "epochs", "learning_rate", "lora", "exits")
    if is_linear and (given := [name for name in steps if chosen[name]]):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(
            "A linear head is solved directly, without training steps. Leave out "
            f"{names}."
        )
    if chosen["exits"] and not is_classifier:
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
    "check": Command(
        "Train",
        "check",
        "look for mistakes in labelled files",
        """Look for mistakes in labelled files before training on them.

Errors, which make scores meaningless: equal texts in both files, or with different
labels; labels of --dev that FILE lacks; one class; empty texts. Notes: nearly equal
texts, labels that a classifier of the other rows contradicts, small classes, texts that
are cut, and characters or languages that the vocabulary lacks. The status is 1 if there
are errors.
""",
        "keras-albert check train.tsv --dev dev.tsv --unlabelled texts.txt",
        _CHECK,
        ("train", "dev", "unlabelled"),
        "output",
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
        "keras-albert finetune classification --preset albert_small_en_uncased \\\n"
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
layers fewer or shared, and the weights start from PRESET's. An embedder or a
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
    "evaluate": Command(
        "Use",
        "evaluate:run_evaluate",
        "measure a model on a labelled file, and show where it errs",
        """Measure a model on a labelled file, and show where it errs.

Prints the metrics of PRESET's task with 95% intervals (bootstrap over the rows), also
for each class, for short and long texts and for each value of a column, and the rows
with the largest errors. --output receives all of it as report.json, all rows by their
errors as rows.jsonl, and plots of the confusion and of the calibration: how many
answers of each probability are right.
""",
        "keras-albert evaluate runs/mine/preset test.tsv --slice language "
        "--output errors",
        _EVALUATE,
        ("file",),
        "output",
    ),
    "calibrate": Command(
        "Use",
        "evaluate:run_calibrate",
        "make a classifier's probabilities honest",
        """Make a classifier's probabilities honest, with texts that are new to it.

Its logits are divided by a temperature, which becomes part of the weights. With
--error-rate, answers also have a set of labels, in presets and exports.
""",
        "keras-albert calibrate runs/mine/preset dev.tsv mine --error-rate 0.1",
        _CALIBRATE,
        ("file",),
        "output",
    ),
    "export": Command(
        "Use",
        "convert:run_export",
        "export a model for a server or a device",
        """Export a model for a server or a device.

  tf_saved_model  a directory of versions for TensorFlow Serving; takes texts
  onnx            a file for ONNX Runtime or OpenVINO; takes token ids or texts
  transformers_onnx  a folder for transformers.js, Optimum, sentence-transformers
  web_page        a page that runs the model in a browser
  litert          a file for LiteRT (TensorFlow Lite); takes token ids
  mediapipe       a file for MediaPipe's text tasks; takes texts
""",
        "keras-albert export runs/mine/preset mine.onnx --inputs text",
        _EXPORT,
        new_path="path",
    ),
    "serve": Command(
        "Use",
        "serve",
        "answer requests over HTTP",
        """Answer requests over HTTP, with TensorFlow's graph on any backend.

  /                            a page to try the model
  /v1/models/NAME:predict      TensorFlow Serving's JSON
  /v1/embeddings               OpenAI's JSON, for models that embed texts
  /metrics                     for Prometheus

Requests that wait are computed in batches. After Ctrl-C or SIGTERM, the server answers
the requests that it is computing, and ends. Requires
`pip install "keras-albert[serve,tensorflow]"`.
""",
        "keras-albert serve albert_small_en_uncased_sst2 --port 8501",
        _SERVE,
    ),
    "verify": Command(
        "Use",
        "convert:run_verify",
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
in the code; without one, --license writes a short card, which never replaces one on the
hub. Log in first, with `hf auth login` or the variable HF_TOKEN.
""",
        "keras-albert push runs/mine/preset hf://user/model --private",
        _PUSH,
        ("directory",),
    ),
}


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """Build the parser of the command line."""
    listed = ""
    for group, commands_in in groupby(COMMANDS.items(), lambda each: each[1].group):
        lines = [f"  {name:<10}{command.summary}\n" for name, command in commands_in]
        listed += f"\n{group}:\n{''.join(lines)}"
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
