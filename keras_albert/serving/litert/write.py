"""A program that writes the LiteRT models of presets.

KERAS_BACKEND=tensorflow python -m keras_albert.serving.litert.write FROM TO OPTIONS ...
"""

import json
import sys
from pathlib import Path

import tensorflow as tf

from keras_albert.serving.litert.graph import LitertGraph
from keras_albert.tasks.base.presets import load_saved_task


def write_litert(
    preset: str, target: str, sequence_length: int | None, quantize: str | None
) -> None:
    """Write the LiteRT model of a preset.

    Args:
        preset: string. A directory that `save_to_preset` wrote.
        target: string. The file to write.
        sequence_length: int or `None`. Tokens in a row; `None` for any number.
        quantize: `"dynamic_int8"`, `"fp16"` or `None`.
    """
    graph = LitertGraph(load_saved_task(preset), sequence_length)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [graph.function.get_concrete_function()], graph.module
    )
    if quantize is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "fp16":
        converter.target_spec.supported_types = [tf.float16]
    Path(target).write_bytes(converter.convert())


if __name__ == "__main__":
    for source, destination, options in zip(*[iter(sys.argv[1:])] * 3, strict=True):
        write_litert(source, destination, **json.loads(options))
