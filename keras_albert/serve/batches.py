"""Batches of requests that wait for a model.

Most of the time of a small request is the call of the model, not its texts. While the
model computes, further requests wait; the next call answers the oldest of them together
with others of similar length. A request that finds the model idle is computed at once.
"""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.exports.verification import Signature
from keras_albert.serve.requests import (
    EmbeddingsRequest,
    Limits,
    RestRequest,
    read_rest_request,
)

Arrays = dict[str, npt.NDArray[Any]]
# Bytes of a text; the padding of shorter ones costs less than a call of the model.
SHORT_TEXT = 128
# Bytes of texts with their padding; larger batches do not take less time per text.
MAX_BATCH_BYTES = 2**14

ServedRequest = RestRequest | EmbeddingsRequest
# Of a body, the signatures, and the maximum numbers of rows and of characters.
ReadRequest = Callable[[bytes, Mapping[str, Signature], int, int], ServedRequest]


@dataclass(frozen=True)
class _Waiting:
    request: ServedRequest
    rows: int
    # Bytes of the longest text.
    longest: int
    body_bytes: int
    # Requests with equal keys may be computed together.
    key: Hashable
    answer: "Future[str]"


class RequestBatches:
    """Computes requests in the order of their arrival, and similar ones together.

    `compute` maps the name of a signature and its inputs to outputs, with a row for
    each row of the inputs. One thread calls it.
    """

    def __init__(
        self,
        compute: Callable[[str, Arrays], Arrays],
        signatures: Mapping[str, Signature],
        limits: Limits,
    ) -> None:
        self._call, self._signatures, self._limits = compute, signatures, limits
        self._arrived: deque[tuple[bytes, ReadRequest, Future[str]]] = deque()
        self._waiting: list[_Waiting] = []
        # A model uses all cores for a batch; two at a time only take more memory.
        self._thread = ThreadPoolExecutor(1)

    def submit(
        self, body: bytes, read: ReadRequest = read_rest_request
    ) -> "Future[str]":
        """Return the future answer to the body of a request, or its error."""
        answer: Future[str] = Future()
        self._arrived.append((body, read, answer))
        # One run for each request, of which every run completes at least one.
        self._thread.submit(self._run)
        return answer

    def _run(self) -> None:
        self._read_arrived()
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        rows = longest = 0
        for waiting in self._waiting:
            all_rows = rows + waiting.rows
            longest_of_all = max(longest, waiting.longest)
            fits = (
                all_rows <= self._limits.batch_rows
                and all_rows * longest_of_all <= MAX_BATCH_BYTES
            )
            if not batch or (waiting.key == batch[0].key and fits):
                batch.append(waiting)
                rows, longest = all_rows, longest_of_all
            else:
                others.append(waiting)
        self._waiting = others
        # Requests are cancelled when the server stops.
        self._answer([x for x in batch if x.answer.set_running_or_notify_cancel()])

    def _read_arrived(self) -> None:
        size = sum(waiting.body_bytes for waiting in self._waiting)
        while self._arrived:
            body, read, answer = self._arrived[0]
            size += len(body)
            if self._waiting and size > self._limits.body_bytes:
                break
            self._arrived.popleft()
            try:
                request = read(
                    body, self._signatures, self._limits.rows, self._limits.characters
                )
                self._waiting.append(self._describe(request, len(body), answer))
            except Exception as error:
                if answer.set_running_or_notify_cancel():
                    answer.set_exception(error)

    def _describe(
        self, request: ServedRequest, body_bytes: int, answer: "Future[str]"
    ) -> _Waiting:
        arrays = list(request.inputs.values())
        rows = next(len(x) for x in arrays if x.ndim)
        texts = [text for x in arrays if x.dtype == object for text in x.flat]
        longest = max(map(len, texts), default=0)
        key: Hashable = object()
        outputs = self._signatures[request.signature].outputs.values()
        # Others are padded to the longest output of the batch.
        is_by_row = not any(None in spec.shape[1:] for spec in outputs)
        if rows and is_by_row:
            # Longest texts in a batch differ by a factor of two at most.
            length = (longest // SHORT_TEXT).bit_length()
            key = request.signature, length, *(x.shape[1:] for x in arrays)
        return _Waiting(request, rows, longest, body_bytes, key, answer)

    def _answer(self, batch: list[_Waiting]) -> None:
        try:
            answers = self._compute(batch) if batch else []
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            # Only one of the requests may be invalid.
            for waiting in batch:
                self._answer([waiting])
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                waiting.answer.set_result(answer)

    def _compute(self, batch: list[_Waiting]) -> list[str]:
        requests = [waiting.request for waiting in batch]
        inputs = {
            name: np.concatenate([request.inputs[name] for request in requests])
            for name in requests[0].inputs
        }
        outputs = self._call(requests[0].signature, inputs)
        ends = np.cumsum([waiting.rows for waiting in batch])
        parts = {name: np.split(x, ends[:-1]) for name, x in outputs.items()}
        return [
            request.write({name: part[i] for name, part in parts.items()})
            for i, request in enumerate(requests)
        ]
