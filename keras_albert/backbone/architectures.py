"""Named sizes of ALBERT."""

from typing import Any

# (layers, hidden width, heads). Paper, table 1, as released (xlarge: 16 heads of 128).
_PUBLISHED = {
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "xlarge": (24, 2048, 16),
    "xxlarge": (12, 4096, 64),
}
_SMALLER = {"tiny": (6, 256, 4), "small": (12, 512, 8)}


def _arguments(num_layers: int, hidden_dim: int, num_heads: int) -> dict[str, Any]:
    return {
        "num_layers": num_layers,
        "num_heads": num_heads,
        "embedding_dim": 128,
        "hidden_dim": hidden_dim,
        "intermediate_dim": 4 * hidden_dim,
    }


# Arguments of `AlbertBackbone` by the name of a size, for pretraining.
MODEL_SIZES = {
    name: _arguments(*size) for name, size in (_SMALLER | _PUBLISHED).items()
}


def architecture(size: str, version: int = 2) -> dict[str, Any]:
    """Return the constructor arguments of a published model.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), table 1, and the
    released configurations.

    Args:
        size: "base", "large", "xlarge" or "xxlarge".
        version: int. 1 or 2. Version 1 of all but xxlarge was trained with a dropout
            of 0.1; version 2 without. Defaults to `2`.

    Returns:
        Keyword arguments for `AlbertBackbone`.

    Raises:
        ValueError: If the size or version is unknown.

    Example:
        >>> from keras_albert.backbone import architecture
        >>> architecture("base")["hidden_dim"]
        768
    """
    if size not in _PUBLISHED or version not in (1, 2):
        msg = (
            f"`size` must be one of {', '.join(_PUBLISHED)}, and `version` 1 or 2. "
            f"Received: size={size!r}, version={version!r}"
        )
        raise ValueError(msg)
    dropout = 0.1 if version == 1 and size != "xxlarge" else 0.0
    return {
        "vocabulary_size": 30_000,
        **_arguments(*_PUBLISHED[size]),
        "dropout": dropout,
        "attention_dropout": dropout,
    }
