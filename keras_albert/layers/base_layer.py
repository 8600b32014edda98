"""The base of all layers: their class, activations, weights, seeds, packed rows."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.types import Activation, DType, Tensor
from keras_albert.utils.arguments import check_kwargs
from keras_albert.utils.keras_internals import mark_as_seeded

# The dense layers of a block, and its others.
DENSE_LAYERS = (
    *("query", "key", "value", "attention_output"),
    *("feedforward_intermediate", "feedforward_output"),
)
NORM_LAYERS = ("attention_layer_norm", "feedforward_layer_norm")

# google-research/albert computes the tanh form and calls it "gelu"; transformers
# calls the tanh form "gelu_new" or "gelu_pytorch_tanh"; in Keras, "gelu" is the
# erf form. "gelu_approximate" is unambiguous.
_TANH_GELU_NAMES = frozenset({"gelu_approximate", "gelu_new", "gelu_pytorch_tanh"})


@keras.saving.register_keras_serializable(package="keras_albert")
def gelu_approximate(x: Tensor) -> Tensor:
    """Apply the tanh form of GELU ([source](https://arxiv.org/abs/1606.08415))."""
    return keras.activations.gelu(x, approximate=True)


def get_activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the activation function of a name."""
    if isinstance(activation, str) and activation in _TANH_GELU_NAMES:
        return gelu_approximate
    try:
        found: Callable[[Tensor], Tensor] = keras.activations.get(activation)
    except ValueError as error:
        raise ValueError(
            f"There is no activation {activation!r}. Use 'gelu_approximate' (the tanh "
            "form, as in ALBERT), 'gelu' (the erf form), 'relu', another Keras "
            "activation name, or a function."
        ) from error
    return found


def serialize_activation(activation: Activation) -> Any:
    """Convert an activation to its form in a config file."""
    if isinstance(activation, str):
        return activation
    return keras.activations.serialize(activation)


# Arguments that Keras stores, and objects.
_NOT_IN_CONFIG = {
    *("args", "kwargs", "dtype"),
    *("backbone", "preprocessor", "token_embedding", "tokenizer"),
}


def config_from_attributes(owner: Any, base: type) -> dict[str, Any]:
    """Return the arguments of constructors, up to `base`, that are attributes."""
    names: dict[str, Any] = {}
    for cls in type(owner).__mro__:
        if issubclass(cls, base):
            names |= inspect.signature(cls.__init__).parameters
    found = {
        name: getattr(owner, name)
        for name in names
        if name not in _NOT_IN_CONFIG and hasattr(owner, name)
    }
    # JSON has neither functions nor tuples.
    return {
        name: serialize_activation(value)
        if callable(value)
        else (list(value) if isinstance(value, tuple) else value)
        for name, value in found.items()
    }


class AlbertLayer(keras.layers.Layer):
    """A layer that refuses unknown arguments, and whose config is its attributes."""

    def __init__(self, dtype: DType = None, **kwargs: Any) -> None:
        check_kwargs(type(self), kwargs)
        super().__init__(dtype=dtype, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), **config_from_attributes(self, AlbertLayer)}


def albert_initializer(seed: int | None = None) -> keras.initializers.Initializer:
    """Return a new truncated normal of deviation 0.02; a shared one repeats itself."""
    return TruncatedNormal(stddev=0.02, seed=seed)


@keras.saving.register_keras_serializable(package="keras_albert")
class TruncatedNormal(keras.initializers.TruncatedNormal):
    """Keras' initializer, whose values NumPy draws on JAX."""

    # For each shape, XLA would compile a program, most of the time of loading a preset.
    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """Return initial values of a shape."""
        if keras.backend.backend() != "jax":
            return super().__call__(shape, dtype)
        random = np.random.default_rng(self.seed)
        values = random.standard_normal(shape, np.float32)
        while (far := np.abs(values) > 2).any():
            values[far] = random.standard_normal(far.sum(), np.float32)
        scaled = values * np.float32(self.stddev) + np.float32(self.mean)
        return ops.convert_to_tensor(scaled, dtype)


def derive_seeds(seed: int | None, count: int) -> Iterator[int | None]:
    """Derive independent seeds from one."""
    if seed is None:
        return iter([None] * count)
    # 31 bits: the largest range that every backend accepts for a seed.
    states = np.random.SeedSequence(seed).generate_state(count) >> 1
    return iter(states.tolist())


# The golden ratio in 32 bits: an odd step, so that 2**32 sites get distinct seeds.
_STEP = 0x9E3779B1


class StepSeed(keras.random.SeedGenerator):
    """The seed of a training step, a block or a dropout: each draw returns it."""

    # A compiled loop cannot write to a seed generator's variable. So the encoder draws
    # one seed per step, and each dropout of each layer offsets it by its number: masks
    # are the same in a loop, unrolled, or recomputed in the backward pass.

    def __init__(self, base: Any, number: Any = 0) -> None:
        # `super().__init__` would create a variable, which this class avoids.
        mark_as_seeded(self)
        self.base = base
        self.number = number

    @classmethod
    def draw(cls, generator: keras.random.SeedGenerator) -> "StepSeed":
        """Draw the seed of a step."""
        base = generator.next()
        # Keras reads PyTorch's seeds on the host, with a synchronisation for each
        # dropout; fetching the seed here needs one per step.
        is_torch = keras.config.backend() == "torch"
        return cls(ops.convert_to_numpy(base) if is_torch else base)

    def at(self, index: Any, count: int = 1) -> "StepSeed":
        """Return the seed of one of `count` parts, each with its own dropouts."""
        return StepSeed(self.base, self.number * count + index)

    def next(self, ordered: bool = True) -> Any:
        """Return the seed in the form of the backend."""
        if isinstance(self.base, np.ndarray):
            return int(self.base[0]) + int(self.number) * _STEP, int(self.base[1])
        dtype = keras.backend.standardize_dtype(self.base.dtype)
        site = ops.cast(self.number, dtype)
        offset = site * ops.convert_to_tensor(np.array(_STEP, dtype))
        return self.base + ops.stack([offset, ops.zeros_like(offset)])


# Inputs of a batch whose texts share rows, in addition to its ids.
ROW_TOKENS = "row_tokens"
TOKEN_PLACES = "token_places"  # noqa: S105  (no password)


@dataclass(frozen=True)
class PackedRows:
    """Where each token of a batch stands in rows that texts share in the encoder."""

    # Texts do not attend to each other, and the positions of each start at 0.
    # `row_tokens` `(rows, width)` index the flattened ids, -1 for none; `token_places`
    # `(texts, length)` index the flattened rows, 0 for padding. Source: [Krell et al.,
    # 2021](https://arxiv.org/abs/2107.02027).

    row_tokens: Tensor
    token_places: Tensor

    def join(self, ids: Tensor) -> Tensor:
        """Return ids `(texts, length)` as rows `(rows, width)`."""
        tokens = ops.maximum(self.row_tokens, 0)
        return ops.take(ops.reshape(ids, (-1,)), tokens, axis=0)

    def split(self, x: Tensor) -> Tensor:
        """Return vectors of rows `(rows, width, dim)` as `(texts, length, dim)`."""
        return _take_places(x, self.token_places)

    def first(self, x: Tensor) -> Tensor:
        """Return `split(x)[:, 0]`; no compiler would leave out the other vectors."""
        return _take_places(x, self.token_places[:, 0])

    def positions(self) -> Tensor:
        """Return the position of each token in its text, `(rows, width)`."""
        return ops.mod(ops.maximum(self.row_tokens, 0), self._length())

    def attention_mask(self) -> Tensor:
        """Return the block-diagonal attention mask, `(rows, width, width)`."""
        texts = ops.floor_divide(self.row_tokens, self._length())
        return ops.equal(texts[:, :, None], texts[:, None, :])

    def _length(self) -> Any:
        return ops.shape(self.token_places)[1]


def _take_places(x: Tensor, places: Tensor) -> Tensor:
    return ops.take(ops.reshape(x, (-1, x.shape[-1])), places, axis=0)


def packed_rows(inputs: Any) -> PackedRows | None:
    """Return the rows that the texts of a batch share, `None` if each has its own."""
    if not isinstance(inputs, Mapping) or ROW_TOKENS not in inputs:
        return None
    return PackedRows(inputs[ROW_TOKENS], inputs[TOKEN_PLACES])


def packing_inputs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs of `PackedRows`, none if each text has its own row."""
    return {name: inputs[name] for name in (ROW_TOKENS, TOKEN_PLACES) if name in inputs}
