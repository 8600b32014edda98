"""Connections: the port, and how long a connection waits for its client."""

import asyncio
import json
import socket
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_albert.serving.rest.batches import Limits


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
