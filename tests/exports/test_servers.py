"""Servers that others wrote serve the folders that are written for them."""

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.exports.served_models import TAGS, balance, make_task
from tests.warm_python.start import REAL_PYTHON
from tests.word_pieces import word_proto

pytest.importorskip("onnxscript")

TEXT = "the river runs through town. and captain said not today"
COMMANDS = {
    "litserve": ("server.py", "--port"),
    "bentoml": ("-m", "bentoml", "serve", "service:Predictor", "--port"),
}


@pytest.fixture(scope="module")
def tagger():
    task = make_task("TokenClassifier", word_proto(), labels=TAGS)
    balance(task, task.output_dense.bias, [TEXT, "the wind comes in"])
    return task


@contextlib.contextmanager
def started(server, folder):
    """Start a server, and yield its address when it is healthy."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "BENTOML_DO_NOT_TRACK": "true",
        "BENTOML_HOME": str(folder / "home"),
    }
    log = folder / "log.txt"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [REAL_PYTHON, *COMMANDS[server], str(port)],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            address, end = f"http://127.0.0.1:{port}", time.monotonic() + 60
            health = {"litserve": "/health", "bentoml": "/readyz"}[server]
            while ask(address + health)[0] != 200:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.2)
            yield address
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def ask(address, content=None):
    """Send a request, and return its status and what it is answered."""
    body = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address, body, headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.parametrize("server", ["litserve", "bentoml"])
def test_a_server_answers_as_python_does(server, tagger, tmp_path):
    if importlib.util.find_spec(server) is None:
        pytest.skip(f"no {server}: `pip install {server}`")
    folder = tagger.export(tmp_path / "folder", format="server", server=server)
    expected = tagger.tag(TEXT)
    assert expected
    wrap = {"litserve": lambda row: row, "bentoml": lambda row: {"rows": [row]}}[server]
    with started(server, folder) as address:
        status, answer = ask(f"{address}/predict", wrap({"text": TEXT}))
        assert status == 200, answer
        found = json.loads(answer)
        found = found[0] if server == "bentoml" else found
        assert found["start"] == [entity["start"] for entity in expected]
        assert found["label"] == [entity["label"] for entity in expected]
        scores = [entity["score"] for entity in expected]
        assert found["score"] == pytest.approx(scores, abs=1e-5)
        status, answer = ask(f"{address}/predict", wrap({"texts": TEXT}))
        assert status == 400
        assert "Send an object with text" in answer
        status, answer = ask(f"{address}/predict", wrap({"text": "a" * 100_001}))
        assert status == 400
        assert "more than 100,000 characters" in answer
        # Bad requests among others fail alone.
        texts = ["\ud800", "a" * 100_001, *[TEXT] * 7, ""] * 3
        with ThreadPoolExecutor(len(texts)) as pool:
            rows = [wrap({"text": text}) for text in texts]
            answers = list(pool.map(partial(ask, f"{address}/predict"), rows))
        assert [status for status, _ in answers] == [400, 400, *[200] * 8] * 3
        if server == "bentoml":
            assert "bentoml_service_request_total" in ask(f"{address}/metrics")[1]


def test_the_folder_answers_without_a_server(tmp_path):
    """In a program that has no TensorFlow."""
    pytest.importorskip("onnxruntime_extensions")
    chooser = make_task("MultipleChoice", word_proto())
    folder = chooser.export(tmp_path / "folder", format="server")
    rows = [
        {"context": "the wind", "question": "it?", "choices": ["comes in", "runs"]},
        {"context": TEXT, "question": "who?", "choices": ["the captain", "a", "town"]},
    ]
    program = (
        "import json, sys; from model import Model; "
        "print(json.dumps(Model().predict(json.loads(sys.argv[1]))))"
    )
    run = [REAL_PYTHON, "-c", program, json.dumps(rows)]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    columns = ([row[key] for row in rows] for key in ("context", "question", "choices"))
    expected = chooser.choose(*columns)
    found = json.loads(done.stdout)
    assert [answer["choice"] for answer in found] == [x["choice"] for x in expected]
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert names == ["model.onnx", "model.py", "requirements.txt", "server.py"]


def test_an_unknown_server_is_refused(tagger, tmp_path):
    with pytest.raises(ValueError, match="one of 'litserve', 'bentoml'"):
        tagger.export(tmp_path / "new", format="server", server="gunicorn")
    assert not (tmp_path / "new").exists()
