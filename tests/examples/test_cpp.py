"""The C++ example answers as Python does, from strings."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serving.served_models import make_task
from tests.word_pieces import word_proto

SOURCE = Path(__file__).parents[2] / "examples" / "cpp" / "classify.cpp"
# A folder with `include` and `lib` of ONNX Runtime, as in its releases.
HOME = "ONNXRUNTIME_HOME"
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
@pytest.mark.skipif(
    HOME not in os.environ, reason=f"needs {HOME}, ONNX Runtime for C++"
)
def test_answers_are_pythons(tmp_path):
    pytest.importorskip("onnxscript")
    home, program = Path(os.environ[HOME]), tmp_path / "classify"
    options = ["-std=c++17", f"-I{home}/include", f"-L{home}/lib", "-lonnxruntime"]
    subprocess.run(
        [compiler, SOURCE, *options, f"-Wl,-rpath,{home}/lib", "-o", program],
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
