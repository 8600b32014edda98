"""The base class of all preprocessors."""

import inspect
from collections.abc import Iterable
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.backbone import AlbertBackbone
from keras_albert.layers.base_layer import config_from_attributes
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.presets.checkpoint import Checkpoint
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.text.batching import all_buckets, bucket_length
from keras_albert.text.packing import Examples, SpecialIds, pack_all
from keras_albert.text.reading import (
    MAX_COLUMNS,
    TextBatch,
    is_graph_text,
    text_columns,
)
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Lengths, Mode
from keras_albert.utils import arguments

# Preprocessors of KerasHub whose constructors take the tokenizer.
_TAKE_TOKENIZER = (
    keras_hub.models.MaskedLMPreprocessor,
    keras_hub.models.TextClassifierPreprocessor,
    keras_hub.models.TextEmbedderPreprocessor,
)


# What all constructors take.
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
    read_input: Any = staticmethod(text_columns)

    # Whether it runs inside a TensorFlow graph, as in `tf.data.Dataset.map`.
    runs_in_graph = False

    # In place of `{shared}` in the docstring of a subclass.
    _shared_arguments: str = _SHARED_ARGUMENTS

    # Smallest valid length: all special tokens, plus one token of each text.
    shortest_length = 2 * MAX_COLUMNS + 1

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
        # The name of `pack_sequences` in version 0.1.
        pack_sequences = kwargs.pop("share_rows", pack_sequences)
        arguments.check_kwargs(type(self), kwargs)
        for name, length in (
            ("sequence_length", sequence_length),
            ("max_sequence_length", max_sequence_length),
        ):
            if length is None:
                continue
            if not arguments.is_whole_number(length) or length < self.shortest_length:
                raise ValueError(
                    f"`{name}` must be at least {self.shortest_length}, so that each "
                    "text keeps a token, and a whole number. "
                    f"Received: {name}={length!r}"
                )
            arguments.check_at_most(arguments.MAX_TOKENS, **{name: length})
        if pack_sequences not in (True, False):
            raise ValueError(
                "`pack_sequences` must be True or False. Received: "
                f"pack_sequences={pack_sequences!r}"
            )
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
        return bucket_length(longest, self._buckets())

    def _buckets(self) -> Lengths:
        return all_buckets(self.max_sequence_length, self.length_buckets)

    @property
    def special_ids(self) -> SpecialIds:
        """The ids that packing adds."""
        own = self.tokenizer
        return SpecialIds(own.cls_token_id, own.sep_token_id, own.pad_token_id)

    def columns(self, x: Any) -> TextBatch:
        """Read raw input into columns with one entry per example."""
        return x if isinstance(x, TextBatch) else TextBatch(*self.read_input(x))

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
        if not self.runs_in_graph and (is_graph_text(x) or is_graph_text(y)):
            raise TypeError(
                f"{type(self).__name__} runs in Python, not inside a TensorFlow graph "
                f"such as `tf.data.Dataset.map`'s. Received: {x}. Pass the data "
                "set of raw batches to the task, which preprocesses each of them; or "
                "preprocess lists of texts, and make the data set of the result."
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
    def _from_checkpoint(cls, checkpoint: Checkpoint, **kwargs: Any) -> Any:
        return checkpoint.load_preprocessor(cls, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        return config | config_from_attributes(self, AlbertPreprocessor)


def _read_buckets(buckets: Lengths) -> tuple[int, ...]:
    """Check `length_buckets` at construction, not at the first batch."""
    lengths = np.asarray(buckets)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        lengths = np.zeros(1, int)
    if (lengths < 1).any():
        raise ValueError(
            "`length_buckets`, the lengths that batches are padded to, must be whole "
            f"numbers of at least 1. Received: length_buckets={buckets!r}. For a "
            "single length, pass `sequence_length`."
        )
    return tuple(sorted(lengths.tolist()))
