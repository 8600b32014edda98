"""Fine-tune, export, verify, and answer HTTP requests as TensorFlow Serving does.

    python examples/serve.py
    python examples/serve.py --train SST-2/train.tsv --dev SST-2/dev.tsv --preset PRESET

Without files it learns the six classes of `examples/data/support_messages.tsv`; without
a preset a small model starts from random weights. OUTPUT keeps what is done: the next
start serves at once. Then, in another terminal, the command that it prints:

    curl -d '{"instances": ["where is my parcel?"]}' \
        http://127.0.0.1:8501/v1/models/model:predict

The paths and the JSON are those of TensorFlow Serving's REST interface, for development
where there is no Docker; the commands for the server itself are printed as well. Needs
TensorFlow, and `pip install starlette uvicorn`.
"""

import argparse
import json
import shlex
import socket
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
import tensorflow_text  # noqa: F401  (its operations)
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertTokenizer,
)
from keras_albert.commands.training_files import read_table
from keras_albert.serving import verify
from keras_albert.serving.rest_json import read_rest_request, write_rest_response
from keras_albert.serving.saved_model_file import SavedModelFile, TensorSpec
from keras_albert.text import train_vocabulary

MESSAGES = Path(__file__).parent / "data" / "support_messages.tsv"
MAX_LENGTH = 64
# TensorFlow's names of what a signature's tensors hold.
DTYPES = {"float32": "DT_FLOAT", "int32": "DT_INT32", "string": "DT_STRING"}


class ServedModel:
    """A version of an exported model.

    Args:
        name: string. What clients call it.
        directory: Path. The version, a folder with a number for a name.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.version = directory.name
        self.signatures = SavedModelFile(directory).signatures
        self._model = tf.saved_model.load(str(directory))

    def status(self) -> dict[str, Any]:
        """Say that it is there, in the server's words."""
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
        """Describe its signatures, in the server's words."""
        described = {
            name: {
                "inputs": {k: _describe(spec) for k, spec in signature.inputs.items()},
                "outputs": {
                    k: _describe(spec) for k, spec in signature.outputs.items()
                },
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

    def predict(self, body: bytes) -> str:
        """Answer the body of a request; a `ValueError` says what is wrong with it."""
        request = read_rest_request(body, self.signatures)
        specs = self.signatures[request.signature].inputs
        tensors = {
            name: tf.constant(array, specs[name].dtype, array.shape)
            for name, array in request.inputs.items()
        }
        try:
            outputs = self._model.signatures[request.signature](**tensors)
        except tf.errors.InvalidArgumentError as error:
            raise ValueError(error.message) from error
        arrays = {name: tensor.numpy() for name, tensor in outputs.items()}
        return write_rest_response(arrays, request.in_rows)


def _describe(spec: TensorSpec) -> dict[str, Any]:
    sizes = [{"size": "-1" if n is None else str(n), "name": ""} for n in spec.shape]
    return {
        "dtype": DTYPES[spec.dtype],
        "tensor_shape": {"dim": sizes, "unknown_rank": False},
        "name": spec.place,
    }


def build_app(model: ServedModel) -> Starlette:
    """Put a model behind the paths that TensorFlow Serving has."""

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
        check(request)
        body = await request.body()
        try:
            answer = await run_in_threadpool(model.predict, body)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        return Response(answer, media_type="application/json")

    async def explain(request: Request, error: Exception) -> Response:
        code, words = getattr(error, "status_code", 500), getattr(error, "detail", "")
        if words in ("Not Found", "Method Not Allowed"):
            code, words = 404, f"Malformed request: {request.method} {request.url.path}"
        return JSONResponse({"error": words or str(error)}, code)

    routes = []
    for path in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
        # The longer path first: a name may hold a colon.
        routes.append(Route(f"{path}:predict", predict, methods=["POST"]))
        routes.append(Route(f"{path}/metadata", metadata))
        routes.append(Route(path, status))
    handlers = {HTTPException: explain, Exception: explain}
    return Starlette(routes=routes, exception_handlers=handlers)


def read_file(path: Path, limit: int | None = None) -> tuple[list[str], list[str]]:
    """Read texts and labels by the names that people give such columns."""
    table = read_table(path, limit)
    labels = table.columns[table.require("label")]
    return table.texts(table.require("text")), [str(label) for label in labels]


def build_classifier(
    texts: list[str], labels: list[str], preset: str | None
) -> AlbertClassifier:
    """Build a classifier on a preset, or a small one with random weights."""
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
    """Train on the files, or on the messages that come with the examples."""
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
    """Take a port, before there is work to lose."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    return listening


def print_commands(url: str, directory: Path, name: str) -> None:
    """Say how to ask, and how to start the real server."""
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


def main() -> None:
    """Do what is not done yet, and serve."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--train", type=Path, help="texts and labels: .tsv, .csv, .jsonl"
    )
    parser.add_argument("--dev", type=Path, help="a file to evaluate on, alike")
    parser.add_argument("--limit", type=int, help="train on so many rows")
    parser.add_argument("--preset", help="pretrained weights")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", type=Path, default=Path("runs/serve"))
    parser.add_argument("--name", default="model", help="what clients call the model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8501, help="0 takes a free one")
    arguments = parser.parse_args()
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

    app = build_app(ServedModel(arguments.name, verified.directory))
    url = f"http://{arguments.host}:{listening.getsockname()[1]}"
    print_commands(url, versions, arguments.name)
    print(f"serving on {url}; Ctrl-C ends it", flush=True)
    config = uvicorn.Config(app, log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
