"""`keras-albert verify`: checks that a server can serve an export."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from keras_albert.serving.tensorflow_files.saved_model_file import TensorSpec
from keras_albert.serving.verification.verify import verify

_HELP = """Load a SavedModel as TensorFlow Serving does, and run it.

TensorFlow's session loads it in a separate process, without Python code of this package
or of tensorflow-text. A stock server must have all of its operations, and the warm-up
requests are replayed. Prints the signatures and example requests.
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "verify",
        help="check that a server can serve an export",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "directory", type=Path, help="an exported version, or the directory of versions"
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter whose TensorFlow loads it; by default this one",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        arguments: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        ImportError: If TensorFlow is not installed.
        ValueError: If the export cannot be served.
    """
    model = verify(arguments.directory, arguments.python)
    console = Console()
    table = Table("signature", "", "name", "dtype", "shape", title=str(model.directory))
    for name, signature in model.signatures.items():
        for kind, specs in (("in", signature.inputs), ("out", signature.outputs)):
            for key, spec in specs.items():
                table.add_row(name, kind, key, spec.dtype, _shape(spec))
    console.print(table)
    served = model.directory.parent.name
    print(f"\nREST: POST http://localhost:8501/v1/models/{served}:predict")
    print(*model.rest.values(), sep="\n")
    print("\ngRPC: tensorflow.serving.PredictionService/Predict at localhost:8500")
    print(*model.grpc.values(), sep="\n")
    print(
        f"\n{model.directory}: {len(model.operations)} operations, all of them a stock "
        f"server's; {model.requests} warm-up requests answered, the largest difference "
        f"{model.largest_difference:.1e}"
    )
    return 0


def _shape(spec: TensorSpec) -> str:
    return "(" + ", ".join("?" if n is None else str(n) for n in spec.shape) + ")"
