"""The server of the example, asked over HTTP as clients ask TensorFlow Serving."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier

pytest.importorskip("tensorflow_text")
pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
if keras.config.backend() != "torch":
    pytest.skip("serves TensorFlow's graph on every backend", allow_module_level=True)

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve.py"
TEXTS = ["where is my parcel?", "", "naïve CAFÉ 🙂", "you charged me twice " * 50]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def url(output):
    """Start the example, and end it."""
    command = [sys.executable, str(EXAMPLE), "--epochs", "1", "--port", "0"]
    errors = output / "stderr.txt"
    with (
        errors.open("w") as words,
        subprocess.Popen(
            [*command, "--output", str(output)],
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
        ) as server,
    ):
        printed = []
        for line in server.stdout:
            printed.append(line)
            if found := re.search(r"serving on (http://127.0.0.1:\d+)", line):
                break
        assert found, errors.read_text()[-3000:]
        assert "warm-up requests answered" in "".join(printed)
        assert "docker run" in "".join(printed)
        yield f"{found[1]}/v1/models/model"
        server.terminate()


@pytest.fixture(scope="module")
def expected(url, output):
    return AlbertClassifier.from_preset(output / "preset").classify(TEXTS)


def ask(url, body=None):
    """Give the status and the JSON of the answer."""
    data = (
        body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    )
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
    assert_answers(
        [row["label"] for row in rows], [row["score"] for row in rows], expected
    )
    assert ask(f"{url}/versions/1:predict", {"instances": TEXTS}) == (200, answer)


def test_columns(url, expected):
    body = {"signature_name": "serving_default", "inputs": {"text": TEXTS}}
    status, answer = ask(f"{url}:predict", body)
    assert status == 200
    assert_answers(answer["outputs"]["label"], answer["outputs"]["score"], expected)


def test_status_and_metadata(url):
    status, answer = ask(url)
    assert status == 200
    assert answer["model_version_status"][0]["state"] == "AVAILABLE"
    status, answer = ask(f"{url}/versions/1/metadata")
    assert status == 200
    assert answer["model_spec"] == {
        "name": "model",
        "signature_name": "",
        "version": "1",
    }
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert (text["dtype"], text["tensor_shape"]["dim"][0]["size"]) == (
        "DT_STRING",
        "-1",
    )


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (":predict", b"{", 400),
        (":predict", b"\xff\xfe", 400),
        (":predict", {"instances": []}, 400),
        (":predict", {"instances": [1]}, 400),
        (":predict", {"inputs": {"question": ["a"]}}, 400),
        (":predict", {"signature_name": "none", "instances": ["a"]}, 400),
        (
            ":predict",
            {
                "signature_name": "serve_tokens",
                "inputs": {
                    name: [[1] * 65]
                    for name in ("token_ids", "segment_ids", "padding_mask")
                },
            },
            400,
        ),
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


def test_a_megabyte_of_text_is_answered(url):
    status, answer = ask(f"{url}:predict", {"instances": ["very long " * 10**5]})
    assert status == 200
    assert len(answer["predictions"]) == 1
