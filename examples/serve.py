"""Fine-tune, export, verify and serve a model with TensorFlow Serving's REST API.

    python examples/serve.py
    python examples/serve.py --train SST-2/train.tsv --dev SST-2/dev.tsv --preset PRESET

Without files, the data is `examples/data/support_messages.tsv`, with six classes;
without a preset, a small model is trained from random weights. The results are kept in
OUTPUT, so that the next start serves immediately. In another terminal, run the command
that it prints:

    curl -d '{"instances": ["where is my parcel?"]}' \
        http://127.0.0.1:8501/v1/models/model:predict

The paths and the JSON are those of TensorFlow Serving's REST interface, for development
without Docker; the commands for TensorFlow Serving are printed as well. Requests that
wait are computed in batches. Their size is limited, and thus the memory that they use:
see --help. Requires TensorFlow, and `pip install starlette uvicorn`.
"""

import argparse
import asyncio
import json
import shlex
import socket
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

from keras_albert_cli.loading import loading

# Ctrl-C is handled during the imports too, which take seconds.
with loading("serve.py"):
    import h11
    import keras
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (its operations)
    import uvicorn
    from request_batches import Arrays, Limits, RequestBatches
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from keras_albert import (
        AlbertBackbone,
        AlbertClassifier,
        AlbertClassifierPreprocessor,
        AlbertTokenizer,
    )
    from keras_albert.commands.files import read_table
    from keras_albert.serving import VerifiedModel, verify
    from keras_albert.serving.verification import TensorSpec
    from keras_albert.text import train_vocabulary
    from keras_albert_cli.number_types import whole_number
    from keras_albert_cli.run_program import run_program

MESSAGES = Path(__file__).parent / "data" / "support_messages.tsv"
MAX_LENGTH = 64
# TensorFlow's names of the dtypes of signatures.
DTYPES = {"float32": "DT_FLOAT", "int32": "DT_INT32", "string": "DT_STRING"}


class ServedModel:
    """A version of an exported model.

    Args:
        name: string. The name of the model in requests.
        verified: `VerifiedModel`. The version, whose directory is named by a number.
        limits: `Limits`.
    """

    def __init__(self, name: str, verified: VerifiedModel, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.version = verified.directory.name
        self.signatures = verified.signatures
        self._model = tf.saved_model.load(str(verified.directory))

    def status(self) -> dict[str, Any]:
        """Return the model's status, in TensorFlow Serving's format."""
        return {
            "model_version_status": [
                {
                    "version": self.version,
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                }
            ]
        }

    def metadata(self) -> dict[str, Any]:
        """Describe the model's signatures, in TensorFlow Serving's format."""
        described = {
            name: {
                "inputs": _describe(signature.inputs),
                "outputs": _describe(signature.outputs),
                "method_name": "tensorflow/serving/predict",
            }
            for name, signature in self.signatures.items()
        }
        return {
            "model_spec": {
                "name": self.name,
                "signature_name": "",
                "version": self.version,
            },
            "metadata": {"signature_def": {"signature_def": described}},
        }

    def compute(self, signature: str, inputs: Arrays) -> Arrays:
        """Return the outputs of a signature; raise `ValueError` for invalid inputs."""
        specs = self.signatures[signature].inputs
        tensors = {
            name: tf.constant(array, specs[name].dtype, array.shape)
            for name, array in inputs.items()
        }
        try:
            outputs = self._model.signatures[signature](**tensors)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(error.message) from error
        return {name: tensor.numpy() for name, tensor in outputs.items()}


def _describe(specs: dict[str, TensorSpec]) -> dict[str, Any]:
    found = {}
    for name, spec in specs.items():
        sizes = ["-1" if size is None else str(size) for size in spec.shape]
        dims = [{"size": size, "name": ""} for size in sizes]
        shape = {"dim": dims, "unknown_rank": False}
        found[name] = {"dtype": DTYPES[spec.dtype], "tensor_shape": shape, "name": name}
    return found


def limited_protocol(limits: Limits) -> type[H11Protocol]:
    """Return a protocol that limits connections, and how long they wait for clients."""
    # Of all clients, the oldest first.
    open_connections: list[Any] = []

    class LimitedProtocol(H11Protocol):
        """Closes connections that wait for their client, not those of the model."""

        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.start_timer()
            if len(open_connections) >= limits.connections:
                self.make_room()
            open_connections.append(self)

        def make_room(self) -> None:
            """End what has waited longest, of the client with most connections."""
            waiting = [each for each in open_connections if not each.is_computed()]
            by_client = Counter(each.client and each.client[0] for each in waiting)
            for client, _ in by_client.most_common(1):
                next(x for x in waiting if (x.client and x.client[0]) == client).end()

        def data_received(self, data: bytes) -> None:
            if self.is_idle():  # A request begins.
                self.start_timer()
            super().data_received(data)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self.stop_timer()
            if self in open_connections:
                open_connections.remove(self)
            super().connection_lost(exc)

        def is_idle(self) -> bool:
            client = self.conn.states[h11.CLIENT]
            return client is h11.IDLE and not self.conn.trailing_data[0]

        def start_timer(self) -> None:
            self.stop_timer()
            if not self.transport.is_closing():
                self.timer = self.loop.call_later(limits.seconds, self.end)

        def stop_timer(self) -> None:
            if self.timer:
                self.timer.cancel()
            self.timer = None

        def is_computed(self) -> bool:
            client, server = (self.conn.states[x] for x in (h11.CLIENT, h11.SERVER))
            return server is h11.SEND_RESPONSE and client in (h11.DONE, h11.MUST_CLOSE)

        def end(self) -> None:
            if self in open_connections and not self.is_computed():
                open_connections.remove(self)
            if self.is_computed():
                self.start_timer()
            elif self.is_idle():
                self.transport.close()
            elif self.conn.states[h11.SERVER] in (h11.IDLE, h11.SEND_RESPONSE):
                words = f"No whole request within {limits.seconds} s, or too many."
                body = json.dumps({"error": words})
                self.transport.write(
                    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"
                    b"content-type: application/json\r\n"
                    + f"content-length: {len(body)}\r\n\r\n{body}".encode()
                )
                self.transport.close()
            else:
                self.transport.abort()

    return LimitedProtocol


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Read the body of a request, and keep at most `most_bytes` in memory.

    The rest of a body that is too long is read and dropped: if the connection were
    closed while the client still sends, it would be reset, and the answer lost.
    """
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes:
            chunks.clear()
        else:
            chunks.append(chunk)
    if size > most_bytes:
        raise HTTPException(413, f"A request has {most_bytes:,} bytes at most.")
    return b"".join(chunks)


def build_app(model: ServedModel) -> Starlette:
    """Create an application with TensorFlow Serving's paths for a model."""
    limits = model.limits
    batches = RequestBatches(model.compute, model.signatures, limits)
    open_requests = 0

    def check(request: Request) -> None:
        name, version = (request.path_params.get(key) for key in ("name", "version"))
        if name != model.name or version not in (None, model.version):
            which = f"Specific({name}, {version})" if version else f"Latest({name})"
            raise HTTPException(404, f"Servable not found for request: {which}")

    async def status(request: Request) -> Response:
        check(request)
        return JSONResponse(model.status())

    async def metadata(request: Request) -> Response:
        check(request)
        return JSONResponse(model.metadata())

    async def predict(request: Request) -> Response:
        nonlocal open_requests
        check(request)
        stops = HTTPException(503, "The server stops. Try later.")
        try:
            body = await read_body(request, limits.body_bytes)
        except ClientDisconnect:
            return Response()
        except asyncio.CancelledError:
            raise stops from None
        # Only now, or clients that send slowly would keep others out.
        if open_requests >= limits.requests:
            raise HTTPException(503, f"{open_requests} requests are open. Try later.")
        open_requests += 1
        try:
            answer = await asyncio.wrap_future(batches.submit(body))
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except asyncio.CancelledError:
            raise stops from None
        finally:
            open_requests -= 1
        return Response(answer, media_type="application/json")

    async def explain(request: Request, error: Exception) -> Response:
        code, words = getattr(error, "status_code", 500), getattr(error, "detail", "")
        if words in ("Not Found", "Method Not Allowed"):
            code, words = 404, f"Malformed request: {request.method} {request.url.path}"
        return JSONResponse({"error": words or str(error)}, code)

    routes = []
    for path in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
        # The longer path first, because a name may contain a colon.
        routes.append(Route(f"{path}:predict", predict, methods=["POST"]))
        routes.append(Route(f"{path}/metadata", metadata))
        routes.append(Route(path, status))
    handlers = {HTTPException: explain, Exception: explain}
    return Starlette(routes=routes, exception_handlers=handlers)


def read_file(path: Path, limit: int | None = None) -> tuple[list[str], list[str]]:
    """Read texts and labels from columns with their usual names."""
    table = read_table(path, limit)
    labels = table.columns[table.require("label")]
    texts = table.read(table.require("text"), "a text")
    return texts, [str(label) for label in labels]


def build_classifier(
    texts: list[str], labels: list[str], preset: str | None
) -> AlbertClassifier:
    """Build a classifier from a preset, or a small one with random weights."""
    names = sorted(set(labels))
    if preset is not None:
        return AlbertClassifier.from_preset(preset, labels=names)
    proto = train_vocabulary(texts, vocabulary_size=2000, hard_vocab_limit=False)
    tokenizer = AlbertTokenizer(proto)
    backbone = AlbertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=2,
        num_heads=4,
        embedding_dim=64,
        hidden_dim=128,
        intermediate_dim=512,
        dropout=0.1,
        max_sequence_length=MAX_LENGTH,
    )
    preprocessor = AlbertClassifierPreprocessor(
        tokenizer, max_sequence_length=MAX_LENGTH
    )
    return AlbertClassifier(
        backbone, labels=names, preprocessor=preprocessor, dropout=0.3
    )


def fine_tune(arguments: argparse.Namespace) -> AlbertClassifier:
    """Train on the files, or on the example messages."""
    keras.utils.set_random_seed(0)
    texts, labels = read_file(arguments.train or MESSAGES, arguments.limit)
    held_out: Any = None
    if arguments.dev is not None:
        held_out = read_file(arguments.dev)
    elif arguments.train is None:
        held_out = texts[-240:], labels[-240:]
        texts, labels = texts[:-240], labels[:-240]
    classifier = build_classifier(texts, labels, arguments.preset)
    classifier.fit(
        texts,
        labels,
        batch_size=16,
        epochs=arguments.epochs,
        validation_data=held_out,
        verbose=2,
    )
    return classifier


def listen(host: str, port: int) -> socket.socket:
    """Bind the port, so that an error occurs before the training."""
    # With the default protocol 0, asyncio does not set TCP_NODELAY, and the body of an
    # answer waits some 40 ms for the client to acknowledge the headers.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    return listening


def print_commands(url: str, directory: Path, name: str) -> None:
    """Print an example request, and the commands of TensorFlow Serving."""
    body = json.dumps({"instances": ["where is my parcel?"]})
    where = directory.resolve()
    volume = shlex.quote(f"{where}:/models/{name}")
    print(f"\ncurl -d {shlex.quote(body)} {url}/v1/models/{name}:predict")
    print(
        "\nTensorFlow Serving itself:\n"
        f"docker run --rm -p 8501:8501 -v {volume} -e MODEL_NAME={name} "
        "tensorflow/serving\n"
        f"tensorflow_model_server --rest_api_port=8501 --model_name={name} "
        f"--model_base_path={shlex.quote(str(where))}\n"
    )


def read_arguments() -> argparse.Namespace:
    """Read the options of the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--train", type=Path, help="texts and labels: .tsv, .csv, .jsonl"
    )
    parser.add_argument("--dev", type=Path, help="a file to evaluate on, alike")
    parser.add_argument("--limit", type=whole_number(), help="train on so many rows")
    parser.add_argument("--preset", help="pretrained weights")
    parser.add_argument("--epochs", type=whole_number(), default=10)
    parser.add_argument("--output", type=Path, default=Path("runs/serve"))
    parser.add_argument("--name", default="model", help="what clients call the model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument(
        "--port", type=whole_number(0, 65535), default=8501, help="0 takes a free one"
    )
    limits = parser.add_argument_group("what is taken of clients, at most")
    for limit in fields(Limits):
        limits.add_argument(
            f"--max-{limit.name.replace('_', '-')}",
            type=whole_number(),
            default=limit.default,
            help=f"by default {limit.default:,}",
        )
    return parser.parse_args()


def main(arguments: argparse.Namespace) -> None:
    """Fine-tune and export the model unless this is done already, and serve it."""
    listening = listen(arguments.host, arguments.port)

    preset: Path = arguments.output / "preset"
    if not preset.exists():
        fine_tune(arguments).save_to_preset(preset)
    versions: Path = arguments.output / arguments.name
    if not versions.exists():
        AlbertClassifier.from_preset(preset).export(versions)
    verified = verify(versions)
    print(
        f"{verified.directory}: {len(verified.operations)} operations, all of them a "
        f"stock server's; {verified.requests} warm-up requests answered"
    )

    limits = Limits(
        **{limit.name: vars(arguments)[f"max_{limit.name}"] for limit in fields(Limits)}
    )
    app = build_app(ServedModel(arguments.name, verified, limits))
    url = f"http://{arguments.host}:{listening.getsockname()[1]}"
    print_commands(url, versions, arguments.name)
    # From here on requests wait for the server instead of being refused.
    listening.listen()
    print(f"serving on {url}; Ctrl-C ends it", flush=True)
    config = uvicorn.Config(
        app,
        http=limited_protocol(limits),
        # Longer than the protocol's own timer, which closes idle connections first.
        timeout_keep_alive=2 * limits.seconds,
        timeout_graceful_shutdown=5,
        log_level="error",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    given = read_arguments()
    sys.exit(run_program("serve.py", lambda: main(given)))
