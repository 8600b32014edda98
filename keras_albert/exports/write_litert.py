"""A program that writes the LiteRT model of a preset.

KERAS_BACKEND=tensorflow python -m keras_albert.exports.write_litert FROM TO OPTIONS

The model takes ids and returns numbers, under the names of the ONNX export.
"""

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_albert.exports.litert import add_metadata
from keras_albert.exports.shared import row_of
from keras_albert.tasks.presets import load_saved_task
from keras_albert.tasks.task import AlbertTask

Tensors = dict[str, Any]


def write_litert(
    preset: str,
    target: str,
    sequence_length: int | None,
    quantize: str | None,
    bundle: dict[str, Any] | None = None,
) -> None:
    """Write the LiteRT model of a preset."""
    task = load_saved_task(preset)
    # Layers as a loop: the converter writes unrolled layers out in full, and a
    # runtime packs the weights again for each of them. MediaPipe reads no loops.
    task.backbone.encoder.unroll = bundle is not None
    module = tf.Module()
    module.weights = [variable.value for variable in task.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [_make_function(task, sequence_length, bundle).get_concrete_function()], module
    )
    if quantize is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    model = converter.convert()
    if bundle is not None:
        model = add_metadata(model, bundle["has_labels"])
    Path(target).write_bytes(model)


def _make_function(
    task: AlbertTask, sequence_length: int | None, bundle: dict[str, Any] | None
) -> Any:
    ranks = {name: len(spec.shape) for name, spec in task.input.items()}
    # The model fills in its most likely starts.
    has_starts = ranks.pop("start_positions", None) is not None
    rows = None if bundle is None else 1
    specs = {
        name: tf.TensorSpec(
            (*[rows] * (rank - 1), None if name in _PLACES else sequence_length),
            tf.int32,
            name,
        )
        for name, rank in ranks.items()
    }

    def serve(ids: Tensors) -> Tensors:
        # Keras counts negative ids from the end; LiteRT fails for too large ones.
        ids = {name: tf.where(x < 0, x.dtype.max, x) for name, x in ids.items()}
        if has_starts:
            rows = tf.shape(ids["token_ids"])[0]
            unknown = tf.fill(tf.stack([rows, task.start_n_top]), -1)
            ids = {**ids, "start_positions": unknown}
        if bundle is not None and bundle["max_length"] is not None:
            ids = _truncate(ids, **bundle)
        outputs = name_outputs(task, ids, task(ids, training=False))
        return outputs if bundle is None else {"output": outputs[bundle["output"]]}

    return tf.function(serve, input_signature=[specs])


def _truncate(ids: Tensors, max_length: int, sep: int, **_: Any) -> Tensors:
    """Keep the first tokens and the separator, as the preprocessor does."""
    ids = {name: x[:, :max_length] for name, x in ids.items()}
    tokens = ids["token_ids"]
    last = tf.range(tf.shape(tokens)[1]) == max_length - 1
    return {**ids, "token_ids": tf.where(last, sep, tokens)}


# Inputs that are not rows of tokens.
_PLACES = frozenset({"mask_positions"})


def name_outputs(task: AlbertTask, ids: Tensors, outputs: Any) -> Tensors:
    """Return the outputs for ids, and what follows from them, by name."""
    match row_of(task).outputs:
        case None:
            return outputs
        case "classes" if task.is_regression:
            return {"score": outputs[:, 0]}
        case "classes" | "tags":
            is_logits = task.outputs_are_logits is not False
            chances = tf.nn.softmax(outputs) if is_logits else outputs
            return {
                **({"logits": outputs} if is_logits else {}),
                "probabilities": chances,
                "score": tf.reduce_max(chances, axis=-1),
                "index": tf.argmax(chances, axis=-1, output_type=tf.int32),
            }
        case "choices":
            is_present = tf.reduce_any(ids["padding_mask"] != 0, axis=-1)
            scores = tf.where(is_present, tf.nn.softmax(outputs), 0.0)
            # An argmax over no choices is undefined.
            padded = tf.pad(scores, [[0, 0], [0, 1]], constant_values=-1.0)
            best = tf.argmax(padded, axis=-1, output_type=tf.int32)
            index = tf.where(tf.reduce_any(is_present, axis=-1), best, -1)
            return {"logits": outputs, "scores": scores, "index": index}
        case name:
            return {name: outputs}


if __name__ == "__main__":
    source, destination, options = sys.argv[1:]
    write_litert(source, destination, **json.loads(options))
