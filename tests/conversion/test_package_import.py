import subprocess
import sys

_SCRIPT = """
import sys
import keras_albert
from keras_albert.presets import checkpoint_formats
assert len(checkpoint_formats._FORMATS) >= 2
slow = {"transformers", "safetensors", "huggingface_hub", "kagglehub", "h5py"}
before = {"h5py", "huggingface_hub", "kagglehub"}  # what KerasHub itself imports
print(sorted((slow - before) & set(sys.modules)))
"""


def test_importing_the_package_registers_formats_and_imports_nothing_slow():
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
