"""`keras-albert serve`, with requests in the forms of TensorFlow Serving and OpenAI."""

import base64
import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier
from tests.browser import opened_page
from tests.exports.served_models import make_task

pytest.importorskip("tensorflow_text")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
if keras.config.backend() != "torch":
    pytest.skip("serves TensorFlow's graph on every backend", allow_module_level=True)

SERVER = {}
TOO_LONG = {f"{x}": [[1] * 65] for x in ("token_ids", "segment_ids", "padding_mask")}
TEXTS = ["where is my parcel?", "", "naïve CAFÉ 🙂", "you charged me twice " * 50]


@pytest.fixture(scope="module")
def preset(tiny_proto, tmp_path_factory):
    preset = tmp_path_factory.mktemp("serve") / "preset"
    task = make_task("Classifier", tiny_proto, max_length=64, labels=("a", "b", "c"))
    task.save_to_preset(preset)
    return preset


@pytest.fixture(scope="module")
def embedder(tiny_proto):
    return make_task("TextEmbedder", tiny_proto)


@pytest.fixture(scope="module")
def vectors(embedder, tmp_path_factory):
    """The SavedModel of the embedder."""
    return embedder.export(tmp_path_factory.mktemp("vectors") / "vectors").parent


def read_lines(file):
    file.seek(0)
    return file.read().splitlines()


@contextmanager
def serving(model, *options):
    """Serve a model; return the process, its output and its address."""
    command = [sys.executable, "-m", "keras_albert", "serve", str(model)]
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(
            [*command, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as server,
    ):
        printed, found = [], None
        for line in server.stdout:
            printed.append(line)
            if found := re.search(r"serving on (http://127.0.0.1:\d+)", line):
                break
        assert found, read_lines(errors)[-50:]
        try:
            yield server, "".join(printed), f"{found[1]}/v1/models/model"
        finally:
            server.terminate()
        assert server.wait() == 143
        lines = read_lines(errors)
    assert lines[-1] == "keras-albert serve: stopped"
    assert "Traceback" not in "".join(lines)


@pytest.fixture(scope="module")
def url(preset):
    """The address of the model in a server that ends after the tests."""
    options = ("--max-requests", "3", "--max-connections", "16", "--max-seconds", "5")
    with serving(preset, *options) as (server, printed, url):
        assert "warm-up requests answered" in printed
        assert f"{url}:predict\n" in printed
        SERVER["pid"] = server.pid
        yield url


@pytest.fixture(scope="module")
def expected(preset):
    return AlbertClassifier.from_preset(preset).classify(TEXTS)


def ask(url, body=None):
    """Return the status and the JSON of the response."""
    is_ready = body is None or isinstance(body, bytes)
    data = body if is_ready else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data) as response:  # noqa: S310  (our own)
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def assert_answers(labels, scores, expected):
    assert labels == [row["label"] for row in expected]
    np.testing.assert_allclose(scores, [row["score"] for row in expected], atol=1e-5)


def test_rows(url, expected):
    status, answer = ask(f"{url}:predict", {"instances": [{"text": t} for t in TEXTS]})
    rows = answer["predictions"]
    assert status == 200
    labels, scores = ([row[key] for row in rows] for key in ("label", "score"))
    assert_answers(labels, scores, expected)
    assert ask(f"{url}/versions/1:predict", {"instances": TEXTS}) == (200, answer)


def test_requests_at_the_same_time_have_their_own_answers(url, expected):
    bodies = [{"instances": [text]} for text in TEXTS] + [{"instances": [1]}]
    with ThreadPoolExecutor(3) as clients:
        called = clients.map(lambda body: ask(f"{url}:predict", body), bodies * 8)
        answers = list(called)
    assert [status for status, _ in answers] == [200, 200, 200, 200, 400] * 8
    for number, (_, answer) in enumerate(answers):
        if (place := number % 5) < len(TEXTS):
            (row,) = answer["predictions"]
            assert_answers([row["label"]], [row["score"]], [expected[place]])


def read_metrics(url):
    """The samples of a server's metrics."""
    address = url.partition("/v1/")[0]
    with urllib.request.urlopen(f"{address}/metrics") as response:  # noqa: S310
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = response.read().decode().splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.removeprefix("keras_albert_"): float(x) for name, x in samples}


def test_metrics_count_requests_and_calls(url):
    answered = 'requests_total{endpoint="predict",code="200"}'
    refused = 'requests_total{endpoint="predict",code="400"}'
    within = 'request_seconds_bucket{endpoint="predict",le="+Inf"}'
    ask(f"{url}:predict", {"instances": ["a"]})
    ask(f"{url}:predict", {"instances": []})
    before = read_metrics(url)
    assert ask(f"{url}:predict", {"instances": ["a", "b"]})[0] == 200
    assert ask(f"{url}:predict", {"instances": []})[0] == 400
    after = read_metrics(url)
    for name, more in ((answered, 1), (refused, 1), (within, 2), ("rows_total", 2)):
        assert after[name] == before[name] + more
    assert after["batches_total"] == before["batches_total"] + 1
    assert after["batch_seconds_total"] > before["batch_seconds_total"]
    assert after["open_requests"] == 0
    counts = [x for name, x in after.items() if "_bucket" in name and "predict" in name]
    assert counts == sorted(counts)
    assert counts[-1] == after['request_seconds_count{endpoint="predict"}']


def ask_openai(url, **body):
    """Return the status and the answer, or the message of the error."""
    status, answer = ask(f"{url.partition('/models/')[0]}/embeddings", body)
    return status, answer if status == 200 else answer["error"]["message"]


def test_a_saved_model_answers_as_openais_embeddings(embedder, vectors):
    expected = embedder.embed(TEXTS)
    with serving(vectors, "--name", "tiny") as (_, printed, url):
        assert "docker run" in printed
        assert "/v1/embeddings" in printed
        status, answer = ask_openai(url, model="tiny", input=TEXTS)
        assert status == 200
        assert (answer["object"], answer["model"]) == ("list", "tiny")
        assert [row["index"] for row in answer["data"]] == [0, 1, 2, 3]
        found = [row["embedding"] for row in answer["data"]]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        asked = {"dimensions": 5, "encoding_format": "base64"}
        _, answer = ask_openai(url, model="tiny", input=TEXTS[0], **asked)
        (row,) = answer["data"]
        vector = np.frombuffer(base64.b64decode(row["embedding"]), "<f4")
        np.testing.assert_allclose(vector, embedder.embed(TEXTS[0], dim=5), atol=1e-5)
        for body, words in (
            ({"model": "gpt", "input": "a"}, "no model 'gpt'"),
            ({"input": "a"}, '"input" and "model"'),
            ({"model": "tiny", "input": []}, "a list of strings"),
            ({"model": "tiny", "input": [1, 2]}, "hold texts"),
            ({"model": "tiny", "input": "a", "dimensions": 17}, "from 1 to 16"),
            ({"model": "tiny", "input": "a", "encoding_format": "hex"}, "base64"),
            ({"model": "tiny", "input": "a", "dims": 3}, "dims"),
            ({"model": "tiny", "input": ["a"] * 129}, "129 rows"),
        ):
            status, message = ask_openai(url, **body)
            assert (status, words in message) == (400, True), message
        assert 'requests_total{endpoint="embeddings",code="200"}' in read_metrics(url)


def test_a_classifier_has_no_embeddings(url):
    status, message = ask_openai(url, model="model", input="a")
    assert status == 404
    assert "--task AlbertTextEmbedder" in message


def test_the_page_asks_the_model(url, expected, tmp_path):
    with opened_page(f"{url.partition('/v1/')[0]}/", tmp_path) as page:
        page.wait_for("document.querySelector('textarea[name=text]') !== null")
        names = page.run("[...document.querySelector('select').options].map(x=>x.text)")
        assert names == ["serving_default", "serve_document", "serve_pair"]
        text = json.dumps(TEXTS[0])
        page.run(f"document.querySelector('textarea').value = {text}")
        page.run("document.querySelector('button').click()")
        page.wait_for("!document.querySelector('#answer').hidden")
        answer = json.loads(page.run("document.querySelector('#answer').textContent"))
        assert_answers([answer["label"]], [answer["score"]], expected[:1])
        page.resize(360, 640)
        assert page.run("document.documentElement.scrollWidth") <= 360
        assert not page.problems


def test_status_and_metadata(url):
    status, answer = ask(url)
    assert status == 200
    assert answer["model_version_status"][0]["state"] == "AVAILABLE"
    status, answer = ask(f"{url}/versions/1/metadata")
    assert status == 200
    spec = {"name": "model", "signature_name": "", "version": "1"}
    assert answer["model_spec"] == spec
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"]["dim"][0]["size"] == "-1"


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (":predict", b"{", 400),
        (":predict", b"\xff\xfe", 400),
        (":predict", {"instances": []}, 400),
        (":predict", {"instances": [1]}, 400),
        (":predict", {"inputs": {"question": ["a"]}}, 400),
        (":predict", {"signature_name": "none", "instances": ["a"]}, 400),
        (":predict", {"signature_name": "serve_tokens", "inputs": TOO_LONG}, 400),
        ("/versions/2:predict", {"instances": ["a"]}, 404),
        ("s:predict", {"instances": ["a"]}, 404),
        (":classify", {"examples": []}, 404),
        ("/versions/7", None, 404),
        ("/nothing", None, 404),
    ],
)
def test_bad_requests_are_refused_and_the_server_goes_on(path, body, code, url):
    status, answer = ask(f"{url}{path}", body)
    assert status == code
    assert answer["error"]
    assert ask(f"{url}:predict", {"instances": ["a"]})[0] == 200


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({"instances": ["a"] * 128}, 200, ""),
        ({"instances": ["a"] * 129}, 400, "has 129 rows"),
        ({"inputs": {"text": ["a"] * 129}}, 400, "has 129 rows"),
        ({"instances": ["é" * 100_000]}, 200, ""),
        ({"instances": ["a", "é" * 100_001]}, 400, "100,001 characters"),
        ({"instances": [{"b64": "YWFh" * 33_334}]}, 400, "characters"),
        (b"[" * 2_000_000, 400, "not JSON"),
        (b"[" * (2 * 2**20 + 1), 413, "2,097,152 bytes"),
        (b"[" * 50_000_000, 413, "2,097,152 bytes"),
    ],
)
def test_what_a_request_may_ask_for_is_bounded(body, code, words, url):
    status, answer = ask(f"{url}:predict", body)
    assert status == code
    assert words in answer.get("error", "")
    assert ask(f"{url}:predict", {"instances": ["a"]})[0] == 200


def connect(url, words, client=None):
    """Open a connection, and send data; clients have addresses of their own."""
    host, port = re.search(r"//(.*):(\d+)/", url).groups()
    source = client and (client, 0)
    connection = socket.create_connection((host, int(port)), 60, source)
    connection.sendall(words)
    return connection


def read_all(connection):
    """Read until the server closes the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


HEADERS = b"POST /v1/models/model:predict HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "words",
    [
        b"POST /v1/mod",
        HEADERS,
        HEADERS + b"Content-Length: 100\r\n\r\n",
        HEADERS + b'Content-Length: 100\r\n\r\n{"instances": [',
        HEADERS + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
    ],
    ids=["line", "headers", "no body", "body", "chunk"],
)
def test_a_request_that_does_not_arrive_is_ended(words, url):
    answer = read_all(connect(url, words))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"No whole request" in answer


def test_a_second_request_has_its_time_as_well(url):
    body = b'{"instances": ["a"]}'
    answer = read_all(connect(url, post(body) + HEADERS))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in answer


def test_a_connection_that_asks_for_nothing_is_ended(url):
    assert read_all(connect(url, b"")) == b""


def post(body):
    return HEADERS + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def test_open_requests_are_bounded_and_given_back(url):
    body = json.dumps({"instances": ["where is my parcel? " * 700] * 128}).encode()
    waiting = [connect(url, post(body)) for _ in range(12)]
    codes = {read_all(connection)[9:12] for connection in waiting}
    assert codes == {b"200", b"503"}
    assert ask(f"{url}:predict", {"instances": ["a"]})[0] == 200


@pytest.mark.skipif(sys.platform != "linux", reason="needs several local addresses")
@pytest.mark.parametrize("half", [b"POST", HEADERS + b"Content-Length: 9\r\n\r\n{"])
def test_slow_clients_do_not_keep_others_out(half, url):
    body = b'{"instances": ["a"]}'
    another = connect(url, post(body)[:-1], "127.0.0.2")
    slow = [connect(url, half) for _ in range(40)]
    for _ in range(5):
        assert ask(f"{url}:predict", body)[0] == 200
        assert ask(url)[0] == 200
    another.sendall(body[-1:])
    assert another.recv(12) == b"HTTP/1.1 200"
    another.close()
    for connection in slow:
        connection.close()


def test_a_server_that_stops_answers_the_requests_that_wait(vectors, embedder):
    expected = embedder.embed(TEXTS[0])
    body = json.dumps({"instances": [TEXTS[0]]}).encode()
    with serving(vectors, "--max-requests", "8") as (server, _, address):
        assert ask(f"{address}:predict", body)[0] == 200
        waiting = [connect(address, post(body)) for _ in range(8)]
        unfinished = connect(address, post(body)[:-1])
        # This is answered after the requests before it were begun.
        assert ask(address)[0] == 200
        server.terminate()
        for connection in waiting:
            head, _, words = read_all(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            (row,) = json.loads(words)["predictions"]
            np.testing.assert_allclose(row, expected, atol=1e-5)
        assert read_all(unfinished).startswith(b"HTTP/1.1 503 ")
        assert server.wait() == 143


def memory():
    """The resident memory of the server, in MiB."""
    status = Path(f"/proc/{SERVER['pid']}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_is_given_back(url):
    largest = [
        json.dumps({"instances": ["where is my parcel? " * 800] * 128}).encode(),
        json.dumps({"instances": ["\u4e2d" * 5000] * 128}).encode(),
        b'{"instances": [' + b"[]," * 690_000 + b"[]]}",
        b"[" * 50_000_000,
    ]
    for body in largest:
        ask(f"{url}:predict", body)
    before = memory()
    for _ in range(3):
        for body in largest:
            ask(f"{url}:predict", body)
    assert memory() < before + 200
