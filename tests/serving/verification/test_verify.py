"""An export used as in a server: loaded in C++, warmed up, with requests in JSON."""

import json
import os
import shutil
import stat
import sys

import keras
import numpy as np
import pytest

from examples.rest_json import read_rest_request, write_rest_response
from keras_albert.serving import verify
from keras_albert.serving.tensorflow_files.messages import PredictionLog
from keras_albert.serving.tensorflow_files.saved_model_file import SavedModelFile
from keras_albert.serving.tensorflow_files.warm_up_file import (
    WARM_UP_FILE,
    read_warm_up,
)
from keras_albert.serving.verification import session_program
from keras_albert.serving.verification.run_saved_model import run_saved_model
from keras_albert_cli.run_command import run_command as main
from tests.serving.served_models import make_task

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")
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


def read_records(path):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def write_records(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


@pytest.fixture(scope="module")
def ask(export):
    """Run requests of arrays in one process, and return the outputs."""
    signatures = SavedModelFile(export).signatures

    def run(*requests):
        asked = [(signatures[name], inputs) for name, inputs in requests]
        return run_saved_model(export, asked).answers

    return run


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
    assert verified.largest_difference < 1e-5
    assert json.loads(verified.rest["serve_pair"])["instances"][0].keys() == {
        "text",
        "text_pair",
    }


def test_the_command_prints_requests(export, capsys):
    assert main(["verify", str(export)]) == 0
    printed = capsys.readouterr().out
    assert "films:predict" in printed
    assert '"signature_name": "serving_default", "instances"' in printed
    assert '"signature_name": "serve_document", "instances"' in printed
    assert "8 warm-up requests answered" in printed


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
        ("saved_model.pb", 100_000, r"saved_model.pb \(100,000 bytes\) is damaged or"),
        ("saved_model.pb", 0, r"\(0 bytes\) is damaged or truncated"),
        (f"assets.extra/{WARM_UP_FILE}", 100, r"truncated after 0 records"),
        (f"assets.extra/{WARM_UP_FILE}", 2000, r"truncated after [1-9] records"),
    ],
)
def test_a_truncated_file_is_named(copy, file, size, message):
    os.truncate(copy / file, size)
    with pytest.raises(ValueError, match=message):
        verify(copy)


def test_what_is_no_export_is_refused(copy, tmp_path):
    with pytest.raises(ValueError, match=r"There is no directory .*none"):
        verify(tmp_path / "none")
    with pytest.raises(ValueError, match=r"contains no `saved_model.pb`"):
        verify(copy / "variables")


def test_an_operation_that_no_server_has_is_named(copy):
    path = copy / "saved_model.pb"
    contents = path.read_bytes()
    assert contents.count(b"\x12\x04Tanh") > 0
    path.write_bytes(contents.replace(b"\x12\x04Tanh", b"\x12\x04Tenh"))
    with pytest.raises(RuntimeError, match="Tenh"):
        session_program.load(str(copy))


def test_requests_and_graph_belong_together(copy):
    path = copy / "assets.extra" / WARM_UP_FILE
    records = read_records(path)
    write_records(path, [r.replace(b"serve_pair", b"serve_peer") for r in records])
    with pytest.raises(ValueError, match=r"asks for 'serve_peer' .*two exports"):
        verify(copy)
    first = read_warm_up(path)[0].outputs["logits"]
    write_records(
        path, [r.replace(first.tobytes(), (first + 1).tobytes()) for r in records]
    )
    with pytest.raises(ValueError, match=r"returns other results .*by 1\. "):
        verify(copy)
    path.unlink()
    assert verify(copy).requests == 0


def test_a_process_that_dies_does_not_end_this_one(export, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'out of luck' >&2\nkill -SEGV $$\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    message = r"(?s)was killed by SIGSEGV in step 0 of 10; .*out of luck"
    with pytest.raises(ValueError, match=message):
        verify(export, broken)


def test_only_tensorflow_is_imported(verified, imports):
    assert verified.requests == 8
    lines = imports[1].read_text().splitlines()
    names = {line.rpartition("|")[2].split(".")[0].strip() for line in lines}
    assert "tensorflow" in names
    assert not {"keras_albert", "keras_hub", "tensorflow_text"} & names


def test_without_tensorflow_it_says_what_to_install(export, tmp_path):
    bare = tmp_path / "bare"
    # An interpreter without packages.
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ImportError, match=r"has no tensorflow\. Install: pip install"):
        verify(export, bare)


def test_bad_requests_get_an_error_and_the_next_an_answer(classifier, ask):
    texts = np.array(["a fine film", ""], object)
    good = {"text": np.array([text.encode() for text in texts], object)}
    huge = "In 2011, naïve readers paid £12. " * 32_000
    ids = {name: np.ones((2, 41), np.int32) for name in ("token_ids", "segment_ids")}
    number, matrix, ragged, long, none, one_mb, bytes_, last = ask(
        ("serving_default", {"text": np.array([1, 2], np.int32)}),
        ("serving_default", {"text": np.array([[b"a", b"b"]], object)}),
        ("serve_pair", good | {"text_pair": np.array([b"a"], object)}),
        ("serve_tokens", ids | {"padding_mask": ids["token_ids"]}),
        ("serving_default", {"text": np.array([], object)}),
        ("serving_default", {"text": np.array([huge.encode()], object)}),
        ("serving_default", {"text": np.array([b"\xff caf\xe9 \xf0\x9f"], object)}),
        ("serving_default", good),
    )
    assert "Type mismatch between parsed tensor (int32) and dtype (string)" in number
    assert "Cannot feed value of shape (1, 2)" in matrix
    assert "`text`, `text_pair` have as many rows as each other" in ragged
    assert "`token_ids` has more tokens than the model reads" in long
    assert none["logits"].shape == (0, 2)
    assert len(huge.encode()) > 1_000_000
    assert bytes_["score"].shape == (1,)
    for answer, asked in ((one_mb, [huge]), (last, list(texts))):
        logits = classifier.predict(asked, verbose=0)
        np.testing.assert_allclose(answer["logits"], logits, atol=1e-5)


def test_rest_requests_in_rows_and_columns(classifier, export, ask):
    """The JSON of a server's requests and responses, in both forms."""
    signatures = SavedModelFile(export).signatures
    first, second = ["très 🙂", ""], ["a film", "b"]
    rows = [{"text": a, "text_pair": b} for a, b in zip(first, second, strict=True)]
    bodies = [
        {"instances": first},
        {"inputs": first},
        {"signature_name": "serve_pair", "instances": rows},
        {
            "signature_name": "serve_pair",
            "inputs": {"text": first, "text_pair": second},
        },
        {"instances": [{"b64": "dHLDqHMg8J+Zgg=="}, {"text": ""}]},
    ]
    requests = [read_rest_request(json.dumps(body), signatures) for body in bodies]
    answers = ask(*(request[:2] for request in requests))
    logits = [classifier.predict(first, verbose=0)] * 2
    logits += [classifier.predict((first, second), verbose=0)] * 2
    for request, answer, expected in zip(
        requests, answers, [*logits, logits[0]], strict=True
    ):
        response = json.loads(write_rest_response(answer, request.in_rows))
        if request.in_rows:
            found = [row["logits"] for row in response["predictions"]]
            labels = [row["label"] for row in response["predictions"]]
        else:
            found, labels = (response["outputs"][key] for key in ("logits", "label"))
        np.testing.assert_allclose(found, expected, atol=1e-5)
        names = classifier.class_names
        assert labels == [names[number] for number in expected.argmax(axis=1)]


def test_the_examples_are_requests(verified):
    for name, body in verified.rest.items():
        request = read_rest_request(body, verified.signatures)
        assert request.signature == name
        assert request.inputs.keys() == verified.signatures[name].inputs.keys()


def test_warm_up_requests_are_records(export):
    """TensorFlow and `read_warm_up` read the same records."""
    path = export / "assets.extra" / WARM_UP_FILE
    requests = read_warm_up(path)
    logs = [
        PredictionLog.FromString(record).predict_log for record in read_records(path)
    ]
    assert [r.signature for r in requests] == [
        log.request.model_spec.signature_name for log in logs
    ]
    assert len(logs) == 8


def test_a_changed_bit_is_found(copy):
    """Most bits are checked by TensorFlow's checksums alone."""
    path = copy / "assets.extra" / WARM_UP_FILE
    contents = bytearray(path.read_bytes())
    contents[contents.index(b"A short text") + 3] ^= 1
    path.write_bytes(contents)
    assert len(read_warm_up(path)) == 8
    with pytest.raises(RuntimeError, match="corrupted record"):
        session_program.load(str(copy))


def test_warm_up_requests_are_a_servers(classifier, export, verified):
    api = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    from google.protobuf import json_format
    from tensorflow_serving.apis import predict_pb2

    path = export / "assets.extra" / WARM_UP_FILE
    logs = [api.PredictionLog.FromString(record) for record in read_records(path)]
    assert {log.WhichOneof("log_type") for log in logs} == {"predict_log"}
    asked = [log.predict_log.request for log in logs]
    names = ["serving_default", "serve_pair", "serve_document", "serve_tokens"]
    signatures = [request.model_spec.signature_name for request in asked]
    assert signatures == [name for name in names for _ in range(2)]
    shapes = [tuple(tf.make_ndarray(r.inputs["token_ids"]).shape) for r in asked[-2:]]
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
