"""The options of `prepare`."""

import argparse

from keras_albert_cli.number_types import SEED, fraction, whole_number

# Constants of the package, which is not imported for help; a test compares them.
PART_SIZE = 64 * 2**20
VOCABULARY_LINES = 500_000


def add_prepare_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser of the command."""
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="a file or a glob")
    parser.add_argument("--output", required=True, help="a directory")
    vocabulary = parser.add_argument_group("vocabulary (one of the first two)")
    one = vocabulary.add_mutually_exclusive_group(required=True)
    one.add_argument(
        "--vocabulary",
        help="a SentencePiece model, a vocab.txt or tokenizer.json of BERT, or the "
        "preset to continue from",
    )
    one.add_argument(
        "--vocabulary-size",
        type=whole_number(most=10**7),
        help="train a vocabulary of this many pieces on the texts",
    )
    vocabulary.add_argument(
        "--vocabulary-lines",
        type=whole_number(),
        default=VOCABULARY_LINES,
        help="the maximum number of lines to train it on; by default "
        f"{VOCABULARY_LINES:,}",
    )
    examples = parser.add_argument_group("examples")
    examples.add_argument(
        "--sequence-length",
        type=whole_number(8, 2**16),
        default=512,
        help="by default 512",
    )
    examples.add_argument(
        "--held-out",
        type=fraction,
        default=0.01,
        help="the fraction of the documents to evaluate on; by default 0.01",
    )
    examples.add_argument(
        "--short-seq-prob",
        type=fraction,
        default=0.1,
        help="the fraction of shortened rows; by default 0.1",
    )
    examples.add_argument("--seed", type=SEED, default=0, help="by default 0")
    examples.add_argument(
        "--language", default="en", help="the language code; by default en"
    )
    examples.add_argument(
        "--text-field", default="text", help="the field of JSON lines; by default text"
    )
    work = parser.add_argument_group("work")
    work.add_argument(
        "--part-size",
        type=whole_number(most=2**62),
        default=PART_SIZE,
        help=f"size of a plain file's parts in bytes; by default {PART_SIZE:,}",
    )
    work.add_argument(
        "--workers",
        type=whole_number(most=1000),
        default=1,
        help="processes on this machine; by default 1",
    )
    work.add_argument(
        "--max-broken",
        type=fraction,
        metavar="FRACTION",
        help="stop if more than this fraction of the files are damaged .gz files; by "
        "default they are read up to the damage, and named",
    )
    work.add_argument(
        "--quiet", action="store_true", help="show no progress bar in a terminal"
    )
    work.add_argument(
        "--beam",
        metavar="OPTIONS",
        help="Beam's options in one string, to run elsewhere: "
        "--beam='--runner=DataflowRunner --project=...'",
    )
