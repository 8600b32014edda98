"""Requests that wait are computed together; each has its own answer or error."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from keras_albert.exports.verification import Signature, TensorSpec
from keras_albert.serve.batches import RequestBatches
from keras_albert.serve.requests import Limits

TEXT = TensorSpec("string", (None,))
IDS = TensorSpec("int32", (None, None))
ENTITIES = TensorSpec("string", (None, None))
SIGNATURES = {
    "serving_default": Signature({"text": TEXT}, {"label": TEXT}),
    "serve_document": Signature({"text": TEXT}, {"label": TEXT}),
    "entities": Signature({"text": TEXT}, {"label": ENTITIES}),
    "serve_tokens": Signature({"token_ids": IDS}, {"label": TEXT}),
}
FIRST = {"instances": ["first"]}


class HeldModel:
    """Answers with the inputs, and waits in each call until it is released."""

    def __init__(self):
        self.calls = []
        self.begun, self.released = Event(), Event()

    def __call__(self, signature, inputs):
        (array,) = inputs.values()
        rows = array.tolist()
        self.calls.append((signature, rows))
        self.begun.set()
        assert self.released.wait(60)
        if b"poison" in rows:
            raise ValueError("This text is refused.")
        return {"label": np.array([f"{signature} {row}" for row in rows], object)}


@pytest.fixture
def start():
    """Return batches whose model computes the first request, and the model."""
    models = []

    def start(**limits):
        model = HeldModel()
        models.append(model)
        batches = RequestBatches(model, SIGNATURES, Limits(**limits))
        # A request to an idle model does not wait for others.
        submit(batches, FIRST)
        assert model.begun.wait(60)
        return batches, model

    yield start
    for model in models:
        model.released.set()


def submit(batches, body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return batches.submit(body)


def ask(started, *bodies):
    """Submit requests while the model is held; return their futures, and its calls."""
    batches, model = started
    futures = [submit(batches, body) for body in bodies]
    assert model.calls == [("serving_default", [b"first"])]
    model.released.set()
    for future in futures:
        future.exception(60)
    return futures, model.calls[1:]


def text(*texts, signature="serving_default"):
    return {"signature_name": signature, "instances": list(texts)}


def ids(*rows):
    return {"signature_name": "serve_tokens", "instances": list(rows)}


def test_requests_that_wait_share_a_call_and_have_their_own_answers(start):
    columns = {"inputs": {"text": ["d", "e"]}}
    futures, calls = ask(
        start(), text("a"), text("b", "c"), columns, text(""), text("a")
    )
    rows = [b"a", b"b", b"c", b"d", b"e", b"", b"a"]
    assert calls == [("serving_default", rows)]

    def label(row):
        return f"serving_default {row}"

    assert [json.loads(future.result()) for future in futures] == [
        {"predictions": [label(b"a")]},
        {"predictions": [label(b"b"), label(b"c")]},
        {"outputs": [label(b"d"), label(b"e")]},
        {"predictions": [label(b"")]},
        {"predictions": [label(b"a")]},
    ]


def test_an_error_is_that_of_its_request(start):
    futures, calls = ask(
        start(rows=2, characters=10),
        *(text("a"), b"{", text("poison"), text("b", "c", "d"), text("b" * 11)),
        *(text("e", signature="none"), text("f")),
    )
    errors = [future.exception() for future in futures]
    assert [json.loads(futures[at].result()) for at in (0, 6)] == [
        {"predictions": ["serving_default b'a'"]},
        {"predictions": ["serving_default b'f'"]},
    ]
    words = ("not JSON", "refused", "3 rows", "11 characters", "no signature")
    for error, expected in zip(errors[1:6], words, strict=True):
        assert isinstance(error, ValueError)
        assert expected in str(error)
    # The batch with the text that the model refuses, and then each alone.
    alone = [[b"a"], [b"poison"], [b"f"]]
    assert [rows for _, rows in calls] == [[b"a", b"poison", b"f"], *alone]


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        (
            [text("a"), text("b", signature="serve_document"), text("c")],
            [[b"a", b"c"], [b"b"]],
        ),
        (
            [text("a"), text("b" * 600), text("c" * 60), text("d" * 700, "e")],
            [[b"a", b"c" * 60], [b"b" * 600, b"d" * 700, b"e"]],
        ),
        ([ids([1, 2]), ids([3, 4, 5]), ids([6, 7])], [[[1, 2], [6, 7]], [[3, 4, 5]]]),
        (
            [text("a", signature="entities"), text("b", signature="entities")],
            [[b"a"], [b"b"]],
        ),
        ([text("a"), {"inputs": []}, text("b")], [[b"a", b"b"], []]),
    ],
    ids=["signatures", "lengths", "shapes", "outputs of any width", "no rows"],
)
def test_only_similar_requests_share_a_call(bodies, expected, start):
    futures, calls = ask(start(), *bodies)
    assert [rows for _, rows in calls] == expected
    for future, body in zip(futures, bodies, strict=True):
        signature = body.get("signature_name", "serving_default")
        rows = body.get("instances", [])
        rows = [row.encode() if isinstance(row, str) else row for row in rows]
        (answers,) = json.loads(future.result()).values()
        assert answers == [f"{signature} {row}" for row in rows]


@pytest.mark.parametrize(
    ("limits", "bodies", "expected"),
    [
        ({"batch_rows": 1}, [["a"], ["b", "c"], ["d"]], [1, 2, 1]),
        ({"batch_rows": 3}, [["a"], ["b", "c"], ["d"], ["e"]], [3, 2]),
        ({"batch_rows": 3}, [["a"], ["b"] * 5, ["c"]], [2, 5]),
        ({}, [["a" * 6000], ["b" * 6000], ["c" * 6000]], [2, 1]),
        # Each body has 57 bytes.
        ({"body_bytes": 130}, [["a"], ["b"], ["c"]], [2, 1]),
    ],
    ids=["off", "rows", "one request", "characters", "bytes"],
)
def test_batches_are_bounded(limits, bodies, expected, start):
    _, calls = ask(start(**limits), *(text(*rows) for rows in bodies))
    assert [len(rows) for _, rows in calls] == expected


def test_the_oldest_request_is_computed_next(start):
    bodies = [text("b" * 600), text("a"), text("c", signature="serve_document")]
    _, calls = ask(start(), *bodies, *bodies)
    assert [rows[0] for _, rows in calls] == [b"b" * 600, b"a", b"c"]


def test_cancelled_requests_are_not_computed(start):
    batches, model = start()
    cancelled = [submit(batches, body) for body in (text("a"), b"{", text("b"))]
    assert all(future.cancel() for future in cancelled)
    _, calls = ask((batches, model), text("c"))
    assert calls == [("serving_default", [b"c"])]


def test_requests_of_many_threads_have_their_own_answers(start):
    batches, model = start()
    model.released.set()
    names = [str(number) for number in range(300)]
    with ThreadPoolExecutor(8) as threads:
        futures = threads.map(lambda name: submit(batches, text(name)), names)
        answers = [json.loads(future.result(60)) for future in futures]
    expected = [f"serving_default {name.encode()}" for name in names]
    assert answers == [{"predictions": [each]} for each in expected]
    rows = sorted(row for _, rows in model.calls for row in rows)
    assert rows == sorted([b"first", *(name.encode() for name in names)])
