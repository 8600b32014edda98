"""The server: its paths and their answers, and the limits of its connections."""

import asyncio
import json
import socket
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

import h11
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_albert.serve.batches import ReadRequest, RequestBatches
from keras_albert.serve.metrics import CONTENT_TYPE, Metrics, RequestMetrics
from keras_albert.serve.model import ServedModel
from keras_albert.serve.requests import (
    EmbeddingsRequest,
    Limits,
    embedding_width,
    read_embeddings_request,
    read_rest_request,
)

_EMBEDDINGS = "/v1/embeddings"
_PAGE = Path(__file__).with_name("page.html")
# The page asks no other host.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "connect-src 'self'"
)


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
        raise HTTPException(413, f"A request may have at most {most_bytes:,} bytes.")
    return b"".join(chunks)


class _Endpoints:
    """The answers at each path."""

    def __init__(self, model: ServedModel) -> None:
        self._model, self._limits = model, model.limits
        self.metrics = Metrics()
        compute = self.metrics.counted(model.compute)
        self._batches = RequestBatches(compute, model.signatures, model.limits)
        self._open_requests = 0
        html = _PAGE.read_text(encoding="utf-8")
        self._html = html.replace("NAME", escape(model.name))

    async def status(self, request: Request) -> Response:
        self._check(request)
        return JSONResponse(self._model.status())

    async def metadata(self, request: Request) -> Response:
        self._check(request)
        return JSONResponse(self._model.metadata())

    async def predict(self, request: Request) -> Response:
        self._check(request)
        return await self._answer(request, read_rest_request)

    async def embeddings(self, request: Request) -> Response:
        if embedding_width(self._model.signatures) is None:
            raise HTTPException(
                404,
                f"{self._model.name} does not embed texts. Ask it at /v1/models/"
                f"{self._model.name}:predict, or serve its preset with --task "
                "AlbertTextEmbedder.",
            )
        return await self._answer(request, self._read_embeddings)

    async def prometheus(self, _: Request) -> Response:
        written = self.metrics.write(self._open_requests)
        return Response(written, media_type=CONTENT_TYPE)

    async def page(self, _: Request) -> Response:
        return HTMLResponse(self._html, headers={"Content-Security-Policy": _POLICY})

    async def explain(self, request: Request, error: Exception) -> Response:
        code, words = getattr(error, "status_code", 500), getattr(error, "detail", "")
        if words in ("Not Found", "Method Not Allowed"):
            code, words = 404, f"Malformed request: {request.method} {request.url.path}"
        found: Any = words or str(error)
        if request.url.path == _EMBEDDINGS:
            # The form of OpenAI's errors.
            found = {"message": found, "type": "invalid_request_error"}
            found |= {"param": None, "code": None}
        return JSONResponse({"error": found}, code)

    def _check(self, request: Request) -> None:
        name, version = (request.path_params.get(key) for key in ("name", "version"))
        if name != self._model.name or version not in (None, self._model.version):
            which = f"Specific({name}, {version})" if version else f"Latest({name})"
            raise HTTPException(404, f"Servable not found for request: {which}")

    def _read_embeddings(self, body: bytes, *how: Any) -> EmbeddingsRequest:
        read = read_embeddings_request(body, *how)
        if read.model != self._model.name:
            raise ValueError(
                f"There is no model {read.model!r:.80}. The server has: "
                f"{self._model.name}."
            )
        return read

    async def _answer(self, request: Request, read: ReadRequest) -> Response:
        stops = HTTPException(503, "The server stops. Try later.")
        try:
            body = await read_body(request, self._limits.body_bytes)
        except ClientDisconnect:
            return Response(status_code=499)  # Nobody reads it: for the metrics.
        except asyncio.CancelledError:
            raise stops from None
        # Only now, or clients that send slowly would keep others out.
        if self._open_requests >= self._limits.requests:
            msg = f"{self._open_requests} requests are open. Try later."
            raise HTTPException(503, msg)
        self._open_requests += 1
        try:
            answer = await asyncio.wrap_future(self._batches.submit(body, read))
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except asyncio.CancelledError:
            raise stops from None
        finally:
            self._open_requests -= 1
        return Response(answer, media_type="application/json")


def build_app(model: ServedModel) -> Starlette:
    """Create an application with the paths of TensorFlow Serving, OpenAI and others."""
    serve = _Endpoints(model)
    routes = [
        Route("/", serve.page),
        Route("/metrics", serve.prometheus),
        Route(_EMBEDDINGS, serve.embeddings, methods=["POST"]),
    ]
    for path in ("/v1/models/{name}", "/v1/models/{name}/versions/{version}"):
        # The longer path first, because a name may contain a colon.
        routes.append(Route(f"{path}:predict", serve.predict, methods=["POST"]))
        routes.append(Route(f"{path}/metadata", serve.metadata))
        routes.append(Route(path, serve.status))
    return Starlette(
        routes=routes,
        middleware=[Middleware(RequestMetrics, metrics=serve.metrics)],
        exception_handlers={HTTPException: serve.explain, Exception: serve.explain},
    )


def listen(host: str, port: int) -> socket.socket:
    """Bind the port, so that an error occurs before the model is loaded."""
    # With the default protocol 0, asyncio does not set TCP_NODELAY, and the body of an
    # answer waits some 40 ms for the client to acknowledge the headers.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    return listening


def limited_protocol(limits: Limits) -> type[H11Protocol]:
    """Return a protocol that limits connections, and how long they wait for clients."""
    # Of all clients, the oldest first.
    open_connections: list[Any] = []

    class LimitedProtocol(H11Protocol):
        """Closes connections that wait for their client, not for the model."""

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
