"""Options for the depth of a model."""

import argparse

from keras_albert_cli.number_types import LAYERS, positive_number, probability


def add_depth_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to the parser of a command."""
    depth = parser.add_argument_group("depth of a preset, or an export with exits")
    depth.add_argument(
        "--num-layers", type=LAYERS, help="layers to run; by default all"
    )
    depth.add_argument(
        "--patience",
        type=LAYERS,
        help="with exits: a text leaves after this many exits in a row that agree",
    )
    depth.add_argument(
        "--threshold",
        type=probability,
        help="with exits: a text leaves once its answer is this probable",
    )
    depth.add_argument(
        "--tolerance",
        type=positive_number,
        help="with --patience: the difference of scores that agree",
    )
    depth.add_argument(
        "--return-depths", action="store_true", help="write the depth of each text"
    )
