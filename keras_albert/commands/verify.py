"""`keras-albert verify`: checks that a server can serve an export."""

import argparse

from rich.table import Table

from keras_albert.commands.report import plain_console
from keras_albert.serving.verification import verify


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    model = verify(arguments.directory, arguments.python)
    console = plain_console()
    table = Table("signature", "", "name", "dtype", "shape", title=str(model.directory))
    for name, signature in model.signatures.items():
        for kind, specs in (("in", signature.inputs), ("out", signature.outputs)):
            for key, spec in specs.items():
                shape = ", ".join("?" if n is None else str(n) for n in spec.shape)
                table.add_row(name, kind, key, spec.dtype, f"({shape})")
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
