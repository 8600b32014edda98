"""Run as a program: write the SavedModels of presets.

KERAS_BACKEND=tensorflow python -m keras_albert.serving.write_saved_model FROM TO ...
"""

import json
import sys
from pathlib import Path
from typing import Any

import keras
import keras_hub
import tensorflow as tf
import tensorflow_text as tf_text

import keras_albert
from keras_albert.serving.served_tasks import graph_class


def write_saved_model(preset: str, target: str) -> None:
    """Write the SavedModel of a preset.

    Args:
        preset: string. A directory that `save_to_preset` wrote.
        target: string. The directory to write.
    """
    # By the task's own class, of which there may be several for one backbone.
    config = json.loads(Path(preset, "task.json").read_text(encoding="utf-8"))
    task_class: Any = keras.saving.get_registered_object(config["registered_name"])
    task = task_class.from_preset(preset)
    graph = graph_class(task, "tf_saved_model")(task)
    signatures = graph.signatures()
    tf.saved_model.save(graph.module, target, signatures=signatures)
    write_extra(task, signatures, Path(target, "assets.extra"))


def write_extra(task: Any, signatures: dict[str, Any], folder: Path) -> None:
    """Write what people want to know of a model, and a server ignores.

    Args:
        task: The task.
        signatures: Its functions by name.
        folder: Path. `assets.extra` of the SavedModel.
    """
    folder.mkdir()
    manifest = {
        "task": type(task).__name__,
        "signatures": {
            name: _describe(function) for name, function in signatures.items()
        },
        "max_length": task.preprocessor.max_length,
        "parameters": task.count_params(),
        "versions": {
            package.__name__: package.__version__
            for package in (keras_albert, keras, keras_hub, tf, tf_text)
        },
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    if hasattr(task, "class_names"):
        lines = "".join(f"{name}\n" for name in task.class_names)
        (folder / "labels.txt").write_text(lines, encoding="utf-8")


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
    for source, destination in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        write_saved_model(source, destination)
