"""`keras-albert serve`: a model over HTTP."""

import json
import shlex
import tempfile
from dataclasses import fields
from pathlib import Path

from keras_albert.checkpoints.convert import load_task
from keras_albert.cli.commands import Serve
from keras_albert.exports.saved_model.export import served_version
from keras_albert.exports.verification import VerifiedModel, verify
from keras_albert.utils.environment import check_packages
from keras_albert.utils.remote import fetch, is_remote


def run(options: Serve) -> None:
    """Run the command."""
    packages = ("starlette", "uvicorn", "h11", "tensorflow", "tensorflow_text")
    check_packages("A server", "keras-albert[serve,tensorflow]", *packages)
    # Extras.
    import uvicorn  # noqa: PLC0415

    from keras_albert.serve.app import build_app, limited_protocol, listen  # noqa: PLC0415
    from keras_albert.serve.model import ServedModel  # noqa: PLC0415
    from keras_albert.serve.requests import Limits  # noqa: PLC0415

    limits = Limits(
        **{each.name: getattr(options, f"max_{each.name}") for each in fields(Limits)}
    )
    listening = listen(options.host, options.port)
    with tempfile.TemporaryDirectory(prefix="keras-albert-") as temporary:
        verified, is_export = _open(options, Path(temporary, "model"))
        model = ServedModel(options.name, verified, limits)
    print(
        f"{options.preset}: {len(verified.operations)} operations, all of them a "
        f"stock server's; {verified.requests} warm-up requests answered"
    )
    url = f"http://{options.host}:{listening.getsockname()[1]}"
    _print_commands(url, verified, options.name, is_export)
    # From here on requests wait for the server instead of being refused.
    listening.listen()
    print(f"serving on {url}; Ctrl-C ends it", flush=True)
    config = uvicorn.Config(
        build_app(model),
        http=limited_protocol(limits),
        # Longer than the protocol's own timer, which closes idle connections first.
        timeout_keep_alive=2 * limits.seconds,
        timeout_graceful_shutdown=5,
        log_level="error",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _open(options: Serve, exported: Path) -> tuple[VerifiedModel, bool]:
    """Return a SavedModel, and whether it was one; a preset is exported for it."""
    given = options.preset
    if is_remote(given):
        given = str(fetch(given))
    path = Path(given)
    if served_version(path):
        return verify(path), True
    print(f"exporting {given}, which may take a minute", flush=True)
    load_task(given, options.task).export(exported)
    return verify(exported), False


def _print_commands(
    url: str, verified: VerifiedModel, name: str, is_export: bool
) -> None:
    """Print an example request and, for an export, the commands of TensorFlow."""
    example = shlex.quote(verified.rest["serving_default"])
    print(f"\ncurl -d {example} {url}/v1/models/{name}:predict\n")
    if "embedding" in verified.signatures["serving_default"].outputs:
        body = json.dumps({"model": name, "input": ["a text"]})
        print(f"curl -d {shlex.quote(body)} {url}/v1/embeddings\n")
    if is_export:
        where = verified.directory.parent.resolve()
        volume = shlex.quote(f"{where}:/models/{name}")
        print(
            "TensorFlow Serving itself:\n"
            f"docker run --rm -p 8501:8501 -v {volume} -e MODEL_NAME={name} "
            "tensorflow/serving\n"
            f"tensorflow_model_server --rest_api_port=8501 --model_name={name} "
            f"--model_base_path={shlex.quote(str(where))}\n"
        )
