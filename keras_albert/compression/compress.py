"""A smaller model that begins with the weights of a trained one."""

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.compression.factorization import factorize
from keras_albert.compression.vocabulary import (
    TokenMeans,
    own_vocabulary,
    read_tokenizer,
)
from keras_albert.tasks.base.other_backbone import (
    at_depth,
    check_is_float,
    copy_weights,
    own_backbone,
    with_backbone,
)
from keras_albert.utils.arguments import check_at_least, check_positive

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
    closest to its own weights; nothing is lost if the rank is that of the matrices. The
    result keeps a good part of what the model learned, and needs some training: distill
    it, or fine-tune it. `model` is not changed.

    Source: [Bae et al., 2025](https://arxiv.org/abs/2410.20672). Of all-MiniLM-L6-v2 in
    three groups, without training, the last layers keep a Spearman correlation of 0.734
    on the development set of STS-B, the first ones 0.724, their means 0.686.

    Args:
        model: `AlbertBackbone` or a task: ALBERT, or BERT or ELECTRA in these classes.
        num_groups: int. Groups of layers that share weights; must divide the number of
            layers. Defaults to `None`, the groups of `model`.
        embedding_dim: int. The width of the embeddings, at most that of `model`.
            Defaults to `None`, the width of `model`.
        num_layers: int. The number of layers, at most that of `model`, whose layers are
            taken at equal distances, the first and the last among them. Defaults to
            `None`, all.
        adapter_rank: int. The rank of what each layer adds to the matrices of its
            group: the closest product of two narrow matrices, by SVD. Vectors are added
            whole. `0` is none. Defaults to `None`, the rank of `model`.
        vocabulary: The vocabulary of the result: `AlbertTokenizer`, a preprocessor with
            one, or the path of a vocabulary or a preset. A piece that `model` does not
            have starts as the mean of the pieces that `model` splits its text into.
            Defaults to `None`, that of `model`.
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
        ValueError: If a number is above that of `model`, or below 1; if `num_groups`
            does not divide the layers; if `token_counts` does not fit the vocabulary;
            if `vocabulary` is damaged, or `model` has none to start from;
            if `model` is quantized, or has LoRA weights.

    Example:
        >>> from keras_albert import AlbertBackbone, compress
        >>> bert = AlbertBackbone(
        ...     vocabulary_size=100, num_layers=4, num_heads=2, embedding_dim=16,
        ...     hidden_dim=16, intermediate_dim=32, num_groups=4)
        >>> albert = compress(bert, num_groups=2, embedding_dim=8)
        >>> bert.count_params(), albert.count_params()
        (19024, 9792)
    """
    backbone = own_backbone(model)
    if backbone.num_layers != backbone.encoder.num_layers:
        # That of a view runs a part of its encoder.
        backbone = at_depth(backbone, backbone.num_layers)
    sizes = _check_sizes(backbone, num_groups, embedding_dim, num_layers)
    rank = backbone.adapter_rank
    if adapter_rank is not None:
        check_at_least(0, adapter_rank=adapter_rank)
        rank = adapter_rank or None
    tokenizer: Any = None
    map_tokens: TokenMeans | None = None
    if vocabulary is not None:
        own, tokenizer = own_vocabulary(model), read_tokenizer(vocabulary)
        map_tokens = TokenMeans(tokenizer.vocabulary, own)
        sizes["vocabulary_size"] = tokenizer.vocabulary_size()
    counts = _check_counts(
        token_counts, sizes.get("vocabulary_size", backbone.vocabulary_size)
    )
    check_is_float(backbone)
    config = backbone.get_config() | sizes | {"adapter_rank": rank}
    small = AlbertBackbone.from_config(config)
    _copy_embedding(backbone, small, counts, seed, map_tokens)
    _share_layers(backbone, small, seed)
    copy_weights(backbone.pooler, small.pooler)
    small.pretrained = backbone.pretrained
    return with_backbone(model, small, tokenizer, map_tokens)


def _check_sizes(
    backbone: AlbertBackbone,
    num_groups: int | None,
    embedding_dim: int | None,
    num_layers: int | None,
) -> dict[str, int]:
    """Return the sizes of the new backbone, checked against the old one."""
    given = {
        "num_layers": num_layers,
        "num_groups": num_groups,
        "embedding_dim": embedding_dim,
    }
    sizes: dict[str, int] = {}
    for name, number in given.items():
        own = getattr(backbone, name)
        if number is None:
            sizes[name] = own
            continue
        check_positive(**{name: number})
        if number > own:
            raise ValueError(
                f"`{name}` can only be reduced, and the model's is {own}. Received: "
                f"{name}={number}"
            )
        sizes[name] = number
    if num_groups is None and num_layers is not None:
        # As many layers to a group as before.
        sizes["num_groups"] = max(
            1, backbone.num_groups * num_layers // backbone.num_layers
        )
    if sizes["num_layers"] % sizes["num_groups"]:
        raise ValueError(
            "`num_groups` must divide the number of layers. Received: num_groups="
            f"{sizes['num_groups']}, and num_layers={sizes['num_layers']}"
        )
    return sizes


def _check_counts(
    token_counts: npt.ArrayLike | None, vocabulary_size: int
) -> npt.NDArray[np.float64] | None:
    if token_counts is None:
        return None
    counts = np.asarray(token_counts, float)
    if counts.shape != (vocabulary_size,):
        raise ValueError(
            f"`token_counts` needs a number for each of the {vocabulary_size} tokens. "
            f"Received an array of shape {counts.shape}."
        )
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.any()):
        raise ValueError("`token_counts` must be finite, not negative, and not all 0.")
    return counts


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
        copy_weights(old, new)
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
