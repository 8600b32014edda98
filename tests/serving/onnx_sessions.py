"""Running exported models in ONNX Runtime."""

import numpy as np
import onnxruntime
import onnxruntime_extensions


def open_session(path):
    """Load a model, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # 3: errors alone.
    options.log_severity_level = 3
    options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def run(session, inputs):
    """Give the outputs by name; lists of strings become arrays."""
    feed = {
        name: np.array(rows, object) if isinstance(rows, list) else rows
        for name, rows in inputs.items()
    }
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def export(task, folder, **kwargs):
    """Export a task, and load what was written."""
    path = folder / "model.onnx"
    task.export(path, format="onnx", overwrite=True, **kwargs)
    return open_session(path)


def random_ids(task, shape, extra=None):
    """Make inputs whose rows end in padding, each at another place."""
    random = np.random.default_rng(3)
    lengths = random.integers(3, shape[-1] + 1, (*shape[:-1], 1))
    lengths.flat[0] = shape[-1]
    mask = (np.arange(shape[-1]) < lengths).astype(np.int32)
    ids = random.integers(5, task.backbone.vocabulary_size, shape)
    second = (np.arange(shape[-1]) >= lengths // 2).astype(np.int32)
    inputs = {
        "token_ids": ids.astype(np.int32) * mask,
        "segment_ids": second * mask,
        "padding_mask": mask,
    }
    return inputs | (extra or {})
