"""Metrics of the server, in the text format of Prometheus.

Source: [Exposition formats](https://prometheus.io/docs/instrumenting/exposition_formats/).
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import accumulate
from time import perf_counter
from typing import Any

from keras_albert.serve.batches import Arrays

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# Seconds.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PREFIX = "keras_albert"


class Metrics:
    """Counts requests and calls of the model, and their times."""

    def __init__(self) -> None:
        # By endpoint and status.
        self._requests: Counter[tuple[str, int]] = Counter()
        # By endpoint: requests in each bucket, the last of any time; and their sum.
        self._buckets = defaultdict[str, list[int]](lambda: [0] * (len(_BUCKETS) + 1))
        self._seconds = defaultdict[str, float](float)
        self._calls = self._rows = 0
        self._call_seconds = 0.0

    def add_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests[endpoint, status] += 1
        self._buckets[endpoint][bisect_left(_BUCKETS, seconds)] += 1
        self._seconds[endpoint] += seconds

    def counted(
        self, compute: Callable[[str, Arrays], Arrays]
    ) -> Callable[[str, Arrays], Arrays]:
        """Return a function that also counts its calls, by one thread."""

        def call(signature: str, inputs: Arrays) -> Arrays:
            start = perf_counter()
            try:
                return compute(signature, inputs)
            finally:
                self._calls += 1
                self._rows += next(len(x) for x in inputs.values() if x.ndim)
                self._call_seconds += perf_counter() - start

        return call

    def write(self, open_requests: int) -> str:
        """Write all metrics."""
        lines: list[str] = []

        def add(name: str, kind: str, help_: str, samples: dict[str, float]) -> None:
            lines.append(f"# HELP {_PREFIX}_{name} {help_}")
            lines.append(f"# TYPE {_PREFIX}_{name} {kind}")
            lines.extend(f"{_PREFIX}_{name}{key} {x}" for key, x in samples.items())

        counts: dict[str, float] = {
            f'{{endpoint="{endpoint}",code="{code}"}}': count
            for (endpoint, code), count in sorted(self._requests.items())
        }
        add("requests_total", "counter", "Requests that have ended.", counts)
        times: dict[str, float] = {}
        for endpoint, buckets in sorted(self._buckets.items()):
            label = f'endpoint="{endpoint}"'
            for bound, count in zip(
                (*_BUCKETS, "+Inf"), accumulate(buckets), strict=True
            ):
                times[f'_bucket{{{label},le="{bound}"}}'] = count
            times[f"_sum{{{label}}}"] = self._seconds[endpoint]
            times[f"_count{{{label}}}"] = sum(buckets)
        add("request_seconds", "histogram", "From a request to its answer.", times)
        add("open_requests", "gauge", "That wait for the model.", {"": open_requests})
        add("batches_total", "counter", "Calls of the model.", {"": self._calls})
        add("rows_total", "counter", "Rows in these calls.", {"": self._rows})
        words = "Time of these calls."
        add("batch_seconds_total", "counter", words, {"": self._call_seconds})
        return "\n".join([*lines, ""])


class RequestMetrics:
    """Middleware of an ASGI application that counts its requests."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # Without an answer: the client has gone, or there is an error.
        start, status = perf_counter(), 500

        async def send_counted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            name = getattr(scope.get("endpoint"), "__name__", "unknown")
            self._metrics.add_request(name, status, perf_counter() - start)
