"""A smaller model that starts with the weights of a trained one."""

import os
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone import AlbertBackbone
from keras_albert.layers.embedding import FactorizedEmbedding
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.tasks import cloning
from keras_albert.text.tokenizer.vocabularies import Vocabulary
from keras_albert.utils.arguments import argument_error, check_at_least, check_positive

FloatArray = npt.NDArray[Any]


def read_tokenizer(vocabulary: Any) -> AlbertTokenizer:
    """Return the tokenizer of the argument `vocabulary` of `compress`."""
    if isinstance(vocabulary, str | os.PathLike):
        if Path(vocabulary).is_file():
            return AlbertTokenizer(vocabulary)
        return AlbertTokenizer.from_preset(vocabulary)
    tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
    if not isinstance(tokenizer, AlbertTokenizer):
        raise TypeError(
            "`vocabulary` must be an `AlbertTokenizer`, a preprocessor with one, or "
            "the path of a vocabulary or a preset. Received a vocabulary of type "
            f"{type(vocabulary).__name__}."
        )
    return tokenizer


def own_vocabulary(model: Any) -> Vocabulary:
    """Return the vocabulary of a task."""
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if tokenizer is None:
        raise ValueError(
            "A new `vocabulary` needs the model's present one. Received: an "
            f"{type(model).__name__} without one. Pass a task with its preprocessor."
        )
    return tokenizer.vocabulary


class TokenMeans:
    """Maps what a model keeps for each token to the tokens of another vocabulary."""

    # A piece that both have keeps its values. Any other has the mean of the pieces that
    # the old vocabulary splits its text into; where it stands inside a word, the first
    # of them does as well. A special token has the values of its role, and a piece
    # without text the mean of all.

    def __init__(self, new: Vocabulary, old: Vocabulary) -> None:
        begins, texts = old.starts_word, [text.strip(" ") for text in old.texts]
        known = {(texts[i], bool(begins[i])): int(i) for i in old.text_ids}
        wanted = [text.strip(" ") for text in new.texts]
        self._all = old.text_ids
        self._pieces: list[list[int]] = []
        for text, is_first, split in zip(
            wanted, new.starts_word.tolist(), old.encode(wanted), strict=True
        ):
            pieces = split.tolist()
            if (same := known.get((text, is_first))) is not None:
                pieces = [same]
            elif not is_first:
                # The space before the text, alone or with the first piece.
                pieces = [i for i in pieces if texts[i]]
                pieces[:1] = [known.get((texts[i], False), i) for i in pieces[:1]]
            self._pieces.append(pieces)
        for role, token in new.special_tokens.items():
            self._pieces[new.ids[token]] = [old.ids[old.special_tokens[role]]]

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return `(new tokens, ...)` for an array `(old tokens, ...)`."""
        mean = values[self._all].mean(axis=0)
        return np.stack(
            [values[pieces].mean(axis=0) if pieces else mean for pieces in self._pieces]
        )


# How many embedded tokens the projection is fitted to, for each of its inputs.
_SAMPLES_PER_DIM = 200

# The positions of the sample: most texts are short.
_POSITIONS = 64


def factorize(
    embedding: FactorizedEmbedding,
    embedding_dim: int,
    token_counts: npt.ArrayLike | None,
    seed: int,
    token_table: FloatArray | None = None,
) -> tuple[FloatArray, ...]:
    """Return weights of width `embedding_dim` for a trained embedding."""
    # LayerNorm divides by the length of a vector and ignores its mean, so what counts
    # are directions: the tables are projected to the principal directions of their
    # centered, normalized sums (an SVD). These are placed where the mean over the
    # narrow axis is 0, so that the new LayerNorm also only divides. Last, the
    # projection is fitted to the embedding's outputs by least squares.
    generator = np.random.default_rng(seed)
    if token_table is None:
        token_table = embedding.token_embedding.embeddings
    tables = [
        _centered(_array(table))
        for table in (
            token_table,
            embedding.position_embedding.position_embeddings,
            embedding.segment_embedding.embeddings,
        )
    ]
    count = _SAMPLES_PER_DIM * embedding_dim
    counts = None if token_counts is None else np.asarray(token_counts, float)
    shares = None if counts is None else counts / counts.sum()
    # The row of each table that a sampled token looks up.
    rows = [
        generator.choice(len(tables[0]), count, p=shares),
        generator.integers(min(_POSITIONS, len(tables[1])), size=count),
        generator.integers(len(tables[2]), size=count),
    ]

    def drawn(tables: list[FloatArray]) -> FloatArray:
        terms = [table[row] for table, row in zip(tables, rows, strict=True)]
        return _normalized(np.add.reduce(terms))

    unit = drawn(tables)
    _, vectors = np.linalg.eigh(unit.T @ unit)
    # Orthogonal vectors whose components sum to 0, as columns.
    start = np.eye(embedding_dim)
    start[:, 0] = 1.0
    basis = np.linalg.qr(start)[0][:, 1:]
    to_narrow = vectors[:, 1 - embedding_dim :] @ basis.T
    narrow = [table @ to_narrow for table in tables]

    outputs = unit * _array(embedding.layer_norm.gamma)
    outputs += _array(embedding.layer_norm.beta)
    if embedding.projection is not None:
        outputs = outputs @ _array(embedding.projection.kernel)
        outputs += _array(embedding.projection.bias)
    inputs = drawn(narrow)
    inputs = np.concatenate([inputs, np.ones((count, 1))], axis=1)
    fitted, *_ = np.linalg.lstsq(inputs, outputs, rcond=None)
    scale, offset = np.ones(embedding_dim), np.zeros(embedding_dim)
    # In the order of the weights of a `FactorizedEmbedding`.
    return *narrow, scale, offset, fitted[:-1], fitted[-1]


def _array(variable: Any) -> FloatArray:
    return np.asarray(ops.convert_to_numpy(variable), float)


def _centered(x: FloatArray) -> FloatArray:
    mean: FloatArray = x.mean(axis=-1, keepdims=True)
    return x - mean


def _normalized(x: FloatArray) -> FloatArray:
    """Return what a LayerNorm without weights returns."""
    x = _centered(x)
    variance: FloatArray = (x**2).mean(axis=-1, keepdims=True)
    return x / np.sqrt(variance + 1e-12)


_Model = TypeVar("_Model")


def compress(
    model: _Model,
    *,
    num_groups: int | None = None,
    embedding_dim: int | None = None,
    num_layers: int | None = None,
    adapter_rank: int | None = None,
    vocabulary: Any = None,
    token_counts: npt.ArrayLike | None = None,
    seed: int = 0,
) -> _Model:
    """Return a smaller model of the same class that starts from a trained one.

    A BERT is an ALBERT whose layers share nothing (`num_groups == num_layers`) and
    whose embeddings are as wide as its layers. This function turns both down: a group
    starts as the last of its trained layers, embeddings as the principal directions of
    the trained ones. With `adapter_rank` each layer adds to its group what comes
    closest to its own weights; at full rank nothing is lost. The result keeps a good
    part of what the model learned, and needs some training: distill it, or fine-tune
    it. `model` is not changed.

    Source: [Bae et al., 2025](https://arxiv.org/abs/2410.20672). Of all-MiniLM-L6-v2 in
    three groups, without training, the last layers keep a Spearman correlation of 0.734
    on the development set of STS-B, the first ones 0.724, their means 0.686.

    Args:
        model: `AlbertBackbone` or a task: ALBERT, or BERT or ELECTRA in these classes.
        num_groups: int. Groups of layers that share weights. Defaults to `None`, the
            groups of `model`.
        embedding_dim: int. The width of the embeddings, not above the model's.
            Defaults to `None`, the model's.
        num_layers: int. How many of the model's layers to take, at equal distances, the
            first and the last among them. Defaults to `None`, all.
        adapter_rank: int. The rank of what each layer adds to the matrices of its
            group: the closest product of two narrow matrices, by SVD. Vectors are added
            whole. `0` is none. Defaults to `None`, the rank of `model`.
        vocabulary: The vocabulary of the result: `AlbertTokenizer`, a preprocessor with
            one, or the path of a vocabulary or a preset. A piece that `model` does not
            have starts as the mean of the pieces that `model` splits its text into.
            Defaults to `None`, the model's.
        token_counts: Array `(vocabulary_size,)`. How often each token of the result
            occurs in typical texts, so that frequent tokens are reproduced better.
            Defaults to `None`, which weighs all tokens alike.
        seed: int. Seed of the sample of tokens to which the embeddings are fitted, and
            of adapters that add nothing yet. Defaults to `0`.

    Returns:
        A model of the class of `model`, with its preprocessor and, for a task, its
        labels and the weights of its head.

    Raises:
        TypeError: If `model` is neither a backbone nor a task, or `vocabulary` is none.
        ValueError: If a number is above the model's, or below 1; if `token_counts` does
            not fit the vocabulary; if `vocabulary` is damaged, or `model` has none to
            start from; or if `model` is quantized, or has LoRA weights.

    Example:
        >>> from keras_albert import AlbertBackbone, compress
        >>> bert = AlbertBackbone(
        ...     vocabulary_size=100, num_layers=4, num_heads=2, embedding_dim=16,
        ...     hidden_dim=16, intermediate_dim=32, num_groups=4)
        >>> albert = compress(bert, num_groups=2, embedding_dim=8)
        >>> bert.count_params(), albert.count_params()
        (19024, 9792)
    """
    backbone = cloning.own_backbone(model)
    if backbone.num_layers != backbone.encoder.num_layers:
        # That of a view runs a part of its encoder.
        backbone = cloning.at_depth(backbone, backbone.num_layers)
    reduced = {
        "num_layers": num_layers,
        "num_groups": num_groups,
        "embedding_dim": embedding_dim,
    }
    sizes = _new_sizes(backbone, reduced)
    sizes["adapter_rank"] = backbone.adapter_rank
    if adapter_rank is not None:
        check_at_least(0, adapter_rank=adapter_rank)
        sizes["adapter_rank"] = adapter_rank or None
    tokenizer: Any = None
    map_tokens: TokenMeans | None = None
    if vocabulary is not None:
        own, tokenizer = own_vocabulary(model), read_tokenizer(vocabulary)
        sizes["vocabulary_size"] = tokenizer.vocabulary_size()
        map_tokens = TokenMeans(tokenizer.vocabulary, own)
    counts = None
    if token_counts is not None:
        counts = np.asarray(token_counts, float)
        size = sizes.get("vocabulary_size", backbone.vocabulary_size)
        if counts.shape != (size,):
            raise ValueError(
                f"`token_counts` needs a number for each of the {size} tokens. "
                f"Received an array of shape {counts.shape}."
            )
    cloning.check_is_float(backbone)
    small = AlbertBackbone.from_config(backbone.get_config() | sizes)
    _copy_embedding(backbone, small, counts, seed, map_tokens)
    _share_layers(backbone, small, seed)
    cloning.copy_weights(backbone.pooler, small.pooler)
    small.pretrained = backbone.pretrained
    student: Any = cloning.with_backbone(model, small, tokenizer, map_tokens)
    if hasattr(student, "set_threshold"):
        # It belongs to the probabilities of the model.
        student.set_threshold = None
    return cast("_Model", student)


def _new_sizes(
    backbone: AlbertBackbone, reduced: dict[str, int | None]
) -> dict[str, Any]:
    """Return the sizes of the new backbone."""
    sizes: dict[str, Any] = {}
    for name, number in reduced.items():
        most = getattr(backbone, name)
        sizes[name] = most if number is None else number
        check_positive(**{name: sizes[name]})
        if sizes[name] > most:
            raise argument_error(
                name,
                f"`{name}` can only be reduced, and the model's is {most}. Received: "
                f"{name}={number}",
            )
    if reduced["num_groups"] is None:
        # As many layers to a group as before.
        groups = backbone.num_groups * sizes["num_layers"] // backbone.num_layers
        sizes["num_groups"] = max(1, groups)
    return sizes


def _copy_embedding(
    backbone: AlbertBackbone,
    small: AlbertBackbone,
    counts: Any,
    seed: int,
    map_tokens: TokenMeans | None,
) -> None:
    old: Any = backbone.embedding
    new: Any = small.embedding
    table = ops.convert_to_numpy(old.token_embedding.embeddings)
    if map_tokens is not None:
        table = map_tokens(table)
    if new.embedding_dim == old.embedding_dim:
        for source, target in zip(old.weights, new.weights, strict=True):
            is_table = source is old.token_embedding.embeddings
            target.assign(table if is_table else ops.convert_to_numpy(source))
        return
    factors = factorize(old, new.embedding_dim, counts, seed, table)
    variables = (
        new.token_embedding.embeddings,
        new.position_embedding.position_embeddings,
        new.segment_embedding.embeddings,
        *(new.layer_norm.gamma, new.layer_norm.beta),
        *(new.projection.kernel, new.projection.bias),
    )
    for variable, value in zip(variables, factors, strict=True):
        variable.assign(value.astype("float32"))


def _share_layers(backbone: AlbertBackbone, small: AlbertBackbone, seed: int) -> None:
    """Set each group to its last trained layer, and adapters to what the others add."""
    old, new = backbone.encoder, small.encoder
    dials = ("num_layers", "num_groups", "adapter_rank")
    if all(getattr(old, dial) == getattr(new, dial) for dial in dials):
        cloning.copy_weights(old, new)
        return
    generator = np.random.default_rng(seed)
    places = np.linspace(0, old.num_layers - 1, new.num_layers).round().astype(int)
    for layer in reversed(range(new.num_layers)):
        group = new.group_of(layer)
        is_last = new.group_of(layer + 1) != group
        trained = old.layer_weights(int(places[layer]))
        for inner, block in enumerate(new.group_blocks(group)):
            if is_last:
                block.set_weights(trained[inner])
            if new.adapters is not None:
                run = new.run_number(layer, inner, group)
                new.adapters.fit(block, run, trained[inner], generator)
