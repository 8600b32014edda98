"""The LiteRT graphs of tasks: ids to numbers, with the ONNX export's names."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_albert.tasks.classification.model import AlbertClassifier
from keras_albert.tasks.masked_lm.model import AlbertMaskedLM
from keras_albert.tasks.multiple_choice.model import AlbertMultipleChoice
from keras_albert.tasks.question_answering.model import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedding.model import AlbertTextEmbedder
from keras_albert.tasks.token_classification.model import AlbertTokenClassifier

Tensors = dict[str, Any]


class LitertGraph:
    """A task as a TensorFlow function of ids, for conversion.

    Attributes:
        module: `tf.Module` with everything to store.
        function: The function, with a signature of int32 inputs.

    Args:
        task: A task of the TensorFlow backend, in float32.
        sequence_length: int or `None`. Tokens in a row; `None` for any number.
    """

    def __init__(self, task: Any, sequence_length: int | None) -> None:
        self.task = task
        # Layers as a loop: the converter writes unrolled layers out in full, and a
        # runtime packs the weights again for each of them.
        task.backbone.encoder.unroll = False
        self.module = tf.Module()
        self.module.weights = [variable.value for variable in task.variables]
        ranks = {name: len(spec.shape) for name, spec in task.input.items()}
        # The model fills in its most likely starts.
        ranks.pop("start_positions", None)
        specs = {
            name: tf.TensorSpec(
                (*[None] * (rank - 1), None if name in _PLACES else sequence_length),
                tf.int32,
                name,
            )
            for name, rank in ranks.items()
        }
        self.function = tf.function(self._serve, input_signature=[specs])

    def _serve(self, ids: Tensors) -> Tensors:
        # Keras counts negative ids from the end; LiteRT fails for too large ones.
        ids = {name: tf.where(x < 0, x.dtype.max, x) for name, x in ids.items()}
        if "start_positions" in self.task.input:
            rows = tf.shape(ids["token_ids"])[0]
            unknown = tf.fill(tf.stack([rows, self.task.start_n_top]), -1)
            ids = {**ids, "start_positions": unknown}
        outputs = self.task(ids, training=False)
        name = _NAMES.get(type(self.task))
        return name(self.task, ids, outputs) if name else outputs


# Inputs that are not rows of tokens.
_PLACES = frozenset({"mask_positions"})


def _classify(task: Any, _: Tensors, outputs: Any) -> Tensors:
    if task.is_regression:
        return {"score": outputs[:, 0]}
    if not task.gives_logits:
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
    AlbertQuestionAnswerer: lambda _, __, outputs: outputs,
    AlbertTextEmbedder: lambda _, __, outputs: {"embedding": outputs},
    AlbertTokenClassifier: _tag,
}
