"""An export used as in a server: loaded in C++, warmed up, with requests in JSON."""

import importlib
import json
import os
import re
import shutil
import stat
import sys

import keras
import numpy as np
import pytest

from keras_albert.cli.run_command import run_command as main
from keras_albert.exports import verify
from tests.exports.served_calls import ServedModel
from tests.exports.served_models import make_task

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
program = importlib.import_module("keras_albert.exports.replay_program")
WARM_UP = f"assets.extra/{program.WARM_UP_FILE}"
pytestmark = pytest.mark.skipif(
    keras.config.backend() != "torch", reason="all backends write the same graph"
)


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    return make_task("Classifier", tiny_proto, labels=("bad", "très bon"))


@pytest.fixture(scope="module")
def export(classifier, tmp_path_factory):
    return classifier.export(tmp_path_factory.mktemp("exports") / "films")


@pytest.fixture(scope="module")
def imports(tmp_path_factory):
    """A Python that writes what it imports to a file, and the file."""
    folder = tmp_path_factory.mktemp("imports")
    python, imported = folder / "python", folder / "imported"
    options = f'-X importtime "$@" 2> "{imported}"'
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" {options}\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python, imported


@pytest.fixture(scope="module")
def verified(export, imports):
    return verify(export.parent, imports[0])


@pytest.fixture
def copy(export, tmp_path):
    """A copy of the export that may be damaged."""
    return shutil.copytree(export, tmp_path / "films" / "1")


@pytest.fixture
def answering(export, tmp_path):
    """Verify the export with a process that answers what a test wants."""

    def run(command):
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{command}\n")
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        return verify(export, python)

    return run


@pytest.fixture(scope="module")
def model(export):
    return ServedModel(export).model


def test_says_what_it_found(verified, export):
    assert verified.directory == export
    assert list(verified.signatures) == [
        "serve_document",
        "serve_pair",
        "serve_tokens",
        "serving_default",
    ]
    assert verified.signatures["serve_pair"].inputs["text_pair"].shape == (None,)
    assert verified.signatures["serving_default"].outputs["logits"].dtype == "float32"
    assert verified.requests == 8
    assert verified.largest_difference < 3e-5
    assert json.loads(verified.rest["serve_pair"])["instances"][0].keys() == {
        "text",
        "text_pair",
    }


def test_the_command_prints_signatures_and_requests(export, imports, capsys):
    assert main(["verify", str(export), "--python", str(imports[0])]) == 0
    assert imports[1].stat().st_size > 0
    printed = capsys.readouterr().out
    for part in (
        *("serving_default", "string", "(?, 2)", "films:predict"),
        '"signature_name": "serving_default", "instances"',
        '"signature_name": "serve_document", "instances"',
        '"model_spec"',
    ):
        assert part in printed
    words = " ".join(printed.split())
    assert "operations, all of them a stock server's; 8 warm-up requests" in words
    assert re.search(r"the largest difference \d\.\de[-+]\d\d$", words)


def test_a_damaged_export_is_refused(copy, capsys):
    (variables,) = copy.glob("variables/variables.data*")
    os.truncate(variables, variables.stat().st_size // 2)
    assert main(["verify", str(copy.parent)]) == 1
    error = capsys.readouterr().err
    assert "TensorFlow cannot load" in error
    assert "copy or export it again" in error


@pytest.mark.parametrize(
    ("file", "size", "message"),
    [
        ("saved_model.pb", 100_000, "Cannot parse file .*saved_model.pb"),
        ("saved_model.pb", 0, "could not be found in SavedModel"),
        (WARM_UP, 100, f"{WARM_UP} is damaged: .*truncated record"),
    ],
)
def test_a_truncated_file_is_named(copy, file, size, message):
    os.truncate(copy / file, size)
    with pytest.raises((OSError, RuntimeError, ValueError), match=message):
        program.load(str(copy)), program.read_warm_up(str(copy))


def test_what_is_no_export_is_refused(copy, tmp_path):
    for path in (tmp_path / "none", copy / "variables"):
        with pytest.raises(ValueError, match=rf"{path} contains no `saved_model.pb`"):
            verify(path)


def test_an_operation_that_no_server_has_is_named(copy, answering):
    path = copy / "saved_model.pb"
    contents = path.read_bytes()
    assert contents.count(b"\x12\x04Tanh") > 0
    path.write_bytes(contents.replace(b"\x12\x04Tanh", b"\x12\x04Tenh"))
    with pytest.raises(RuntimeError, match="Op type not registered 'Tenh'"):
        program.load(str(copy))
    read = {"signatures": {}, "operations": ["Add", "PyFunc", "XlaDot"], "requests": 0}
    with pytest.raises(ValueError, match=r"does not have operations .*: PyFunc"):
        answering(f"echo '{json.dumps(read)}'")


@pytest.mark.parametrize("difference", [1.0, float("nan")])
def test_other_results_are_refused(answering, difference):
    read = {"signatures": {}, "operations": [], "requests": 2}
    request = {"signature": "serving_default", "inputs": {}}
    lines = [
        json.dumps(line)
        for line in (
            read,
            request | {"differences": [0.0, difference]},
            request | {"differences": [0.0]},
        )
    ]
    with pytest.raises(ValueError, match=r"returns different results .*by (1|nan)\. "):
        answering("; ".join(f"echo '{line}'" for line in lines))


def test_requests_and_graph_belong_together(model, copy):
    log, *_ = program.read_warm_up(str(copy))
    same = program.replay(model, log)
    assert max(same["differences"]) < 1e-5
    assert same["inputs"] == {"text": ["A short text, with a [MASK] in it."]}
    (logits,) = (x for x in log.response.outputs if x.key == "logits")
    logits.value.CopyFrom(tf.make_tensor_proto(tf.make_ndarray(logits.value) + 1))
    changed = program.replay(model, log)
    assert max(changed["differences"]) == pytest.approx(1, abs=1e-4)
    log.request.model_spec.signature_name = "serve_peer"
    with pytest.raises(ValueError, match="ask for 'serve_peer', which the graph does"):
        program.replay(model, log)
    (copy / WARM_UP).unlink()
    assert program.read_warm_up(str(copy)) == []


def test_a_process_that_dies_does_not_end_this_one(answering):
    message = r"(?s)was killed by SIGSEGV after 0 requests\. .*out of luck"
    with pytest.raises(ValueError, match=message):
        answering("echo 'out of luck' >&2\nkill -SEGV $$")


def test_only_tensorflow_is_imported(verified, imports):
    assert verified.requests == 8
    lines = imports[1].read_text().splitlines()
    names = {line.rpartition("|")[2].split(".")[0].strip() for line in lines}
    assert "tensorflow" in names
    assert not {"keras_albert", "keras_hub", "tensorflow_text"} & names


def test_without_tensorflow_it_says_what_to_install(answering):
    # An interpreter without packages.
    message = r"No module named 'tensorflow'\. Install: pip install tensorflow-text"
    with pytest.raises(ImportError, match=message):
        answering(f'exec "{sys.executable}" -S "$@"')


def test_warm_up_requests_are_a_servers(classifier, export, verified):
    api = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    from google.protobuf import json_format
    from tensorflow_serving.apis import predict_pb2

    records = tf.data.TFRecordDataset(str(export / WARM_UP))
    logs = [api.PredictionLog.FromString(record.numpy()) for record in records]
    assert {log.WhichOneof("log_type") for log in logs} == {"predict_log"}
    asked = [log.predict_log.request for log in logs]
    names = ["serving_default", "serve_pair", "serve_tokens", "serve_document"]
    signatures = [request.model_spec.signature_name for request in asked]
    assert signatures == [name for name in names for _ in range(2)]
    shapes = [tuple(tf.make_ndarray(r.inputs["token_ids"]).shape) for r in asked[4:6]]
    assert shapes == [(2, 8), (1, 40)]
    for log in logs[:2]:
        texts = tf.make_ndarray(log.predict_log.request.inputs["text"])
        logits = tf.make_ndarray(log.predict_log.response.outputs["logits"])
        expected = classifier.predict([t.decode() for t in texts], verbose=0)
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    # A text that fills a row.
    long = tf.make_ndarray(asked[1].inputs["text"])[0].decode()
    assert classifier.preprocessor(long)["padding_mask"].sum() == 40
    for name, example in verified.grpc.items():
        request = json_format.Parse(example, predict_pb2.PredictRequest())
        assert request.model_spec.name == "films"
        assert request.model_spec.signature_name == name
        inputs = {key: tf.make_ndarray(x) for key, x in request.inputs.items()}
        assert {len(array) for array in inputs.values()} == {1}
