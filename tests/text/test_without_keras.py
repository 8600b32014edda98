"""`keras_albert.text` in an environment with neither Keras nor a backend."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import keras_albert

TEXTS = ["the quick fox jumped over the lazy dog", "a [MASK]."]
OPTIONS = {
    "Classifier": (TEXTS, {}),
    "MaskedLM": (TEXTS, {}),
    "MultipleChoice": ((TEXTS, [["a", "b"], ["c"]]), {"max_qa_length": 4}),
    "QuestionAnswerer": (
        *((["who?"] * 2, TEXTS), {"doc_stride": 3, "max_query_length": 8}),
    ),
    "TokenClassifier": (TEXTS, {}),
}


def test_programs_return_the_batches_of_the_preprocessors():
    program = Path(__file__).parent / "without_keras.py"
    folder = Path(keras_albert.__file__).parent
    preset = folder / "presets" / "albert_tiny_en_uncased"
    run = subprocess.run(
        [sys.executable, "-I", program, folder, preset, *TEXTS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found.keys() == OPTIONS.keys()
    for name, (x, options) in OPTIONS.items():
        cls = getattr(keras_albert, f"Albert{name}Preprocessor")
        preprocessor = cls.from_preset(preset, max_sequence_length=9, **options)
        examples, _ = preprocessor.encode_for("prediction", x)
        rows = np.arange(len(examples))
        batch = examples.pack(rows, int(examples.lengths.max()))
        assert {key: ids.tolist() for key, ids in batch[0].items()} == found[name]
