"""Compare `keras-albert serve` with and without batches, for one client and for many.

    python benchmarks/server_load.py
    python benchmarks/server_load.py --preset albert_tiny_en_uncased --data DIRECTORY

Two servers of a preset with a head of two classes run on 127.0.0.1. Clients keep their
connections open, and send a text as soon as the previous one is answered. Rounds
alternate between the servers; their answers are compared. What limits a server is
printed: how many of the texts the model alone predicts per second, if it has all of
them at once.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter

import numpy as np
from settings import mixed_texts, parser, prepare
from side_by_side import Comparison, Side, measure

SECONDS = 120  # for the requests of a round


@contextmanager
def serving(model: Path, most: int, *options: str) -> Iterator[int]:
    """Start a server, and return its port."""
    command = [sys.executable, "-m", "keras_albert", "serve", str(model)]
    command += ["--port", "0", "--max-requests", str(most), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stdout:
                if found := re.search(r"serving on http://127\.0\.0\.1:(\d+)", line):
                    break
            else:
                raise RuntimeError(f"The server has ended: {' '.join(command)}")
            yield int(found[1])
        finally:
            server.terminate()


def write_request(text: str) -> bytes:
    body = json.dumps({"instances": [text]}).encode()
    return (
        b"POST /v1/models/model:predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    ) % (len(body), body)


class Load:
    """The requests to a server, and their times.

    Args:
        port: int.
        clients: int. The number of connections.
        requests: The requests.
    """

    def __init__(self, port: int, clients: int, requests: list[bytes]) -> None:
        self.port, self.clients, self.requests = port, clients, requests
        self.answers: list[bytes] = [b""] * len(requests)
        # The median and the 99th percentile of each run.
        self.latencies: list[tuple[float, float]] = []

    def run(self) -> None:
        asyncio.run(asyncio.wait_for(self._run(), SECONDS))

    async def _run(self) -> None:
        waiting = iter(range(len(self.requests)))
        seconds: list[float] = []
        await asyncio.gather(
            *(self._ask(waiting, seconds) for _ in range(self.clients))
        )
        self.latencies.append(tuple(np.percentile(seconds, [50, 99])))

    async def _ask(self, waiting: Iterator[int], seconds: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for number in waiting:
            start = perf_counter()
            writer.write(self.requests[number])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head)[1])
            self.answers[number] = await reader.readexactly(length)
            seconds.append(perf_counter() - start)
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(self.answers[number].decode())
        writer.close()
        await writer.wait_closed()


def agreement(loads: list[Load]) -> str:
    """Compare the probabilities of two servers."""
    answers = [
        [json.loads(answer)["predictions"][0]["probabilities"] for answer in x.answers]
        for x in loads
    ]
    difference = np.abs(np.subtract(*answers)).max()
    return f"probabilities agree within {difference:.1e}"


def compare(
    ports: dict[str, int], clients: int, texts: list[str], repeats: int
) -> Iterator[Comparison]:
    requests = [write_request(text) for text in texts]
    loads = {name: Load(port, clients, requests) for name, port in ports.items()}
    title = f"{clients} client{'s' * (clients > 1)}"
    sides = [Side(name, load.run, len(requests)) for name, load in loads.items()]
    measured = measure(f"{title}: requests", sides, repeats, work="requests")
    measured.notes.append(agreement(list(loads.values())))
    yield measured
    for place, name in enumerate(("p50", "p99")):
        # The first run warms up.
        costs = {
            side: [latency[place] * 1000 for latency in load.latencies[1:]]
            for side, load in loads.items()
        }
        yield Comparison(f"{title}: {name}", costs, dict.fromkeys(costs, 1), "ms")


def predict_at_once(model, texts: list[str], repeats: int) -> Comparison:
    """Measure the model of the servers."""
    side = Side("predict", lambda: model.predict(texts, verbose=0), len(texts))
    return measure("all texts at once", [side], repeats, work="texts")


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--preset", default="albert_tiny_en_uncased", help="the model")
    made.add_argument("--requests", type=int, default=2000, help="in each round")
    made.add_argument("--clients", type=int, nargs="+", default=[1, 32])
    arguments = made.parse_args()
    prepare(arguments)
    from reports import report

    from keras_albert import AlbertClassifier

    model = AlbertClassifier.from_preset(arguments.preset, num_classes=2)
    exported = model.export(arguments.output / "served")
    most = max(arguments.clients)
    texts = mixed_texts(arguments.data, arguments.requests)
    with ExitStack() as stack:
        ports = {
            "keras_albert in batches": stack.enter_context(serving(exported, most)),
            "keras_albert one by one": stack.enter_context(
                serving(exported, most, "--max-batch-rows", "1")
            ),
        }
        comparisons = (
            comparison
            for clients in arguments.clients
            # One client takes as long for a share of them.
            for comparison in compare(
                ports,
                clients,
                texts[: len(texts) if clients > 1 else len(texts) // 4],
                arguments.repeats,
            )
        )
        report("server_load", comparisons, arguments)
    comparison = predict_at_once(model, texts, arguments.repeats)
    report("server_load_model", [comparison], arguments)


if __name__ == "__main__":
    main()
