"""A SavedModel that is served."""

import logging
import re
from typing import Any

import tensorflow as tf
import tensorflow_text  # noqa: F401  (its operations)

from keras_albert.exports.verification import TensorSpec, VerifiedModel
from keras_albert.serve.batches import Arrays
from keras_albert.serve.requests import Limits

# TensorFlow's names of the dtypes of signatures.
_DTYPES = {"float32": "DT_FLOAT", "int32": "DT_INT32", "string": "DT_STRING"}


class ServedModel:
    """A version of an exported model, whose directory is named by a number."""

    def __init__(self, name: str, verified: VerifiedModel, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.version = verified.directory.name
        self.signatures = verified.signatures
        # TensorFlow warns about gradients, which a server never computes.
        logging.getLogger("absl").setLevel(logging.ERROR)
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
            raise ValueError(graph_message(error.message)) from error
        return {name: tensor.numpy() for name, tensor in outputs.items()}


def graph_message(message: str) -> str:
    """Return what an assertion of the graph says, without TensorFlow's nodes."""
    found = re.search(r"assertion failed: \[(.*)\]$", message, re.MULTILINE)
    return message if found is None else found[1].replace("] [", " ")


def _describe(specs: dict[str, TensorSpec]) -> dict[str, Any]:
    found = {}
    for name, spec in specs.items():
        sizes = ["-1" if size is None else str(size) for size in spec.shape]
        dims = [{"size": size, "name": ""} for size in sizes]
        shape = {"dim": dims, "unknown_rank": False}
        dtype = _DTYPES[spec.dtype]
        found[name] = {"dtype": dtype, "tensor_shape": shape, "name": name}
    return found
