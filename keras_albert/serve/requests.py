"""Requests and responses in the JSON of TensorFlow Serving, and of OpenAI.

Source: [RESTful API](https://www.tensorflow.org/tfx/serving/api_rest), "Predict API",
with inputs in rows, `{"instances": [{"text": "a"}, ...]}`, or in columns, `{"inputs":
{"text": ["a", ...]}}`; and
[Embeddings](https://platform.openai.com/docs/api-reference/embeddings), `{"model":
"NAME", "input": ["a", ...]}`, perhaps with `dimensions` and `encoding_format`.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.exports.verification import Signature, TensorSpec

_DEFAULT = "serving_default"
_EMBEDDINGS_KEYS = ("dimensions", "encoding_format", "input", "model", "user")
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Limits:
    """The limits of requests; each is an option of `keras-albert serve`."""

    # With more bytes in a request, the status is 413; with more rows, or characters of
    # a text, 400; with more requests that wait for the model, 503.
    body_bytes: int = 2 * 2**20
    rows: int = 128
    characters: int = 100_000
    requests: int = 16
    # Including idle ones. A further connection ends the one that has waited longest
    # for its client, of the client that has most; with status 408 if a request has
    # begun.
    connections: int = 64
    # Of several requests that are computed together; with 1, each is computed alone.
    batch_rows: int = 64
    # For a request to arrive, or the status is 408, and for its answer to be read.
    seconds: int = 20


class RestRequest(NamedTuple):
    """A request of TensorFlow Serving's; strings are object arrays of bytes."""

    signature: str
    inputs: dict[str, npt.NDArray[Any]]
    # Whether the request, and so the response, is in rows.
    in_rows: bool

    def write(self, outputs: Mapping[str, Any]) -> str:
        """Write the body of the response; a single output has no name."""
        columns = {
            name: _to_plain(np.asarray(x).tolist()) for name, x in outputs.items()
        }
        answer: Any = columns
        if self.in_rows:
            rows = zip(*columns.values(), strict=True)
            answer = [dict(zip(columns, row, strict=True)) for row in rows]
        if len(columns) == 1:
            (answer,) = columns.values()
        response = {"predictions" if self.in_rows else "outputs": answer}
        return json.dumps(response, ensure_ascii=False)


def read_rest_request(
    body: str | bytes,
    signatures: Mapping[str, Signature],
    max_rows: int | None = None,
    max_characters: int | None = None,
) -> RestRequest:
    """Read the body of a request, or raise a `ValueError` that says what is wrong.

    `max_characters` also limits the bytes of a text in base64; `None` is no limit.
    """
    request = _parse_json(body)
    if (
        not isinstance(request, dict)
        or len({"instances", "inputs"} & set(request)) != 1
    ):
        msg = 'A request must be an object with either "instances" or "inputs".'
        raise ValueError(msg)
    name = request.get("signature_name") or _DEFAULT
    if not isinstance(name, str) or name not in signatures:
        known = ", ".join(signatures)
        msg = f"There is no signature {name!r:.80}. The model has: {known}."
        raise ValueError(msg)
    specs = signatures[name].inputs
    in_rows = "instances" in request
    given = _columns(request["instances"], specs) if in_rows else request["inputs"]
    if not in_rows and len(specs) == 1 and not isinstance(given, dict):
        given = {next(iter(specs)): given}
    if not isinstance(given, dict) or set(given) != set(specs):
        found = ", ".join(map(str, given)) if isinstance(given, dict) else given
        msg = f"Signature {name} takes: {', '.join(specs)}. Received: {found!s:.200}"
        raise ValueError(msg)
    inputs = _read_columns(given, specs, max_rows, max_characters)
    return RestRequest(name, inputs, in_rows)


class EmbeddingsRequest(NamedTuple):
    """A request of OpenAI's."""

    model: str
    inputs: dict[str, npt.NDArray[Any]]
    # The width of the vectors.
    dimensions: int
    # Whether vectors are the bytes of float32 numbers in base64.
    is_base64: bool
    signature: str = _DEFAULT

    def write(self, outputs: Mapping[str, Any]) -> str:
        """Write the body of the response."""
        vectors = np.asarray(outputs["embedding"], "<f4")
        short = vectors[:, : self.dimensions]
        if self.dimensions < vectors.shape[1]:
            # As `AlbertTextEmbedder.embed(dim=)`, which knows if vectors have length 1.
            length, rest = (
                np.linalg.norm(x, axis=1, keepdims=True) for x in (vectors, short)
            )
            has_unit_length = (np.abs(length - 1) < 1e-3) & (rest > 0)
            short = short / np.where(has_unit_length, rest, 1)
        data = [
            {"object": "embedding", "index": index, "embedding": self._encode(vector)}
            for index, vector in enumerate(short.astype("<f4"))
        ]
        # Tokens are counted in the graph only.
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        answer = {"object": "list", "data": data, "model": self.model, "usage": usage}
        return json.dumps(answer, ensure_ascii=False)

    def _encode(self, vector: npt.NDArray[np.float32]) -> str | list[float]:
        if self.is_base64:
            return base64.b64encode(vector.tobytes()).decode()
        return vector.tolist()


def embedding_width(signatures: Mapping[str, Signature]) -> int | None:
    """Return the width of a model's vectors; `None` if it does not embed texts."""
    signature = signatures.get(_DEFAULT)
    if signature is None or set(signature.inputs) != {"text"}:
        return None
    spec = signature.outputs.get("embedding")
    return None if spec is None else spec.shape[-1]


def read_embeddings_request(
    body: bytes,
    signatures: Mapping[str, Signature],
    max_rows: int | None = None,
    max_characters: int | None = None,
) -> EmbeddingsRequest:
    """Read the body of a request of OpenAI's; see `read_rest_request`."""
    request = _parse_json(body)
    if not isinstance(request, dict) or not {"input", "model"} <= set(request):
        raise ValueError('A request must be an object with "input" and "model".')
    if unknown := set(request) - set(_EMBEDDINGS_KEYS):
        found = ", ".join(sorted(unknown))
        msg = f"A request takes: {', '.join(_EMBEDDINGS_KEYS)}. Received: {found:.200}"
        raise ValueError(msg)
    model = request["model"]
    if not isinstance(model, str):
        raise ValueError(f"`model` must be a name. Received: {model!r:.80}")
    width = embedding_width(signatures)
    given = request.get("dimensions")
    dimensions = width if given is None else given
    if type(dimensions) is not int or not 1 <= dimensions <= (width or 0):
        msg = (
            f"`dimensions` must be a width from 1 to {width}. Received: "
            f"{dimensions!r:.80}"
        )
        raise ValueError(msg)
    encoding = request.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        msg = (
            f'`encoding_format` must be "float" or "base64". Received: {encoding!r:.80}'
        )
        raise ValueError(msg)
    texts = request["input"]
    columns = {"input": [texts] if isinstance(texts, str) else texts}
    if not isinstance(columns["input"], list) or not columns["input"]:
        msg = f"`input` must be a string or a list of strings. Received: {texts!r:.80}"
        raise ValueError(msg)
    specs = {"input": signatures[_DEFAULT].inputs["text"]}
    read = _read_columns(columns, specs, max_rows, max_characters)
    inputs = {"text": read["input"]}
    return EmbeddingsRequest(model, inputs, dimensions, encoding == "base64")


def _parse_json(body: str | bytes) -> Any:
    """Parse the body of a request."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The request is not JSON: {error}") from None


def _read_columns(
    given: Mapping[str, Any],
    specs: Mapping[str, TensorSpec],
    max_rows: int | None,
    max_characters: int | None,
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of inputs in columns, or raise as `read_rest_request`."""
    for key, values in given.items():
        rows = len(values) if isinstance(values, list) else 0
        if max_rows is not None and rows > max_rows:
            msg = (
                f"`{key}` has {rows:,} rows, but a request may have at most "
                f"{max_rows:,}."
            )
            raise ValueError(msg)
    inputs = {
        key: _read_tensor(key, given[key], specs[key], max_characters) for key in specs
    }
    sizes = {key: len(array) for key, array in inputs.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(
            f"All inputs must have the same number of rows. Received: {sizes}"
        )
    return inputs


def _columns(rows: Any, specs: Mapping[str, TensorSpec]) -> dict[str, list[Any]]:
    if not isinstance(rows, list) or not rows:
        raise ValueError('"instances" must be a list of at least one row.')
    if len(specs) == 1:
        (name,) = specs
        rows = [
            row if isinstance(row, dict) and name in row else {name: row}
            for row in rows
        ]
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(specs):
            found = ", ".join(map(str, row)) if isinstance(row, dict) else row
            msg = f"Row {number} needs: {', '.join(specs)}. Received: {found!s:.200}"
            raise ValueError(msg)
    return {name: [row[name] for row in rows] for name in specs}


def _read_tensor(
    name: str, values: Any, spec: TensorSpec, max_characters: int | None
) -> npt.NDArray[Any]:
    flat: list[Any] = []
    shape = _flatten(values, len(spec.shape), flat)
    kind: Any = object if spec.dtype == "string" else spec.dtype
    if shape is None:
        msg = (
            f"`{name}` must be nested lists, {len(spec.shape)} deep, of equal lengths. "
            "Pad the shorter ones."
        )
        raise ValueError(msg)
    array = np.empty(len(flat), kind)
    for at, value in enumerate(flat):
        read = _read_value(value, spec.dtype)
        if max_characters is not None and isinstance(read, bytes):
            size = len(value if isinstance(value, str) else read)
            if size > max_characters:
                msg = (
                    f"`{name}` holds a text of {size:,} characters, but a text may "
                    f"have at most {max_characters:,}."
                )
                raise ValueError(msg)
        if read is None:
            values = "texts" if spec.dtype == "string" else f"{spec.dtype} numbers"
            msg = f"`{name}` must hold {values}. Received: {value!r:.80}"
            raise ValueError(msg)
        array[at] = read
    return array.reshape(shape)


def _flatten(values: Any, depth: int, flat: list[Any]) -> list[int] | None:
    """Append all values to `flat`; return their shape, or `None` if ragged."""
    if not depth:
        flat.append(values)
        return []
    if not isinstance(values, list):
        return None
    shapes = [_flatten(value, depth - 1, flat) for value in values]
    if any(shape is None or shape != shapes[0] for shape in shapes):
        return None
    return [len(values), *((shapes[0] or []) if shapes else [0] * (depth - 1))]


def _read_value(value: Any, dtype: str) -> Any:
    """Return the value for a tensor, or `None` if it does not fit the dtype."""
    if dtype == "string":
        if isinstance(value, dict) and set(value) == {"b64"}:
            try:
                return base64.b64decode(value["b64"], validate=True)
            except (TypeError, ValueError, binascii.Error):
                return None
        # A lone surrogate cannot be encoded.
        return value.encode(errors="replace") if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if dtype == "int32":
        fits = isinstance(value, int) and -(2**31) <= value < 2**31
        return value if fits else None
    return value if abs(value) <= _MAX_FLOAT32 else None


def _to_plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_to_plain(item) for item in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value
