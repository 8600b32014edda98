"""The file that the ONNX export writes, and its errors."""

import json

import pytest

from tests.exports.served_models import make_task

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    return make_task("Classifier", tiny_proto, labels=("bad", "très bien"))


def test_a_file_says_what_it_is(classifier, tmp_path):
    path = classifier.export(tmp_path / "new" / "model.onnx")
    assert path == tmp_path / "new" / "model.onnx"
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 20}
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["task"] == "AlbertClassifier"
    assert metadata["inputs"] == "tokens"
    assert json.loads(metadata["labels"]) == ["bad", "très bien"]
    assert json.loads(metadata["vocabulary_size"]) == 130
    assert json.loads(metadata["max_length"]) == 40
    assert json.loads(metadata["parameters"]) == classifier.count_params()
    assert "keras" in json.loads(metadata["versions"])
    axes = {
        value.name: [axis.dim_param or axis.dim_value for axis in dims]
        for value in [*model.graph.input, *model.graph.output]
        for dims in [value.type.tensor_type.shape.dim]
    }
    assert axes == {
        "token_ids": ["batch", "length"],
        "segment_ids": ["batch", "length"],
        "padding_mask": ["batch", "length"],
        "logits": ["batch", 2],
        "probabilities": ["batch", 2],
        "score": ["batch"],
        "index": ["batch"],
    }


def test_a_file_that_is_there_stays(classifier, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        classifier.export(path, format="onnx")
    assert path.read_text() == "mine"
    classifier.export(path, format="onnx", overwrite=True)
    onnx.checker.check_model(onnx.load(path))
    with pytest.raises(IsADirectoryError, match="Choose another path"):
        classifier.export(tmp_path, format="onnx", overwrite=True)
