"""The JSON of OpenAI's embeddings, `POST /v1/embeddings`.

Source: [Embeddings](https://platform.openai.com/docs/api-reference/embeddings). A
request is `{"model": "NAME", "input": ["a", ...]}`, perhaps with `dimensions` and
`encoding_format`.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.serving.rest.json_form import parse_json, read_columns
from keras_albert.serving.verification import Signature

_SIGNATURE = "serving_default"
_KNOWN = ("dimensions", "encoding_format", "input", "model", "user")


class EmbeddingsRequest(NamedTuple):
    """A request.

    Attributes:
        model: string. The name of the model, which the response repeats.
        inputs: dict of `text` and an object array of bytes.
        dimensions: int. The width of the vectors.
        is_base64: bool. Whether vectors are the bytes of float32 numbers in base64.
        signature: string. The name of the signature.
    """

    model: str
    inputs: dict[str, npt.NDArray[Any]]
    dimensions: int
    is_base64: bool
    signature: str = _SIGNATURE

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
        numbers: list[float] = vector.tolist()
        return numbers


def embedding_width(signatures: Mapping[str, Signature]) -> int | None:
    """Return the width of a model's vectors; `None` if it does not embed texts."""
    signature = signatures.get(_SIGNATURE)
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
    """Read the body of a request to a model that embeds texts.

    Arguments are those of `read_rest_request`.

    Raises:
        ValueError: If the request is invalid or exceeds a limit; the message contains
            the reason.
    """
    request = parse_json(body)
    if not isinstance(request, dict) or not {"input", "model"} <= set(request):
        raise ValueError('A request is an object with "input" and "model" in it.')
    if unknown := set(request) - set(_KNOWN):
        found = ", ".join(sorted(unknown))
        msg = f"A request takes: {', '.join(_KNOWN)}. Received: {found:.200}"
        raise ValueError(msg)
    model = request["model"]
    if not isinstance(model, str):
        raise ValueError(f"`model` is a name. Received: {model!r:.80}")
    width = embedding_width(signatures)
    given = request.get("dimensions")
    dimensions = width if given is None else given
    if type(dimensions) is not int or not 1 <= dimensions <= (width or 0):
        msg = f"`dimensions` is a width from 1 to {width}. Received: {dimensions!r:.80}"
        raise ValueError(msg)
    encoding = request.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        msg = f'`encoding_format` is "float" or "base64". Received: {encoding!r:.80}'
        raise ValueError(msg)
    texts = request["input"]
    columns = {"input": [texts] if isinstance(texts, str) else texts}
    if not isinstance(columns["input"], list) or not columns["input"]:
        msg = f"`input` is a string, or a list of strings. Received: {texts!r:.80}"
        raise ValueError(msg)
    specs = {"input": signatures[_SIGNATURE].inputs["text"]}
    read = read_columns(columns, specs, max_rows, max_characters)
    inputs = {"text": read["input"]}
    return EmbeddingsRequest(model, inputs, dimensions, encoding == "base64")
