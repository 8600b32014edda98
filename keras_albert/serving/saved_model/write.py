"""A program that writes the SavedModels of presets.

KERAS_BACKEND=tensorflow python -m keras_albert.serving.saved_model.write \
    FROM TO OPTIONS ...
"""

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_albert.serving.exportable_tasks import graph_class
from keras_albert.serving.saved_model.warm_up import WARM_UP_FILE, write_warm_up
from keras_albert.tasks.base.presets import load_saved_task
from keras_albert.utils.packages import versions


def write_saved_model(
    preset: str,
    target: str,
    max_length: int | None = None,
    top_k: int | None = None,
    manifest: dict[str, Any] | None = None,
) -> None:
    """Write the SavedModel of a preset.

    Args:
        preset: string. A directory that `save_to_preset` wrote.
        target: string. The directory to write.
        max_length: int or `None`. Maximum number of tokens in a row. Defaults to
            `None`, the preprocessor's value.
        top_k: int or `None`. See `TaskGraph`. Defaults to `None`.
        manifest: dict or `None`. Description of the model from the exporting process.
            Defaults to `None`, nothing.
    """
    task = load_saved_task(preset)
    if max_length is not None:
        task.preprocessor.sequence_length = None
        task.preprocessor.max_sequence_length = max_length
    graph = graph_class(task, "tf_saved_model")(task, top_k)
    signatures = graph.signatures()
    tf.saved_model.save(graph.module, target, signatures=signatures)
    folder = Path(target, "assets.extra")
    folder.mkdir()
    described = (manifest or {}) | {
        "signatures": {
            name: _describe(function) for name, function in signatures.items()
        },
        "written_with": versions("tensorflow", "tensorflow-text"),
    }
    text = json.dumps(described, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    if hasattr(task, "class_names"):
        lines = "".join(f"{name}\n" for name in task.class_names)
        (folder / "labels.txt").write_text(lines, encoding="utf-8")
    longest = task.preprocessor.max_length
    write_warm_up(folder / WARM_UP_FILE, signatures, longest, graph.special)


def _describe(function: Any) -> dict[str, Any]:
    concrete = function.get_concrete_function()
    return {
        "inputs": {spec.name: _shape_of(spec) for spec in function.input_signature},
        "outputs": {
            name: _shape_of(tensor)
            for name, tensor in concrete.structured_outputs.items()
        },
    }


def _shape_of(spec: Any) -> dict[str, Any]:
    return {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}


if __name__ == "__main__":
    rows = zip(sys.argv[1::3], sys.argv[2::3], sys.argv[3::3], strict=True)
    for source, destination, options in rows:
        write_saved_model(source, destination, **json.loads(options))
