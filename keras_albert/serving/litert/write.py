"""A program that writes the LiteRT model of a preset.

KERAS_BACKEND=tensorflow python -m keras_albert.serving.litert.write FROM TO OPTIONS

The model takes ids and returns numbers, under the names of the ONNX export.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_albert.tasks.base.presets import load_saved_task
from keras_albert.tasks.classification.model import AlbertClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.text_embedding import AlbertTextEmbedder
from keras_albert.tasks.token_classification.model import AlbertTokenClassifier

Tensors = dict[str, Any]


def write_litert(
    preset: str, target: str, sequence_length: int | None, quantize: str | None
) -> None:
    """Write the LiteRT model of a preset."""
    task = load_saved_task(preset)
    # Layers as a loop: the converter writes unrolled layers out in full, and a
    # runtime packs the weights again for each of them.
    task.backbone.encoder.unroll = False
    module = tf.Module()
    module.weights = [variable.value for variable in task.variables]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [_make_function(task, sequence_length).get_concrete_function()], module
    )
    if quantize is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    Path(target).write_bytes(converter.convert())


def _make_function(task: Any, sequence_length: int | None) -> Any:
    """Make the task's function of int32 ids."""
    ranks = {name: len(spec.shape) for name, spec in task.input.items()}
    # The model fills in its most likely starts.
    has_starts = ranks.pop("start_positions", None) is not None
    specs = {
        name: tf.TensorSpec(
            (*[None] * (rank - 1), None if name in _PLACES else sequence_length),
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
        outputs = task(ids, training=False)
        name = _NAMES.get(type(task))
        return name(task, ids, outputs) if name else outputs

    return tf.function(serve, input_signature=[specs])


# Inputs that are not rows of tokens.
_PLACES = frozenset({"mask_positions"})


def _classify(task: Any, _: Tensors, outputs: Any) -> Tensors:
    if task.is_regression:
        return {"score": outputs[:, 0]}
    if not task.returns_logits:
        return _likeliest(outputs)
    return {"logits": outputs, **_likeliest(tf.nn.softmax(outputs))}


def _likeliest(probabilities: Any) -> Tensors:
    return {
        "probabilities": probabilities,
        "score": tf.reduce_max(probabilities, axis=-1),
        "index": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
    }


def _tag(_: Any, __: Tensors, outputs: Any) -> Tensors:
    return {"logits": outputs, **_likeliest(tf.nn.softmax(outputs))}


def _choose(_: Any, ids: Tensors, outputs: Any) -> Tensors:
    is_present = tf.reduce_any(ids["padding_mask"] != 0, axis=-1)
    scores = tf.where(is_present, tf.nn.softmax(outputs), 0.0)
    best = tf.argmax(scores, axis=-1, output_type=tf.int32)
    has_choice = tf.reduce_any(is_present, axis=-1)
    index = tf.where(has_choice, best, -1)
    return {"logits": outputs, "scores": scores, "index": index}


# Tasks that are not listed return named outputs already.
_NAMES: dict[type[Any], Callable[[Any, Tensors, Any], Tensors]] = {
    AlbertClassifier: _classify,
    AlbertMaskedLM: lambda _, __, outputs: {"logits": outputs},
    AlbertMultipleChoice: _choose,
    AlbertTextEmbedder: lambda _, __, outputs: {"embedding": outputs},
    AlbertTokenClassifier: _tag,
}


if __name__ == "__main__":
    source, destination, options = sys.argv[1:]
    write_litert(source, destination, **json.loads(options))
