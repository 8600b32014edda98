"""Loads checkpoints, each within a limit of memory, and says what came of it."""

import resource
import traceback
import warnings
from hashlib import sha256
from pathlib import Path

import keras

from keras_albert import AlbertClassifier
from keras_albert.checkpoints.weight_map import variables_by_path
from tests.property.programs import answer_lines

# What a load may take beside what the process has; the checkpoints have 400 kB.
ROOM = 2**30
TEXTS = ["In 2011, the old café", "[MASK] 漢字 \u0301", "", "eeeee " * 9]


def load(directory):
    """Give the error, or all that a user could tell two models apart by."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            task = AlbertClassifier.from_preset(directory)
        except (ValueError, OSError) as error:
            return {"refused": str(error)}
        outputs = task.predict(TEXTS, verbose=0)
        config = keras.saving.serialize_keras_object(task)["config"]
        return {
            "outputs": keras.ops.convert_to_numpy(outputs).astype(float).tolist(),
            "weights": {
                path: keras.ops.convert_to_numpy(value).astype("float32").tolist()
                for path, value in variables_by_path(task).items()
            },
            "vocabulary": sha256(task.preprocessor.tokenizer.proto).hexdigest(),
            "config": _without_names(config),
            "labels": task.labels,
            "warned": [str(warning.message) for warning in warned],
        }


def answer(directory):
    status = Path("/proc/self/status").read_text(encoding="ascii")
    used = int(status.split("VmSize:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, resource.RLIM_INFINITY))
    try:
        return load(directory)
    except BaseException:
        return {"raw": traceback.format_exc()[-4000:]}
    finally:
        keras.utils.clear_session()


def _without_names(config):
    """A config, but for what layers are called."""
    if isinstance(config, dict):
        return {k: _without_names(v) for k, v in config.items() if k != "name"}
    if isinstance(config, list | tuple):
        return [_without_names(value) for value in config]
    return config


if __name__ == "__main__":
    answer_lines(answer)
