"""Valid and invalid requests in the JSON of TensorFlow Serving's REST interface."""

import json

import numpy as np
import pytest

from keras_albert.exports.verification import Signature, TensorSpec
from keras_albert.serve.requests import RestRequest, read_rest_request

TEXT = TensorSpec("string", (None,))
CHOICES = TensorSpec("string", (None, None))
IDS = TensorSpec("int32", (None, None))
SIGNATURES = {
    "serving_default": Signature({"text": TEXT}, {}),
    "choose": Signature({"question": TEXT, "choices": CHOICES}, {}),
    "tokens": Signature({"token_ids": IDS}, {}),
    "numbers": Signature({"x": TensorSpec("float32", (None,))}, {}),
}

CHOOSE, TOKENS = {"signature_name": "choose"}, {"signature_name": "tokens"}


def read(**body):
    return read_rest_request(json.dumps(body), SIGNATURES)


def write(outputs, in_rows):
    return RestRequest("serving_default", {}, in_rows).write(outputs)


def plain(request):
    return {name: array.tolist() for name, array in request.inputs.items()}


def test_rows_and_columns_are_the_same():
    rows = [
        {"question": "é?", "choices": ["a", "b"]},
        {"question": "", "choices": ["", "c"]},
    ]
    columns = {"question": ["é?", ""], "choices": [["a", "b"], ["", "c"]]}
    in_rows = read(signature_name="choose", instances=rows)
    in_columns = read(signature_name="choose", inputs=columns)
    assert in_rows.in_rows
    assert not in_columns.in_rows
    assert plain(in_rows) == plain(in_columns)
    assert plain(in_rows)["choices"] == [[b"a", b"b"], [b"", b"c"]]
    assert plain(in_rows)["question"] == ["é?".encode(), b""]


def test_one_input_needs_no_name():
    for body in (
        {"instances": ["a", "b"]},
        {"instances": [{"text": "a"}, {"text": "b"}]},
        {"instances": ["a", {"b64": "Yg=="}]},
        {"inputs": ["a", "b"]},
        {"inputs": {"text": ["a", "b"]}},
    ):
        assert plain(read(**body)) == {"text": [b"a", b"b"]}
    assert plain(read(inputs=[])) == {"text": []}
    ids = read(signature_name="tokens", instances=[[2, 3], [4, 5]])
    assert plain(ids) == {"token_ids": [[2, 3], [4, 5]]}
    assert ids.inputs["token_ids"].dtype == np.int32
    assert plain(read(signature_name="numbers", inputs=[1, 2.5])) == {"x": [1.0, 2.5]}
    assert read(signature_name="tokens", inputs=[]).inputs["token_ids"].shape == (0, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'either "instances" or "inputs"'),
        ({"instances": ["a"], "inputs": ["a"]}, 'either "instances" or "inputs"'),
        ({"instances": []}, "at least one row"),
        *(
            ({"signature_name": "numbers", "inputs": [number]}, "hold float32 numbers")
            for number in (10**400, -1e39, float("nan"))
        ),
        ({"instances": "a"}, "at least one row"),
        ({"instances": [None]}, "`text` must hold texts. Received: None"),
        ({"instances": [1]}, "hold texts. Received: 1"),
        ({"instances": [["a"]]}, "hold texts"),
        ({"instances": [{"b64": "%"}]}, "hold texts"),
        ({"instances": [{"b64": 7}]}, "hold texts"),
        ({"instances": [{"tekst": "a"}]}, "hold texts"),
        ({"inputs": {"tekst": ["a"]}}, "takes: text. Received: tekst"),
        ({"inputs": "a"}, "1 deep"),
        ({"signature_name": "none", "inputs": ["a"]}, "no signature 'none'. The model"),
        ({"signature_name": ["a"], "inputs": ["a"]}, r"no signature \['a'\]"),
        ({"signature_name": "choose", "instances": ["a"]}, "Row 0 needs: question, ch"),
        (
            CHOOSE | {"instances": [{"question": "a"}]},
            "Row 0 needs: question, choices. Received: question",
        ),
        (
            CHOOSE | {"inputs": {"question": [], "choices": [["a"]]}},
            "the same number of rows",
        ),
        (TOKENS | {"inputs": [[1], [2, 3]]}, "of equal lengths"),
        (TOKENS | {"inputs": [[1.5]]}, "hold int32 numbers"),
        (TOKENS | {"inputs": [[True]]}, "hold int32 numbers"),
        (TOKENS | {"inputs": [[2**31]]}, "hold int32 numbers"),
        ({"signature_name": "numbers", "inputs": ["a"]}, "hold float32 numbers"),
    ],
)
def test_a_wrong_request_is_refused(body, message):
    with pytest.raises(ValueError, match=message):
        read(**body)


@pytest.mark.parametrize("body", ["", "{", b"\xff", "[" * 100_000, "[]", "null"])
def test_what_is_no_object_is_refused(body):
    with pytest.raises(ValueError, match=r"not JSON|be an object"):
        read_rest_request(body, SIGNATURES)


def test_half_a_character_is_no_error():
    assert plain(read(inputs=["\ud83d"])) == {"text": [b"?"]}


def test_answers():
    outputs = {
        "label": np.array(["é".encode(), b"\xff"], object),
        "score": np.array([[0.5, 1], [2, 3]], np.float32),
    }
    rows = [
        {"label": "é", "score": [0.5, 1.0]},
        {"label": "\ufffd", "score": [2.0, 3.0]},
    ]
    assert json.loads(write(outputs, True)) == {"predictions": rows}
    columns = {"label": ["é", "\ufffd"], "score": [[0.5, 1.0], [2.0, 3.0]]}
    assert json.loads(write(outputs, False)) == {"outputs": columns}
    one = {"score": np.array([1, 2], np.float32)}
    assert json.loads(write(one, True)) == {"predictions": [1.0, 2.0]}
    assert json.loads(write(one, False)) == {"outputs": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"instances": ["a"] * 4},
            "`text` has 4 rows, but a request may have at most 3",
        ),
        ({"inputs": ["a"] * 4}, "`text` has 4 rows"),
        ({"inputs": {"text": ["é" * 6]}}, "a text of 6 characters"),
        ({"instances": [{"b64": "YWFhYWFh"}]}, "a text of 6 characters"),
        (
            CHOOSE | {"instances": [{"question": "", "choices": ["a", "a" * 6]}]},
            "`choices` holds a text of 6 characters",
        ),
        (TOKENS | {"instances": [{"token_ids": [1]}] * 4}, "`token_ids` has 4 rows"),
    ],
)
def test_rows_and_characters_are_bounded_if_asked(body, words):
    read(**body)
    with pytest.raises(ValueError, match=words):
        read_rest_request(json.dumps(body), SIGNATURES, max_rows=3, max_characters=5)
    fits = {"instances": ["é" * 5] * 3}
    read_rest_request(json.dumps(fits), SIGNATURES, max_rows=3, max_characters=5)


def test_an_error_does_not_repeat_the_request():
    for body in (
        {"instances": [["a" * 10**6]] * 2, "signature_name": "choose"},
        {"inputs": "a" * 10**6, "signature_name": "choose"},
        {"instances": ["a"], "signature_name": "a" * 10**6},
        {"instances": [["a" * 10**6]]},
    ):
        with pytest.raises(ValueError, match=r".") as error:
            read(**body)
        assert len(str(error.value)) < 1000
