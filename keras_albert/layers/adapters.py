"""Updates that each virtual layer adds to the weights that it shares with others."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.layers.base_layer import NORM_LAYERS, albert_initializer, derive_seeds
from keras_albert.types import DType, FloatArray, Tensor


class LayerAdapters(keras.layers.Layer):
    """The differences of virtual layers from the blocks that they share."""

    # To each kernel a layer adds `a @ b`, of `rank` columns and rows, to each bias and
    # LayerNorm a vector, all zero at first. Source: [Bae et al.,
    # 2025](https://arxiv.org/abs/2410.20672), section 2.3, for matrices.

    def __init__(
        self,
        num_runs: int,
        rank: int,
        width: int,
        intermediate_dim: int,
        seed: int | None = None,
        dtype: DType = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        self.rank = rank
        seeds = derive_seeds(seed, 6)
        self._names: list[str] = []

        def add(name: str, *shape: int, initializer: Any = "zeros") -> None:
            self._names.append(name)
            self.add_weight(
                shape=(num_runs, *shape),
                initializer=initializer,
                # LayerNorms compute in float32 under mixed precision.
                autocast=not name.startswith(NORM_LAYERS),
                name=name,
            )

        for name, rows, columns in (
            *((name, width, width) for name in ("query", "key", "value")),
            ("attention_output", width, width),
            ("feedforward_intermediate", width, intermediate_dim),
            ("feedforward_output", intermediate_dim, width),
        ):
            initializer = albert_initializer(next(seeds))
            add(f"{name}_a", rows, rank, initializer=initializer)
            add(f"{name}_b", rank, columns)
            add(f"{name}_bias", columns)
        for name in NORM_LAYERS:
            add(f"{name}_gamma", width)
            add(f"{name}_beta", width)
        self.built = True

    def by_name(self) -> dict[str, keras.Variable]:
        """Return the variables by their names, such as `"query_a"`."""
        return dict(zip(self._names, self.variables, strict=True))

    def adapt(
        self,
        scope: keras.StatelessScope,
        block: keras.layers.Layer,
        values: list[Tensor],
        number: Any,
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """Add the differences of a run to the vectors of a block."""
        factors, vectors = self.of_run(values, number)
        for (layer, name), vector in vectors.items():
            variable = getattr(getattr(block, layer), name)
            shared = scope.get_current_value(variable)
            scope.add_update((variable, shared + vector))
        return factors

    def merged_weights(
        self, block: keras.layers.Layer, number: int
    ) -> list[FloatArray]:
        """Return the weights of a block in a run, in the order of `block.weights`."""
        values = [ops.convert_to_numpy(variable) for variable in self.variables]
        factors, vectors = self.of_run(values, number)
        merged = []
        for weight in block.weights:
            layer, name = weight.path.split("/")[-2:]
            a, b = factors[layer] if name == "kernel" else (None, None)
            difference = vectors[layer, name] if a is None else a @ b
            merged.append(np.asarray(ops.convert_to_numpy(weight)) + difference)
        return merged

    def fit(
        self,
        block: keras.layers.Layer,
        number: int,
        weights: list[FloatArray],
        generator: np.random.Generator,
    ) -> None:
        """Fit the adapters of a run to weights; `generator` draws some `a`."""
        variables = self.by_name()
        for weight, trained in zip(block.weights, weights, strict=True):
            layer, name = weight.path.split("/")[-2:]
            difference = trained - ops.convert_to_numpy(weight)
            found = {f"{layer}_{name}": difference}
            if name == "kernel":
                a, b = _factorize(difference, self.rank, generator)
                found = {f"{layer}_a": a, f"{layer}_b": b}
            for key, value in found.items():
                values = np.array(ops.convert_to_numpy(variables[key]))
                values[number] = value
                variables[key].assign(values)

    def of_run(
        self, values: list[Any], number: Any
    ) -> tuple[dict[str, tuple[Any, Any]], dict[tuple[str, str], Any]]:
        """Return the matrices by dense layer, and the vectors by layer and variable."""
        if keras.config.backend() == "torch" and not isinstance(number, int | slice):
            # An index that is a tensor would be read on the host.
            rows = [ops.take(each, number, axis=0) for each in values]
        else:
            rows = [each[number] for each in values]
        own = dict(zip(self._names, rows, strict=True))
        factors: dict[str, tuple[Any, Any]] = {}
        vectors: dict[tuple[str, str], Any] = {}
        for name, value in own.items():
            layer, _, kind = name.rpartition("_")
            if kind == "a":
                factors[layer] = value, own[f"{layer}_b"]
            elif kind != "b":
                vectors[layer, kind] = value
        return factors, vectors


def _factorize(
    matrix: FloatArray, rank: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return two matrices of the product that is closest to a matrix, by SVD."""
    a = generator.normal(0, 0.02, (len(matrix), rank))
    b = np.zeros((rank, matrix.shape[1]))
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    count = min(rank, int(np.sum(sizes > 1e-6 * sizes[0])))
    root = np.sqrt(sizes[:count])
    a[:, :count] = left[:, :count] * root
    b[:count] = right[:count] * root[:, None]
    return a.astype("float32"), b.astype("float32")
