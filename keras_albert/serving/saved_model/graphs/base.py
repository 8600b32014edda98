"""The base class of all served TensorFlow graphs."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from keras_albert.tasks.inputs.preprocessed_inputs import ID_NAMES
from keras_albert.text.packing import pack_in_graph

# A server pads strings with "", and numbers with zero.
_NOTHING = {tf.string: "", tf.int32: 0, tf.float32: 0.0}


class TaskGraph:
    """A task as TensorFlow functions from strings to predictions.

    Subclasses define the functions (`signatures`). Every output is an int32, float32 or
    string tensor with the batch as its first axis, as required by servers that combine
    requests into batches.
    """

    def __init__(self, task: Any, top_k: int | None = None) -> None:
        self.task = task
        self.top_k = top_k
        self.preprocessor = task.preprocessor
        self.special = task.preprocessor.special_ids
        self.tokenizer = task.preprocessor.tokenizer.vocabulary.graph_tokenizer()
        # Everything to save beside the functions. Saving the Keras model itself would
        # write each weight twice.
        self.module = tf.Module()
        self.module.weights = [variable.value for variable in task.variables]
        self.module.tokenizer = self.tokenizer

    def signatures(self) -> dict[str, Any]:
        """Return the served functions by name."""
        raise NotImplementedError

    def run(self, inputs: dict[str, Any]) -> Any:
        """Run the model."""
        return self.task(inputs, training=False)

    def pack(self, *texts: Any) -> dict[str, Any]:
        """Pack each text or pair into a row, padded to the longest."""
        return pack_in_graph(
            tuple(self.tokenizer.tokenize(text) for text in texts),
            self.special,
            self.preprocessor.max_length,
            getattr(self.preprocessor, "truncate", "round_robin"),
        )

    def tokens_signature(
        self, answer: Callable[[dict[str, Any]], dict[str, Any]], rank: int = 2
    ) -> Any:
        """Make the served function that takes ids instead of strings."""
        specs = [tf.TensorSpec((None,) * rank, tf.int32, name) for name in ID_NAMES]

        def serve_tokens(
            token_ids: Any, segment_ids: Any, padding_mask: Any
        ) -> dict[str, Any]:
            token_ids, segment_ids, padding_mask = check_rows(
                (token_ids, segment_ids, padding_mask), specs
            )
            fits = tf.debugging.assert_less_equal(
                tf.shape(token_ids)[-1],
                self.task.backbone.max_sequence_length,
                "`token_ids` has more tokens than the model reads. Truncate its rows.",
            )
            known = [
                check_ids(token_ids, "token_ids", self.task.backbone.vocabulary_size),
                check_ids(
                    segment_ids, "segment_ids", max(2, self.task.backbone.num_segments)
                ),
            ]
            # Otherwise an operation of the model may fail first, with a less clear
            # message.
            with tf.control_dependencies([fits, *known]):
                token_ids = tf.identity(token_ids)
            # A server pads a ragged batch with each row's first element, so that the
            # padded part of the mask is 1.
            is_real = tf.cast(token_ids != self.special.pad, tf.int32)
            return answer(
                {
                    "token_ids": token_ids,
                    "segment_ids": segment_ids,
                    "padding_mask": is_real * padding_mask,
                }
            )

        return tf.function(serve_tokens, input_signature=specs, autograph=False)


def text_signature(
    function: Callable[..., dict[str, Any]],
    numbers: Mapping[str, Any] | None = None,
    **ranks: int,
) -> Any:
    """Make a served function of strings, by rank, and of scalars, by dtype."""
    specs = [
        tf.TensorSpec((None,) * rank, tf.string, name) for name, rank in ranks.items()
    ]

    scalars = [
        tf.TensorSpec((), dtype, name) for name, dtype in (numbers or {}).items()
    ]

    @functools.wraps(function)
    def serve(*inputs: Any) -> dict[str, Any]:
        texts, values = inputs[: len(specs)], inputs[len(specs) :]
        return function(*check_rows(texts, specs), *values)

    # TensorFlow passes inputs by name only if the parameters have names.
    serve.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(spec.name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for spec in (*specs, *scalars)
        ]
    )
    return tf.function(serve, input_signature=[*specs, *scalars], autograph=False)


def check_rows(tensors: Sequence[Any], specs: Sequence[Any]) -> list[Any]:
    """Check at run time that tensors have the right rank and equal numbers of rows.

    A server checks dtypes only, and some operations of tensorflow-text read beyond the
    end of a shorter input, which crashes the process. Returns what to use instead.
    """
    tensors = [
        tf.ensure_shape(tensor, spec.shape)
        for tensor, spec in zip(tensors, specs, strict=True)
    ]
    counts = [tf.shape(tensor)[0] for tensor in tensors]
    names = ", ".join(f"`{spec.name}`" for spec in specs)
    message = f"{names} have as many rows as each other."
    alike = [
        tf.debugging.assert_equal(count, counts[0], message) for count in counts[1:]
    ]
    # Otherwise later operations would not wait for the checks.
    with tf.control_dependencies(alike):
        return [tf.identity(tensor) for tensor in tensors]


def check_ids(ids: Any, name: str, limit: int) -> Any:
    """Refuse, in each request, ids that have no embedding: -1 reads the last one."""
    outside = (ids < 0) | (ids >= limit)
    place = tf.where(outside)[:1]
    message = f"`{name}` contains an id outside 0 to {limit - 1}. Its row and the id:"
    found = [message, place[:, 0], tf.gather_nd(ids, place)]
    return tf.debugging.Assert(~tf.reduce_any(outside), found)


def rows_of(values: Any, rows: Any, count: Any) -> Any:
    """Arrange values, whose `rows` ascend, as `(count, most)`, padded with "" or 0."""
    ragged = tf.RaggedTensor.from_value_rowids(
        values, tf.cast(rows, tf.int64), tf.cast(count, tf.int64), validate=False
    )
    return ragged.to_tensor(_NOTHING[values.dtype])


def counts_of(rows: Any, count: Any) -> Any:
    """Return the number of values in each row, int32 `(count,)`; see `rows_of`."""
    return tf.math.unsorted_segment_sum(tf.ones_like(rows, tf.int32), rows, count)
