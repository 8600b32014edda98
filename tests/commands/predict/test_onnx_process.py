import os
import signal
import subprocess
import sys

import pytest

_PREDICTS = """
import sys, time
from pathlib import Path
from keras_albert.commands.predict import onnx_process
onnx_process._PROGRAM = Path(sys.argv[1])
process = onnx_process.OnnxProcess(Path("model.onnx"))
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    process.close()
    print("stopped", file=sys.stderr)
"""
_ANSWERS = """
import sys
print('{"columns": [], "numbers": [], "metadata": {}}', flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_ctrl_c_is_not_for_the_process_of_the_model(tmp_path):
    pytest.importorskip("onnxruntime")
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "program.py").write_text(start + _ANSWERS)
    with subprocess.Popen(
        [sys.executable, "-c", start + _PREDICTS, tmp_path / "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        # As a terminal does it: all of the group at once.
        os.killpg(process.pid, signal.SIGINT)
        *_, last = process.stderr.read().splitlines()
    assert last == "stopped"
    assert process.returncode == 0
