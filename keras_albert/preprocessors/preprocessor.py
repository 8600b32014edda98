"""The base class of all preprocessors, and those of classifier and embedder."""

import inspect
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_albert.backbone import AlbertBackbone
from keras_albert.layers.base_layer import config_from_attributes
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.presets.checkpoint import Checkpoint
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.text import reading
from keras_albert.text.packing import (
    EncodedTexts,
    Examples,
    LabelledTexts,
    SeparateTexts,
    SpecialIds,
    TokenRows,
    pack_all,
)
from keras_albert.types import Lengths, Mode, Tensor, Texts, Truncation
from keras_albert.utils import arguments


def default_length_buckets(max_length: int) -> tuple[int, ...]:
    """Return the default lengths that batches are padded to."""
    # JAX compiles each shape, so there are two lengths for each power of two, from 8
    # on. On a GPU matrix units prefer multiples of 8. On a CPU TensorFlow needs none,
    # and PyTorch 16 for each power: oneDNN's kernel for a number of tokens has 0.5 MB.
    backend = keras.config.backend()
    if backend != "jax" and not _is_on_cpu():
        return (*range(8, max_length, 8), max_length)
    if backend == "tensorflow":
        return tuple(range(1, max_length + 1))
    least, parts = (8, 2) if backend == "jax" else (1, 16)

    def step(length: int) -> int:
        power = 1 << (length.bit_length() - 1)
        return max(1, power // parts)

    lengths = (n for n in range(least, max_length) if n % step(n) == 0)
    return (*lengths, max_length)


@cache
def _is_on_cpu() -> bool:
    """Return whether the backend, TensorFlow or PyTorch, finds no GPU."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        return not tf.config.list_physical_devices("GPU")
    return bool(ops.convert_to_tensor(0).device.type == "cpu")


@cache
def all_buckets(max_length: int, lengths: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the lengths that batches are padded to, rising."""
    if lengths is None:
        return default_length_buckets(max_length)
    return (*(length for length in lengths if length < max_length), max_length)


# Preprocessors of KerasHub whose constructors take the tokenizer.
_TAKE_TOKENIZER = (
    keras_hub.models.MaskedLMPreprocessor,
    keras_hub.models.TextClassifierPreprocessor,
    keras_hub.models.TextEmbedderPreprocessor,
)


# The arguments of all constructors.
_SHARED_ARGUMENTS = """\
    tokenizer: An `AlbertTokenizer`.
    sequence_length: int or `None`. A fixed length that all batches are padded to, as
        TPUs require. Defaults to `None`, which pads to the smallest of `length_buckets`
        that fits the batch's longest row.
    max_sequence_length: int. The maximum length of a row if `sequence_length` is
        `None`. Defaults to `512`.
    length_buckets: Sequence of int or `None`. The lengths that batches are padded to.
        Defaults to `None`, see `default_length_buckets`.
    pack_sequences: bool. Whether texts of a batch share rows inside the encoder
        ("sequence packing"), so that all batches have one shape and little padding.
        Results are the same. Defaults to `False`.
"""


class AlbertPreprocessor(PresetMixin):
    """Base class of all preprocessors."""

    # It precedes one of KerasHub's in the list of bases. A subclass defines how raw
    # input is read (`read_input`) and tokenized (`encode`).

    backbone_cls = AlbertBackbone
    tokenizer_cls = AlbertTokenizer
    tokenizer: AlbertTokenizer
    sequence_length: int | None
    max_sequence_length: int
    length_buckets: Lengths | None
    pack_sequences: bool

    # The reader of raw input, which returns its columns and whether it was a batch.
    read_input: Any = staticmethod(reading.text_columns)

    # Whether it runs inside a TensorFlow graph, as in `tf.data.Dataset.map`.
    runs_in_graph = False

    # In place of `{shared}` in the docstring of a subclass.
    _shared_arguments: str = _SHARED_ARGUMENTS

    # Smallest valid length: all special tokens, plus one token of each text.
    shortest_length = 2 * reading.MAX_COLUMNS + 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Complete the docstring, also for `help` and the API reference."""
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            text = inspect.cleandoc(cls.__doc__)
            cls.__doc__ = text.replace("    {shared}\n", cls._shared_arguments)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        arguments.check_kwargs(type(self), kwargs)
        for name, length in (
            ("sequence_length", sequence_length),
            ("max_sequence_length", max_sequence_length),
        ):
            if length is None:
                continue
            # So that each text keeps a token.
            arguments.check_at_least(self.shortest_length, **{name: length})
            arguments.check_at_most(arguments.MAX_TOKENS, **{name: length})
        if isinstance(self, _TAKE_TOKENIZER):
            kwargs["tokenizer"] = tokenizer
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.max_sequence_length = max_sequence_length
        self.length_buckets = length_buckets and _read_buckets(length_buckets)
        self.pack_sequences = pack_sequences
        # As long as a layer is not built, Keras on JAX runs the task once more,
        # eagerly, in each call of `fit` and for each predicted batch.
        self.built = True

    def build(self, input_shape: Any) -> None:
        """Do nothing: there are no weights, and KerasHub's packer is not used."""
        self.built = True

    @property
    def max_length(self) -> int:
        """The maximum number of tokens in a row."""
        return int(self.sequence_length or self.max_sequence_length)

    def padded_length(self, longest: int) -> int:
        """Return the padded length of a batch, given the tokens of its longest row."""
        if self.sequence_length is not None:
            return int(self.sequence_length)
        buckets = self._buckets()
        return buckets[bisect_left(buckets, longest)]

    def _buckets(self) -> Lengths:
        return all_buckets(self.max_sequence_length, self.length_buckets)

    @property
    def special_ids(self) -> SpecialIds:
        """The ids that packing adds."""
        return SpecialIds.of(self.tokenizer.vocabulary)

    def columns(self, x: Any) -> reading.TextBatch:
        """Read raw input into columns with one entry per example."""
        is_read = isinstance(x, reading.TextBatch)
        return x if is_read else reading.TextBatch(*self.read_input(x))

    def tokenize_columns(self, columns: Iterable[list[str]]) -> tuple[TokenRows, ...]:
        """Tokenize columns that were read."""
        tokenize = self.tokenizer.tokenize_rows
        return tuple(tokenize(column, checked=True) for column in columns)

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[Examples, bool]:
        """Tokenize and check raw input; return `Examples`, and if it was a batch."""
        raise NotImplementedError

    def encode_for(
        self, mode: Mode, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[Examples, bool]:
        """Tokenize raw input for a mode; see `encode`."""
        # "evaluation" makes the same random draws each time, "prediction" none.
        return self.encode(x, y, sample_weight)

    def __call__(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Preprocess raw input."""
        if not self.runs_in_graph and any(map(reading.is_graph_text, (x, y))):
            raise TypeError(
                f"{type(self).__name__} runs in Python, not inside a TensorFlow graph "
                f"such as `tf.data.Dataset.map`'s. Received: {x}. Pass the data set of "
                "raw batches to the task."
            )
        # With `y` passed by name, KerasHub does not read a pair as `(x, y)`.
        return super().__call__(x, y=y, sample_weight=sample_weight, **kwargs)  # type: ignore[misc]

    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocess raw input; see `__call__`."""
        examples, batched = self.encode(x, y, sample_weight)
        return keras.utils.pack_x_y_sample_weight(
            *pack_all(examples, self.padded_length, batched)
        )

    @classmethod
    def _add_missing_kwargs(cls, loader: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Complete a preprocessor from a preset's backbone, for KerasHub."""
        config = loader.config.get("config") or {}
        if "max_sequence_length" in config:
            kwargs.setdefault("max_sequence_length", config["max_sequence_length"])
        return super()._add_missing_kwargs(loader, kwargs)  # type: ignore[misc]

    @classmethod
    def _from_checkpoint(
        cls, checkpoint: Checkpoint, load_weights: bool = True, **kwargs: Any
    ) -> Any:
        return checkpoint.load_preprocessor(cls, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return config | config_from_attributes(self, AlbertPreprocessor)


def _read_buckets(buckets: Lengths) -> tuple[int, ...]:
    """Check `length_buckets` at construction, not at the first batch."""
    lengths = np.asarray(buckets)
    arguments.check_shape(lengths, "lengths", "iu", "length_buckets")
    arguments.check_at_least(1, length_buckets=lengths.min(initial=1))
    return tuple(sorted(lengths.tolist()))


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertClassifierPreprocessor(
    AlbertPreprocessor, keras_hub.models.TextClassifierPreprocessor
):
    """Tokenize texts and pack them as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    It does not need TensorFlow; mapped over a `tf.data.Dataset`, it runs inside the
    graph and returns the same ids. A tuple of two texts is always a pair, never
    `(x, y)`.

    Args:
        {shared}
        truncate: string. How a pair that is too long is truncated: `"round_robin"`
            removes one token at a time from the longer text, `"waterfall"` truncates
            the second text first. `[CLS]` and `[SEP]` are always kept. Defaults to
            `"round_robin"`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a token of each text, a bucket is
            not a valid length, or `truncate` is unknown.

    Example:
        >>> from keras_albert import AlbertClassifierPreprocessor
        >>> preprocessor = AlbertClassifierPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> sorted(preprocessor("the fox"))
        ['padding_mask', 'segment_ids', 'token_ids']
        >>> preprocessor(["the fox", "the lazy dog"])["token_ids"].shape
        (2, 16)
        >>> preprocessor(("the fox", "jumped"))["segment_ids"].max()  # a pair
        np.int32(1)
    """

    runs_in_graph = True

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        truncate: Truncation = "round_robin",
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        choices = ("round_robin", "waterfall")
        arguments.check_choice(choices, truncate=truncate)
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(
            tokenizer, *lengths, pack_sequences, truncate=truncate, **kwargs
        )

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize texts or pairs; see `AlbertPreprocessor.encode`."""
        columns, batched = self.columns(x)
        rows = self.tokenize_columns(columns)
        texts = EncodedTexts(rows, self.special_ids, self.max_length, self.truncate)
        return LabelledTexts(texts, y, sample_weight), batched

    def call(self, x: Texts, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocess texts.

        Args:
            x: One text, a batch of texts, or a pair of either.
            y: Labels, returned unchanged. Defaults to `None`.
            sample_weight: Weights, returned unchanged. Defaults to `None`.

        Returns:
            A dict of `token_ids`, `segment_ids` and `padding_mask`, int32
            `(batch, length)`, or `(length,)` for one example; with labels and
            weights, `(x, y, sample_weight)`.
        """
        if y is not None and reading.are_texts(y):
            raise ValueError(
                "The labels are texts. For pairs call `preprocessor((first, second))`; "
                "for names of classes pass their numbers, or texts and names to the "
                "classifier."
            )
        if reading.is_graph_text(x):
            packed = self.call_in_graph(x, self.sequence_length or self._buckets())
        else:
            packed = super().call(x)
        return keras.utils.pack_x_y_sample_weight(packed, y, sample_weight)

    def call_in_graph(
        self, texts: Tensor | tuple[Tensor, ...], pad_to: int | Lengths | None = None
    ) -> dict[str, Tensor]:
        """Preprocess TensorFlow string tensors inside a graph, as `call` returns them.

        A text that is not UTF-8 raises an error that names its row. For `pad_to`, see
        `pack_in_graph`.
        """
        from keras_albert.preprocessors import in_graph  # noqa: PLC0415

        columns = texts if isinstance(texts, tuple) else (texts,)
        how = self.special_ids, self.max_length, self.truncate, pad_to
        return in_graph.pack_texts(self.tokenizer.tokenize_rows, columns, *how)


# KerasHub's name for the same class.
AlbertTextClassifierPreprocessor = AlbertClassifierPreprocessor


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedderPreprocessor(
    AlbertPreprocessor, keras_hub.models.TextEmbedderPreprocessor
):
    """Tokenize texts and pack each as `[CLS] text [SEP]`.

    The texts of an example on which an embedder is trained, two or more, are packed as
    separate rows and do not attend to each other.

    Args:
        {shared}
        prompts: dict or `None`. What `embed` puts before texts of a kind, by its name:
            `{"query": "query: "}`. Defaults to `None`.
        default_prompt: string or `None`. The name of the prompt that `embed` uses if
            it is given none. Exports read texts with their prompts. Defaults to
            `None`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a token, a bucket is not a valid
            length, or `default_prompt` is not one of the `prompts`.

    Example:
        >>> from keras_albert import AlbertTextEmbedderPreprocessor
        >>> preprocessor = AlbertTextEmbedderPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> preprocessor(["the fox", "the dog", "a fox"])["token_ids"].shape
        (3, 16)
        >>> pairs = (["the fox", "the dog", "a fox"], ["fox", "dog", "the fox"])
        >>> preprocessor(pairs)["token_ids"].shape
        (3, 2, 16)
    """

    # A text, a list of texts or tuples, or a tuple of columns.
    read_input = staticmethod(partial(reading.text_columns, max_columns=None))

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        pack_sequences: bool = False,
        prompts: Mapping[str, str] | None = None,
        default_prompt: str | None = None,
        **kwargs: Any,
    ) -> None:
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.prompts = dict(prompts or {})
        self.default_prompt = default_prompt
        self._prompt(default_prompt)

    def _prompt(self, name: str | None) -> str:
        """Return the text of a prompt; of none, the empty text."""
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(map(repr, self.prompts)) or "none"
            msg = f"There is no prompt {name!r}. The preprocessor's prompts: {known}."
            raise ValueError(msg)
        return self.prompts[name]

    def with_prompt(self, x: Any, name: str | None = None) -> reading.TextBatch:
        """Return the columns of input with a prompt before each text."""
        prompt = self._prompt(self.default_prompt if name is None else name)
        columns, batched = self.columns(x)
        if prompt:
            columns = tuple([prompt + text for text in column] for column in columns)
        return reading.TextBatch(columns, batched)

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize texts or examples; the targets are similarities, one per pair."""
        columns, batched = self.columns(x)
        if y is not None and len(columns) == 1:
            raise ValueError(
                "A similarity compares two texts. Pass pairs, `x=(first, second)`."
            )
        texts = SeparateTexts(
            tuple(
                EncodedTexts((rows,), self.special_ids, self.max_length)
                for rows in self.tokenize_columns(columns)
            )
        )
        return LabelledTexts(texts, y, sample_weight), batched
