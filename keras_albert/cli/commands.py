"""The commands, a dataclass each: its docstring is the help, its fields the options."""

import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from os.path import isfile
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from keras_albert.cli.arguments import (
    BatchSize,
    Count,
    Directory,
    File,
    Fraction,
    Kind,
    Layers,
    NewPath,
    Positive,
    Seed,
    Tokens,
    argument,
    option,
    option_name,
    settings_of,
    whole,
)

_TABLE = "TSV, CSV or JSON lines:"

# The tasks of `finetune`, and the files that each reads. These are constants of the
# package, which is not imported for help; a test compares them.
TASKS = {
    "classification": f"{_TABLE} text, optionally text_pair, label",
    "regression": f"{_TABLE} text, optionally text_pair, score",
    "masked-lm": "plain text, one paragraph per line; or TSV, CSV, JSON lines: text",
    "multiple-choice": "JSON lines: optionally context, question, choices, answer "
    "(number or letter)",
    "question-answering": "SQuAD's JSON, 1.1 or 2.0",
    "similarity": f"{_TABLE} text, text_pair, score",
    "token-classification": "CoNLL: one word and its tag per line; or JSON lines: "
    "words, tags",
}
RECIPES = (
    *("cola", "mnli", "mrpc", "qnli", "qqp", "race", "rte", "squad-1.1", "squad-2.0"),
    *("sst-2", "sts-b", "wnli"),
)
CHECKPOINTS = (
    *("keras-albert", "transformers", "sentence-transformers", "keras-hub", "google"),
)
EXPORTS = (
    *("tf_saved_model", "onnx", "litert", "mediapipe", "transformers_onnx"),
    "web_page",
)
Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]


def _hub_handle(text: str) -> str:
    name = r"[A-Za-z0-9_][\w.-]*"
    if not re.fullmatch(rf"hf://{name}/{name}", text, re.ASCII):
        remedy = " Pass the branch as --revision." if "@" in text else ""
        msg = f"must be hf://user/model. Received: {text[:99]}.{remedy}"
        raise ArgumentTypeError(msg)
    return text


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """The options of a command."""

    def check(self) -> None:
        """Raise if options contradict each other, before a backend is imported."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table.

    Data:
        text_column: the column of the text
        text_pair_column: the column of the second text
    """

    text_column: str | None = option(metavar="NAME")
    text_pair_column: str | None = option(metavar="NAME")

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns that were named, by what they contain."""
        return {"text": self.text_column, "text_pair": self.text_pair_column}


@dataclass(frozen=True, kw_only=True)
class LabelledColumns(Columns):
    """The columns of a table of labelled texts, and how many rows to read.

    Data:
        limit: the maximum number of examples per file
        label_column: the column of the label
    """

    limit: Count | None = None
    label_column: str | None = option(metavar="NAME")

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns that were named, by what they contain."""
        return {**super().columns, "label": self.label_column}


@dataclass(frozen=True, kw_only=True)
class Card:
    """The facts on the card of a model.

    Model card:
        language: the language of the texts, such as en
        license: the model's license by its id on the hub, such as apache-2.0
        dataset: the data by its id on the hub, such as stanfordnlp/sst2
    """

    language: str | None = option(metavar="CODE")
    license: str | None = option(metavar="ID")
    dataset: str | None = option(metavar="ID")


@dataclass(frozen=True, kw_only=True)
class Prepare(CommandOptions):
    """Prepare texts for pretraining.

    INPUT is a file or a glob, in any filesystem that Apache Beam supports: text, plain
    or .gz, with a paragraph or a sentence per line and a blank line between documents;
    or JSON lines (.jsonl, .jsonl.gz) with a document per line. If the command is
    interrupted, repeating it completes the remaining parts.

    Args:
        inputs: a file or a glob
        output: a directory

    Vocabulary (one of the first two):
        vocabulary: a SentencePiece model, a vocab.txt or tokenizer.json of BERT, or the
            preset to continue from
        vocabulary_size: train a vocabulary of this many pieces on the texts
        vocabulary_lines: the maximum number of lines to train it on

    Examples:
        sequence_length: tokens in a row
        held_out: the fraction of the documents to evaluate on
        short_seq_prob: the fraction of shortened rows
        seed: determines the order and the shortened rows
        language: the language code
        text_field: the field of JSON lines

    Work:
        part_size: size of a plain file's parts in bytes
        workers: processes on this machine
        max_broken: stop if more than this fraction of the files are damaged .gz files;
            by default they are read up to the damage, and named
        quiet: show no progress bar in a terminal
        beam: Beam's options in one string, to run elsewhere:
            --beam='--runner=DataflowRunner --project=...'

    Example:
        keras-albert prepare "texts/*.gz" --vocabulary-size 8192 --output prepared
    """

    inputs: tuple[str, ...] = argument(metavar="INPUT")
    output: str
    vocabulary: str | None = option(one_of=True)
    vocabulary_size: Annotated[int, whole(most=10_000_000)] | None = option(one_of=True)
    vocabulary_lines: Count = 500_000
    sequence_length: Annotated[int, whole(8, 2**16)] = 512
    held_out: Fraction = 0.01
    short_seq_prob: Fraction = 0.1
    seed: Seed = 0
    language: str = "en"
    text_field: str = "text"
    part_size: Annotated[int, whole(most=2**62)] = 67_108_864
    workers: Annotated[int, whole(most=1000)] = 1
    max_broken: Fraction | None = option(metavar="FRACTION")
    quiet: bool = False
    beam: str | None = option(metavar="OPTIONS")


@dataclass(frozen=True, kw_only=True)
class Pretrain(CommandOptions):
    """Pretrain a model on prepared texts, the output of `keras-albert prepare`.

    Settings are read from a TOML or JSON file and from flags, which take precedence.
    OUTPUT receives checkpoints, curves and, at the end, a preset with a model card. If
    the run is interrupted, the same command resumes it with the same result.

    Args:
        config: a TOML or JSON file of settings
        quiet: print one line for each row of the curve
        settings: settings

    Example:
        keras-albert pretrain --data prepared --output run --size tiny --steps 20000
    """

    config: File | None = None
    quiet: bool = False
    settings: Mapping[str, Any] = settings_of(
        "keras_albert.pretraining.config:PretrainingConfig"
    )

    def check(self) -> None:
        """Raise if the run is finished; a settings file may name the output."""
        if "output" in self.settings:
            _check_unfinished(Path(self.settings["output"]))


@dataclass(frozen=True, kw_only=True)
class Check(LabelledColumns, CommandOptions):
    """Look for mistakes in labelled files before training on them.

    Errors, which make scores meaningless: equal texts in both files, or with different
    labels; labels of --dev that FILE does not have; one class; empty texts. Notes:
    nearly equal texts, labels that a classifier of the other rows contradicts, small
    classes, texts that are cut, and characters or languages that the vocabulary does
    not cover. The status is 1 if there are errors.

    Args:
        train: labelled rows, as `finetune` reads them
        dev: the validation file
        task: the task of the files
        preset: the encoder whose vectors compare texts
        unlabelled: texts without labels: which ones to label next
        output: a new JSON file with all findings
        examples: rows to show for each finding

    Example:
        keras-albert check train.tsv --dev dev.tsv --unlabelled texts.txt
    """

    train: File = argument(metavar="FILE")
    dev: File | None = None
    task: str = option("classification", choices=TASKS)
    preset: str = "albert_small_en_uncased"
    unlabelled: File | None = None
    output: NewPath | None = None
    examples: Annotated[int, whole(0, 1000)] = 3


@dataclass(frozen=True, kw_only=True)
class Finetune(Card, LabelledColumns, CommandOptions):
    r"""Fine-tune a model on your own files.

    The weights of the best epoch on the dev file are kept. OUTPUT receives a preset
    with a model card, the report, the learning curve and, if matplotlib is installed,
    plots. If the run is interrupted, the same command resumes it with the same result.

    Args:
        task: listed below
        preset: weights to start from: a built-in name, a directory or a handle; a model
            of this task with the same labels keeps its head; without it, a small model
            is trained from random weights
        train: the training file
        dev: the validation file
        output: a new directory

    Training:
        method: with a preset, linear solves a head for classification or regression on
            vectors of the frozen encoder, in seconds; contrastive first trains the
            encoder on pairs of the texts, in a minute; by default linear for at most
            500 labels without options of training, else finetune
        recipe: with a preset: use the hyperparameters of the paper for this task
        epochs: by default 3 or the recipe's
        batch_size: by default 32 or the recipe's
        learning_rate: peak rate; by default automatic
        precision: the policy of Keras to train with; by default float32
        seed: determines weights, order and dropout
        lora: with a preset: train low-rank updates of the encoder's matrices instead of
            these, and also biases, LayerNorms and the head
        exits: classification, regression: train a head after each layer, so that texts
            can leave early

    Data:
        max_length: tokens per row; by default 128

    Example:
        keras-albert finetune classification --preset albert_small_en_uncased \
            --train train.tsv --dev dev.tsv --output runs/mine
    """

    task: str = argument(metavar="TASK", choices=TASKS)
    preset: str | None = None
    train: File
    dev: File
    output: Path
    method: Literal["linear", "contrastive", "finetune"] | None = None
    recipe: str | None = option(choices=RECIPES)
    epochs: Count | None = None
    batch_size: BatchSize | None = None
    learning_rate: Positive | None = None
    precision: Precision | None = None
    seed: Seed = 0
    lora: Count | None = option(metavar="RANK")
    exits: bool = False
    max_length: Tokens | None = None

    def check(self) -> None:
        """Raise if options contradict each other."""
        is_linear = self.method in ("linear", "contrastive")
        is_classifier = self.task in ("classification", "regression")
        if self.preset is None and (self.recipe is not None or self.lora is not None):
            what = "A recipe" if self.recipe is not None else "LoRA"
            msg = f"{what} needs pretrained weights: pass --preset as well."
            raise ValueError(msg)
        if is_linear and (self.preset is None or not is_classifier):
            raise ValueError(
                "A linear head, for classification and regression, uses the vectors of "
                "a preset. Pass --preset, or leave out --method."
            )
        if self.method == "contrastive" and self.task == "regression":
            raise ValueError(
                "Contrastive training needs texts with classes, but a regression has "
                "scores. Pass --method linear."
            )
        steps = ("recipe", "epochs", "learning_rate", "lora", "exits")
        if is_linear and (given := [name for name in steps if getattr(self, name)]):
            raise ValueError(
                "A linear head is solved directly, without training steps. Leave out "
                f"{', '.join(map(option_name, given))}."
            )
        if self.exits and not is_classifier:
            raise ValueError(
                f"A model for {self.task} has no exits; those for classification and "
                "regression have. Leave out --exits."
            )
        # Cleaning up can be resumed while it exists.
        if not (self.output / "training" / "last.safetensors").is_file():
            _check_unfinished(self.output)


@dataclass(frozen=True, kw_only=True)
class Compress(Card, LabelledColumns, CommandOptions):
    r"""Make a small model of a large one.

    PRESET is an ALBERT, BERT or ELECTRA, from any source. Embeddings become narrower,
    layers fewer or shared, and the weights start from PRESET's. An embedder or a masked
    language model then learns PRESET's hidden states and vectors of --texts; any other
    task learns PRESET's outputs for --train, and the labels. OUTPUT receives a preset
    with a model card, and a report and a plot that compare quality, size and time. If
    the run is interrupted, the same command resumes it with the same result.

    Args:
        preset: the trained model: a directory or a handle
        output: a new directory
        task: the class to load it as; by default its own

    Size:
        num_layers: layers
        num_groups: groups of layers that share weights
        embedding_dim: the width of the embeddings
        adapter_rank: the rank of what each layer adds to the weights of its group
        vocabulary: another vocabulary, or a preset with it
        student: instead of sizes: a small model to train further

    Data:
        texts: for an embedder or a masked language model: a text per line (.txt, .gz),
            or the text column of a table
        train: for other tasks: as in finetune
        dev: the validation file

    Training:
        hours: how long to train
        steps: or how many steps; by default three epochs of --train
        learning_rate: peak rate
        batch_size: examples in a batch, or passages of --max-length
        max_length: tokens of the longest passage of --texts
        workers: processes that prepare --texts; four to six keep a GPU busy
        precision: the policy of Keras to train with; by default float32
        seed: determines weights, order and dropout

    Example:
        keras-albert compress hf://sentence-transformers/all-MiniLM-L6-v2 runs/small \
            --layers 3 --embedding-dim 128 --texts corpus/*.txt --hours 2
    """

    preset: str = argument()
    output: Path = argument()
    task: str | None = option(metavar="NAME")
    num_layers: Layers | None = option(None, "--layers", metavar="N")
    num_groups: Layers | None = option(None, "--groups", metavar="N")
    embedding_dim: Annotated[int, whole(2, 2**16)] | None = option(metavar="N")
    adapter_rank: Annotated[int, whole(0, 2**16)] | None = option(metavar="N")
    vocabulary: str | None = option(metavar="PATH")
    student: str | None = option(metavar="PRESET")
    texts: tuple[File, ...] | None = option(metavar="FILE")
    train: File | None = None
    dev: File | None = None
    hours: Positive | None = None
    steps: Count | None = None
    learning_rate: Positive = 0.0004
    batch_size: BatchSize = 32
    max_length: Tokens = 128
    workers: Count = option(1, metavar="N")
    precision: Precision | None = None
    seed: Seed = 0

    @property
    def sizes(self) -> dict[str, Any]:
        """The options that set sizes."""
        names = ("num_groups", "num_layers", "embedding_dim", "adapter_rank")
        return {name: getattr(self, name) for name in (*names, "vocabulary")}

    def check(self) -> None:
        """Raise if options contradict each other."""
        names = ", ".join(map(option_name, self.sizes))
        is_sized = any(self.sizes.values())
        is_timed = self.hours or self.steps
        if is_sized == (self.student is not None):
            raise ValueError(
                f"--student sets the sizes: leave out {names}."
                if is_sized
                else "Nothing would become smaller: pass at least one of "
                f"{names}, or --student."
            )
        if (self.train is None) != (self.dev is None):
            raise ValueError("Pass both --train and --dev, or neither.")
        if self.texts and self.train:
            raise ValueError("Pass either --texts or --train and --dev.")
        if self.texts and not is_timed:
            raise ValueError("Pass --hours, or --steps: how long to train on --texts.")
        if is_timed and not (self.texts or self.train):
            msg = "There is nothing to train on: pass --texts, or --train and --dev."
            raise ValueError(msg)
        _check_unfinished(self.output)


@dataclass(frozen=True, kw_only=True)
class Predict(Columns, CommandOptions):
    """Predict for each row of a file.

    MODEL is a preset, the directory of a SavedModel, or an .onnx or .tflite file. FILE
    is .txt with one text per line, or .tsv, .csv or .jsonl with a column for each
    input: text and optionally text_pair; question and context; or question, choices and
    optionally context. The output has one line for each row, in the same order. With
    --output, an interrupted run can be resumed: the same command continues after the
    last complete line.

    Args:
        model: a preset or an export
        file: the rows to predict for
        output: a new file; by default predictions are printed
        to: JSON lines or TSV; by default the suffix of --output, or jsonl
        batch_size: rows that are computed at once

    Model:
        task: the class to load a preset as; by default its own
        preset: for a model of token ids: the preset with its preprocessor
        signature: a signature of a SavedModel; by default the one reading most columns

    Depth of a preset:
        num_layers: layers to run; by default all
        patience: with exits: a text leaves after this many exits in a row that agree
        threshold: with exits: a text leaves once its answer is this probable; of a
            regression, with --patience, the difference of scores that agree
        return_depths: write the depth of each text

    Example:
        keras-albert predict runs/mine/preset reviews.tsv --output answers.jsonl
    """

    model: str = argument()
    file: File = argument()
    output: NewPath | None = None
    to: Literal["jsonl", "tsv"] | None = None
    batch_size: BatchSize = 32
    task: str | None = option(metavar="NAME")
    preset: str | None = None
    signature: str | None = None
    num_layers: Layers | None = None
    patience: Layers | None = None
    threshold: Positive | None = None
    return_depths: bool = False

    def check(self) -> None:
        """Raise if there is no such model, or the output is on another machine."""
        check_local(self.output)
        is_file = self.model.endswith((".onnx", ".tflite"))
        if is_file and not is_address(self.model) and not isfile(self.model):
            msg = f"model: there is no file {self.model}. Correct the name."
            raise FileNotFoundError(msg)


@dataclass(frozen=True, kw_only=True)
class Evaluate(LabelledColumns, CommandOptions):
    """Measure a model on a labelled file, and show where it errs.

    Prints the metrics of PRESET's task with 95% intervals (bootstrap over the rows),
    also for each class, for short and long texts and for each value of a column, and
    the rows with the largest errors. --output receives all of it as report.json, all
    rows by their errors as rows.jsonl, and plots of the confusion and of the
    calibration: how many answers of each probability are right.

    Args:
        preset: a fine-tuned model: a directory, a handle or a built-in name
        file: rows with their labels, as `finetune` reads them
        output: a new directory for report.json, rows.jsonl and plots
        task: the class to load the preset as; by default its own
        slice: also show each value of this column
        worst: how many of the worst rows to show
        explain: classifiers: name the words that these answers depend on
        resamples: draws for the intervals
        seed: determines the draws

    Example:
        keras-albert evaluate runs/mine/preset test.tsv --slice language --output errors
    """

    preset: str = argument()
    file: File = argument(metavar="FILE")
    output: NewPath | None = None
    task: str | None = option(metavar="NAME")
    slice: str | None = option(metavar="COLUMN")
    worst: Annotated[int, whole(0, 1000)] = 5
    explain: bool = False
    resamples: Annotated[int, whole(10, 100_000)] = 1000
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class Calibrate(LabelledColumns, CommandOptions):
    """Calibrate a classifier's probabilities, with texts that are new to it.

    Its logits are divided by a temperature, which becomes part of the weights. With
    --error-rate, answers also have a set of labels, in presets and exports.

    Args:
        preset: a classifier: a directory, a handle or a built-in name
        file: labelled rows that it was not trained on
        output: a new directory
        error_rate: also give each text a set of labels, which misses the right one for
            at most this share of texts like these

    Example:
        keras-albert calibrate runs/mine/preset dev.tsv mine --error-rate 0.1
    """

    preset: str = argument()
    file: File = argument(metavar="FILE")
    output: NewPath = argument()
    error_rate: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class Export(CommandOptions):
    """Export a model for a server or a device.

      tf_saved_model  a directory of versions for TensorFlow Serving; takes texts
      onnx            a file for ONNX Runtime or OpenVINO; takes token ids or texts
      transformers_onnx  a folder for transformers.js, Optimum, sentence-transformers
      web_page        a page that runs the model in a browser
      litert          a file for LiteRT (TensorFlow Lite); takes token ids
      mediapipe       a file for MediaPipe's text tasks; takes texts

    Args:
        preset: a fine-tuned model: a directory or a handle
        path: the file or directory to write
        format: by default onnx for a path that ends in .onnx, litert for .tflite, and
            tf_saved_model for any other
        task: the class to load it as; by default its own

    Options of tf_saved_model:
        version: by default the next one
        max_length: the maximum length of rows in tokens
        top_k: number of predictions

    Options of onnx, litert and mediapipe:
        quantize: onnx: int8; litert, mediapipe: dynamic_int8 or fp16; by default float
        inputs: onnx: tokens (by default) or text
        pairs: onnx: take pairs of texts
        sequence_length: litert, mediapipe: fixed length of rows in tokens; by default
            any
        overwrite: replace the file

    Options of web_page:
        javascript: npm's directory of onnxruntime-web and
            @huggingface/tokenizers; by default this one

    Example:
        keras-albert export runs/mine/preset mine.onnx --inputs text
    """

    preset: str = argument()
    path: NewPath = argument()
    format: str | None = option(choices=EXPORTS)
    task: str | None = option(metavar="NAME")
    version: Annotated[int, whole(0, 2**63 - 1)] | None = None
    max_length: Tokens | None = None
    top_k: Count | None = None
    quantize: str | None = None
    inputs: str | None = None
    pairs: bool = False
    sequence_length: Tokens | None = None
    overwrite: bool = False
    javascript: str | None = option(metavar="DIR")


@dataclass(frozen=True, kw_only=True)
class Serve(CommandOptions):
    """Answer requests over HTTP, with TensorFlow's graph on any backend.

      /                            a page to try the model
      /v1/models/NAME:predict      TensorFlow Serving's JSON
      /v1/embeddings               OpenAI's JSON, for models that embed texts
      /metrics                     for Prometheus

    Waiting requests are computed in batches. After Ctrl-C or SIGTERM, the server
    answers the requests that it is computing, and ends. Requires
    `pip install "keras-albert[serve,tensorflow]"`.

    Args:
        preset: a fine-tuned model, or the directory of an exported SavedModel
        task: the class to load a preset as; by default its own
        name: what clients call the model
        host: the address to listen on
        port: 0 takes a free one

    Limits for clients:
        max_body_bytes: bytes of a request
        max_rows: rows of a request
        max_characters: characters of a text
        max_requests: requests waiting for the model
        max_connections: open connections
        max_batch_rows: rows of several requests that are computed together
        max_seconds: time for a request to arrive

    Example:
        keras-albert serve albert_small_en_uncased_sst2 --port 8501
    """

    preset: str = argument()
    task: str | None = option(metavar="NAME")
    name: str = "model"
    host: str = "127.0.0.1"
    port: Annotated[int, whole(0, 65535)] = 8501
    max_body_bytes: Count = option(2_097_152, metavar="N")
    max_rows: Count = option(128, metavar="N")
    max_characters: Count = option(100_000, metavar="N")
    max_requests: Count = option(16, metavar="N")
    max_connections: Count = option(64, metavar="N")
    max_batch_rows: Count = option(64, metavar="N")
    max_seconds: Count = option(20, metavar="N")


@dataclass(frozen=True, kw_only=True)
class Verify(CommandOptions):
    """Check that a server can serve an export: load it and run it.

    TensorFlow's session loads the SavedModel in a separate process, as TensorFlow
    Serving does, without Python code of this package or of tensorflow-text. A stock
    server must have all of its operations, and the warm-up requests are replayed.
    Prints the signatures and example requests.

    Args:
        directory: an exported version, or the directory of versions
        python: the interpreter whose TensorFlow loads it; by default this one

    Example:
        keras-albert verify served/mine
    """

    directory: Directory = argument()
    python: str | None = option(metavar="PATH")


@dataclass(frozen=True, kw_only=True)
class Convert(CommandOptions):
    """Convert a checkpoint to another library's format.

    The new files are loaded again, by this package and, if it is installed, by the
    other library, and each model computes a small batch. If the outputs differ, nothing
    is written.

    Args:
        source: a built-in name, a directory or a handle
        target: a new directory
        to: the format to write
        task: the class to load it as, for instance AlbertClassifier or AlbertBackbone;
            by default the task that the checkpoint has a head for
        without_vocabulary: convert only the weights

    Example:
        keras-albert convert albert_base_v2_en_uncased mine --to transformers
    """

    source: str = argument()
    target: NewPath = argument()
    to: str = option(MISSING, choices=CHECKPOINTS)
    task: str | None = option(metavar="NAME")
    without_vocabulary: bool = False


@dataclass(frozen=True, kw_only=True)
class Push(Card, CommandOptions):
    """Push a model with its card to the Hugging Face Hub.

    PRESET is a preset or a checkpoint of another library. All of its files are pushed
    in one commit, except hidden ones. Its README.md becomes the model's page, with the
    handle in the code; without one, --license writes a short card, which never replaces
    one on the hub. Log in first, with `hf auth login` or the variable HF_TOKEN.

    Args:
        directory: a directory with a model
        handle: hf://user/model
        private: make a new model private
        revision: by default the main branch
        to: convert the files to this format first; by default, they are pushed as they
            are

    Example:
        keras-albert push runs/mine/preset hf://user/model --private
    """

    directory: Directory = argument(metavar="PRESET")
    handle: Annotated[str, Kind(_hub_handle)] = argument()
    private: bool = False
    revision: str | None = option(metavar="BRANCH")
    to: str | None = option(choices=CHECKPOINTS)


def is_address(path: object) -> bool:
    """Return whether a path is an address; see `keras_albert.utils.remote`."""
    return bool(_address.match(str(path)))


# `Path` joins the two slashes.
_address = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")


def check_local(output: Path | None) -> None:
    """Raise if an output that grows row by row is on another machine."""
    if match := _address.match(str(output)):
        address = f"{match[1]}://{str(output)[match.end() :]}"
        raise ValueError(
            f"--output: {address} is not a path on this machine. Pass a local or "
            "mounted path, and copy the files with the tool of the storage."
        )


def _check_unfinished(output: Path) -> None:
    """Raise if a run has written its model."""
    preset = output / "preset"
    if preset.exists():
        msg = f"{preset} already exists: the run is finished. Choose another output."
        raise FileExistsError(msg)


class Command(NamedTuple):
    """A row of the table of commands."""

    group: str
    options: type[CommandOptions]
    # The function that takes the options, "module:name", in this folder.
    place: str


COMMANDS: Mapping[str, Command] = {
    "prepare": Command("Train", Prepare, "pretrain:prepare"),
    "pretrain": Command("Train", Pretrain, "pretrain:run"),
    "check": Command("Train", Check, "quality:check"),
    "finetune": Command("Train", Finetune, "finetune:run"),
    "compress": Command("Train", Compress, "compress:run"),
    "predict": Command("Use", Predict, "predict:run"),
    "evaluate": Command("Use", Evaluate, "quality:evaluate"),
    "calibrate": Command("Use", Calibrate, "quality:calibrate"),
    "export": Command("Use", Export, "convert:export"),
    "serve": Command("Use", Serve, "serve:run"),
    "verify": Command("Use", Verify, "convert:verify"),
    "convert": Command("Use", Convert, "convert:convert"),
    "push": Command("Use", Push, "convert:push"),
}
