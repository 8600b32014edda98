"""A program, run by its path, that runs a SavedModel with TensorFlow alone.

A server loads the graph of a model into TensorFlow's session, and runs it by the names
of its tensors. This program does the same: it imports TensorFlow and neither this
package nor tensorflow-text, of which it loads only the libraries of operations. It
reads one job, a line of JSON, from standard input and writes one line of JSON for each
step, so that the parent process knows the last completed step if TensorFlow ends the
process. Tensors are serialized messages in base64.
"""

import base64
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def load(directory: str) -> Any:
    """Load a SavedModel as a server does, and check the records of its requests."""
    import tensorflow as tf  # noqa: PLC0415  (an extra)

    try:
        for path in sorted(_folder("tensorflow_text").glob("python/*/_*.so")):
            tf.load_op_library(str(path))
        session = tf.compat.v1.Session(graph=tf.Graph())
        with session.graph.as_default():
            tf.compat.v1.saved_model.load(session, ["serve"], directory)
        for path in Path(directory).glob("assets.extra/tf_serving_warmup_requests"):
            # Reading them checks their checksums.
            for _ in tf.data.TFRecordDataset(str(path)):
                pass
    except (tf.errors.OpError, LookupError, OSError, ValueError) as error:
        raise RuntimeError(str(error)) from error
    return session


def run(session: Any, inputs: dict[str, str], outputs: list[str]) -> list[str]:
    """Run a model."""
    import tensorflow as tf  # noqa: PLC0415  (an extra)

    try:
        feed = {
            name: tf.io.parse_tensor(
                base64.b64decode(tensor), session.graph.get_tensor_by_name(name).dtype
            ).numpy()
            for name, tensor in inputs.items()
        }
        arrays = session.run(outputs, feed)
    except (tf.errors.OpError, LookupError, ValueError) as error:
        raise RuntimeError(str(error)) from error
    tensors = (tf.io.serialize_tensor(array).numpy() for array in arrays)
    return [base64.b64encode(tensor).decode() for tensor in tensors]


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None:
        msg = f"{sys.executable} has no {package.replace('_', '-')}"
        raise ImportError(msg)
    return Path(next(iter(spec.submodule_search_locations or ())))


def _say(**step: Any) -> None:
    sys.stdout.write(json.dumps(step) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the job and run it."""
    job = json.loads(sys.stdin.readline())
    try:
        for package in ("tensorflow", "tensorflow_text"):
            _folder(package)
    except ImportError as error:
        _say(missing=str(error))
        return
    import tensorflow as tf  # noqa: PLC0415  (an extra)

    _say(operations=dir(tf.raw_ops))
    try:
        session = load(job["directory"])
    except RuntimeError as error:
        _say(error=str(error))
        return
    _say(loaded=True)
    for request in job["requests"]:
        try:
            _say(outputs=run(session, **request))
        except RuntimeError as error:
            _say(error=str(error))


if __name__ == "__main__":
    main()
