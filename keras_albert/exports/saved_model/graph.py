"""The base class of all served TensorFlow graphs, and their windows."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from keras_albert.data.tables import ID_NAMES
from keras_albert.exports.shared import WINDOWS_AT_ONCE
from keras_albert.preprocessors.in_graph import (
    graph_tokenizer,
    join_in_graph,
    pack_in_graph,
)
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.windows import OverlappingWindows, window_stride

# A function from rows of ids to outputs by name.
Answer = Callable[[dict[str, Any]], dict[str, Any]]

# A server pads strings with "", and numbers with zero.
_NOTHING = {tf.string: "", tf.int32: 0, tf.float32: 0.0}


class TaskGraph:
    """A task as TensorFlow functions from strings to predictions."""

    # Every output is an int32, float32 or string tensor with the batch as its first
    # axis, as servers that combine requests into batches require.

    def __init__(self, task: AlbertTask, top_k: int | None = None) -> None:
        self.task = task
        self.top_k = top_k
        self.preprocessor = task.preprocessor
        self.special = task.preprocessor.special_ids
        self.tokenizer = graph_tokenizer(self.preprocessor.tokenizer.vocabulary)
        # Everything to save with the functions. Saving the Keras model itself would
        # write each weight twice.
        self.module = tf.Module()
        self.module.weights = [variable.value for variable in task.variables]
        self.module.tokenizer = self.tokenizer

    def signatures(self) -> dict[str, Any]:
        """Return the served functions by name."""
        return self.row_signatures(self.answer)

    def row_signatures(self, answer: Answer) -> dict[str, Any]:
        """Make the served functions that answer texts, pairs and ids."""
        return {
            "serving_default": text_signature(lambda text: answer(self.pack(text))),
            "serve_pair": text_signature(
                lambda text, text_pair: answer(self.pack(text, text_pair))
            ),
            "serve_tokens": self.tokens_signature(answer),
        }

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs for rows of ids."""
        raise NotImplementedError

    def run(self, inputs: dict[str, Any]) -> Any:
        """Run the model."""
        return self.task(inputs, training=False)

    def pack(self, *texts: Any) -> dict[str, Any]:
        """Pack each text or pair into a row, padded to the longest."""
        return self.pack_tokens(self.tokenizer.tokenize(text) for text in texts)

    def pack_tokens(self, tokens: Iterable[Any]) -> dict[str, Any]:
        """Pack one or two ragged tensors of ids."""
        return pack_in_graph(
            tuple(tokens),
            self.special,
            self.preprocessor.max_length,
            getattr(self.preprocessor, "truncate", "round_robin"),
        )

    def tokens_signature(self, answer: Answer, rank: int = 2) -> Any:
        """Make the served function that takes ids instead of strings."""
        specs = [tf.TensorSpec((None,) * rank, tf.int32, name) for name in ID_NAMES]

        def serve_tokens(
            token_ids: Any, segment_ids: Any, padding_mask: Any
        ) -> dict[str, Any]:
            inputs = token_ids, segment_ids, padding_mask
            token_ids, segment_ids, padding_mask = check_rows(inputs, specs)
            backbone = self.task.backbone
            fits = tf.debugging.assert_less_equal(
                tf.shape(token_ids)[-1],
                backbone.max_sequence_length,
                "`token_ids` has more tokens than the model reads. Truncate its rows.",
            )
            known = [
                check_ids(token_ids, "token_ids", backbone.vocabulary_size),
                check_ids(segment_ids, "segment_ids", max(2, backbone.num_segments)),
            ]
            # Both wait, or an embedding may fail first, with a less clear message.
            with tf.control_dependencies([fits, *known]):
                ids = [tf.identity(each) for each in (token_ids, segment_ids)]
            # A server pads a ragged batch with each row's first element, so that the
            # padded part of the mask is 1.
            is_real = tf.cast(token_ids != self.special.pad, tf.int32)
            ids.append(is_real * padding_mask)
            return answer(dict(zip(ID_NAMES, ids, strict=True)))

        return tf.function(serve_tokens, input_signature=specs, autograph=False)


def text_signature(function: Callable[..., dict[str, Any]], **ranks: int) -> Any:
    """Make a served function of strings, its parameters; `ranks` if not 1."""
    parameters = inspect.signature(function).parameters
    specs = [
        tf.TensorSpec((None,) * ranks.get(name, 1), tf.string, name)
        for name in parameters
    ]

    def serve(*texts: Any) -> dict[str, Any]:
        return function(*check_rows(texts, specs))

    # TensorFlow passes inputs by name only if the parameters have names.
    serve.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return tf.function(serve, input_signature=specs, autograph=False)


def check_rows(tensors: Sequence[Any], specs: Sequence[Any]) -> list[Any]:
    """Check at run time that tensors have the right rank and equal numbers of rows."""
    # A server checks dtypes only, and some operations of tensorflow-text read beyond
    # the end of a shorter input, which crashes the process. Returns what to use
    # instead.
    tensors = [
        tf.ensure_shape(tensor, spec.shape)
        for tensor, spec in zip(tensors, specs, strict=True)
    ]
    count, *others = (tf.shape(tensor)[0] for tensor in tensors)
    names = ", ".join(f"`{spec.name}`" for spec in specs)
    message = f"{names} must have the same number of rows."
    alike = [tf.debugging.assert_equal(each, count, message) for each in others]
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


class WindowGraph(OverlappingWindows):
    """`OverlappingWindows` in TensorFlow operations."""

    def __init__(self, lengths: Any, size: Any, stride: Any) -> None:
        lengths = tf.cast(lengths, tf.int64)
        super().__init__(lengths, size, stride, tf.experimental.numpy)

    def take(self, values: Any) -> Any:
        """Return each window's part of the values of all tokens, a ragged tensor."""
        return tf.gather(values, tf.ragged.range(self.starts, self.ends))

    def places(self, offsets: Any, length: Any) -> tuple[Any, Any]:
        """Return the token at each position `(windows, length)`, 0 if not predicted."""
        place = (self.starts - offsets)[:, None] + tf.range(tf.cast(length, tf.int64))
        low, high = self.owned_from[:, None], self.owned_to[:, None]
        is_owned = (place >= low) & (place < high)
        return tf.where(is_owned, place, 0), is_owned


def run_windows(task: AlbertTask, inputs: dict[str, Any]) -> Any:
    """Run a model on many rows, in batches."""
    rows = tf.shape(inputs["token_ids"])[0]
    turns = tf.maximum(1, -tf.math.floordiv(-rows, WINDOWS_AT_ONCE))
    at_once = -tf.math.floordiv(-rows, turns)

    def split(ids: Any) -> Any:
        # The last row is repeated to fill the last batch.
        ids = tf.gather(ids, tf.minimum(tf.range(turns * at_once), rows - 1))
        return tf.reshape(ids, tf.stack([turns, at_once, tf.shape(ids)[1]]))

    def join(values: Any) -> Any:
        shape = tf.concat([[turns * at_once], tf.shape(values)[2:]], axis=0)
        return tf.reshape(values, shape)[:rows]

    outputs = tf.map_fn(
        lambda part: task(part, training=False),
        {name: split(ids) for name, ids in inputs.items()},
        parallel_iterations=1,
        fn_output_signature=tf.nest.map_structure(
            lambda output: tf.TensorSpec(output.shape, output.dtype), task.output
        ),
    )
    return tf.nest.map_structure(join, outputs)


def run_documents(graph: TaskGraph, text: Any) -> Any:
    """Average the outputs of documents' windows, as `TextWindows`: `(batch, width)`."""
    tokens = graph.tokenizer.tokenize(text)
    room = graph.preprocessor.max_length - 2
    windows = WindowGraph(tokens.row_lengths(), room, window_stride(None, room))
    packed = join_in_graph((windows.take(tokens.values),), graph.special)
    outputs = run_windows(graph.task, packed)
    # The only window of an empty text owns no token; it counts as one.
    owned = tf.maximum(windows.owned_to - windows.owned_from, 1)
    texts, count = windows.documents, tf.size(text)
    total = tf.math.unsorted_segment_sum(owned, texts, count)
    shares = tf.cast(owned / tf.gather(total, texts), outputs.dtype)
    return tf.math.unsorted_segment_sum(outputs * shares[:, None], texts, count)
