"""The C++ example answers as Python does, from strings."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.exports.served_models import make_task
from tests.word_pieces import word_proto

SOURCE = Path(__file__).parents[2] / "examples" / "cpp" / "classify.cpp"
# The folder with `include` and `lib` of ONNX Runtime: of one of its releases, or of
# Debian's package libonnxruntime-dev.
HOME = Path(os.environ.get("ONNXRUNTIME_HOME", "/usr"))
HEADERS = list((HOME / "include").rglob("onnxruntime_cxx_api.h"))
TEXTS = [
    "The river RUNS through town",
    "and captain said - not today, wind. [comes]",
    "Ünder the “café”, naïve… 漢字 x\tß",
    "",
    "a" * 120,
    "wind comes in " * 60,
]

compiler = shutil.which("g++")


@pytest.mark.skipif(compiler is None, reason="there is no g++")
@pytest.mark.skipif(not HEADERS, reason="no libonnxruntime-dev, nor ONNXRUNTIME_HOME")
def test_answers_are_pythons(tmp_path):
    pytest.importorskip("onnxscript")
    program = tmp_path / "classify"
    options = ["-std=c++17", f"-I{HEADERS[0].parent}", f"-L{HOME}/lib", "-lonnxruntime"]
    subprocess.run(
        [compiler, SOURCE, *options, f"-Wl,-rpath,{HOME}/lib", "-o", program],
        check=True,
    )
    task = make_task("Classifier", word_proto(), labels=("bad", "très bien"))
    folder = task.export(tmp_path / "model", format="transformers_onnx")

    def run(texts):
        return subprocess.run(
            [program, folder],
            input="".join(f"{text}\n" for text in texts),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    rows = [row.split("\t") for row in run(TEXTS).stdout.splitlines()]
    expected = task.classify(TEXTS)
    assert [label for label, _ in rows] == [answer["label"] for answer in expected]
    for (_, score), answer in zip(rows, expected, strict=True):
        assert float(score) == pytest.approx(answer["score"], abs=1e-5)
    refused = run(["река"])
    assert refused.returncode == 1
    assert "Not read by this example" in refused.stderr
