"""All tasks in ONNX Runtime return the numbers of `predict` for ids."""

import numpy as np
import pytest

from tests.exports.served_models import make_task
from tests.exports.token_cases import (
    CASES,
    assert_as_predicted,
    check_missing_choices,
    check_numbers,
    check_scores,
    random_ids,
    wrong_ids,
)

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from tests.exports.onnx.onnx_sessions import export, run
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except(
    "test_gives_the_numbers_of_predict[filler]",
    "test_gives_the_numbers_of_predict[doubter]",
    "test_gives_the_numbers_of_predict[chooser]",
)


@pytest.mark.parametrize("case", CASES)
def test_gives_the_numbers_of_predict(case, tiny_proto, tmp_path):
    name, arguments, *_ = CASES[case]
    task = make_task(name, tiny_proto, **arguments)
    session = export(task, tmp_path)
    found, inputs = check_numbers(case, task, lambda inputs: run(session, inputs))
    # Any number of rows, including none.
    none = run(session, {key: rows[:0] for key, rows in inputs.items()})
    for output, array in found.items():
        assert none[output].shape == (0, *array.shape[1:])


@pytest.mark.parametrize("case", ["exits", "filler"])
def test_another_depth_is_exported(case, tiny_proto, tmp_path):
    exits = ("Classifier", {"num_classes": 3, "exits": True}, ["logits"], (3, 9), {})
    name, arguments, (output,), shape, extra = (CASES | {"exits": exits})[case]
    task = make_task(name, tiny_proto, **arguments)
    inputs = random_ids(task, shape, extra)
    predicted = [task.predict(inputs, num_layers=n, verbose=0) for n in (1, 2)]
    assert np.abs(predicted[1] - predicted[0]).max() > 5e-2
    task.save_to_preset(tmp_path / "preset")
    for num_layers, expected in enumerate(predicted, 1):
        loaded = type(task).from_preset(tmp_path / "preset", num_layers=num_layers)
        session = export(loaded, tmp_path)
        assert_as_predicted(run(session, inputs)[output], expected)


def test_what_clients_read_follows_from_the_numbers(tiny_proto, tmp_path):
    task = make_task("Classifier", tiny_proto, num_classes=4)
    check_scores(run(export(task, tmp_path), random_ids(task, (5, 7))))


def test_a_question_without_choices_has_none(tiny_proto, tmp_path):
    task = make_task("MultipleChoice", tiny_proto)
    session = export(task, tmp_path)
    check_missing_choices(task, lambda inputs: run(session, inputs))


def test_a_row_that_is_too_long_is_an_error(tiny_proto, tmp_path):
    task = make_task("TextEmbedder", tiny_proto)
    session = export(task, tmp_path)
    with pytest.raises(Exception, match=r"out of data bounds|40 by 41"):
        run(session, random_ids(task, (1, 41)))


def test_ids_of_another_kind_are_an_error(tiny_proto, tmp_path):
    task = make_task("Classifier", tiny_proto, num_classes=2)
    inputs = random_ids(task, (3, 7))
    session = export(task, tmp_path)
    for wrong, message in (
        (inputs["token_ids"].astype(np.float32), "Unexpected input data type"),
        (inputs["token_ids"][0], "Invalid rank"),
        (inputs["token_ids"][:2], "Add node|Gather node|Less node"),
        (inputs["token_ids"] + 10**6, "out of data bounds"),
    ):
        with pytest.raises(Exception, match=message):
            run(session, inputs | {"token_ids": wrong})
    with pytest.raises(ValueError, match="missing from input feed"):
        run(session, {"token_ids": inputs["token_ids"]})
    assert len(run(session, inputs)["index"]) == 3


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_an_id_without_an_embedding_is_an_error(quantize, tiny_proto, tmp_path):
    """ONNX itself counts negative indices from the end."""
    task = make_task("MaskedLM", tiny_proto)
    inputs = random_ids(task, *CASES["filler"][3:])
    session = export(task, tmp_path, quantize=quantize)
    for wrong in wrong_ids(inputs):
        with pytest.raises(Exception, match=r"out of data bounds|Out of range"):
            run(session, wrong)


# OpenVINO starts a process; JAX warns of it if another test has imported it.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
# The others have the same operations.
@pytest.mark.parametrize("case", ["labels", "weighted", "doubter", "chooser", "filler"])
def test_openvino_computes_the_same(case, tiny_proto, tmp_path):
    openvino = pytest.importorskip("openvino")
    name, arguments, outputs, shape, extra = CASES[case]
    task = make_task(name, tiny_proto, **arguments)
    inputs = random_ids(task, shape, extra)
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    # Quantized numbers may be rounded differently.
    for quantize, atol in ((None, 1e-5), ("int8", 0.1)):
        expected = run(export(task, tmp_path, quantize=quantize), inputs)
        path = tmp_path / "model.onnx"
        found = openvino.Core().compile_model(path, "CPU", settings)(inputs)
        for output in outputs:
            np.testing.assert_allclose(found[output], expected[output], atol=atol)
