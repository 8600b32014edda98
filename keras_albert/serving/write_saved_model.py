"""Run as a program: write the SavedModel of a preset.

KERAS_BACKEND=tensorflow python -m keras_albert.serving.write_saved_model FROM TO
"""

import sys

import tensorflow as tf

from keras_albert.serving.classifier_graph import ClassifierGraph
from keras_albert.tasks.classifier import AlbertClassifier


def write_saved_model(preset: str, target: str) -> None:
    """Write the SavedModel of a preset.

    Args:
        preset: string. A directory that `save_to_preset` wrote.
        target: string. The directory to write.
    """
    graph = ClassifierGraph(AlbertClassifier.from_preset(preset))
    signatures = graph.signatures
    # They are arguments of `save`; as an attribute they would be tracked too.
    del graph.signatures
    tf.saved_model.save(graph, target, signatures=signatures)


if __name__ == "__main__":
    write_saved_model(*sys.argv[1:])
