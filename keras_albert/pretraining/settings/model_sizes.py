"""Named model sizes for pretraining."""

from typing import Any

from keras_albert.backbone.architectures import architecture

_OURS: dict[str, dict[str, Any]] = {
    "tiny": {
        "num_layers": 6,
        "num_heads": 4,
        "embedding_dim": 128,
        "hidden_dim": 256,
        "intermediate_dim": 1024,
    },
    "small": {
        "num_layers": 12,
        "num_heads": 8,
        "embedding_dim": 128,
        "hidden_dim": 512,
        "intermediate_dim": 2048,
    },
}


def _published(size: str) -> dict[str, Any]:
    arguments = architecture(size)
    # It depends on the data.
    del arguments["vocabulary_size"]
    return arguments


# Arguments of `AlbertBackbone` by name.
MODEL_SIZES: dict[str, dict[str, Any]] = _OURS | {
    size: _published(size) for size in ("base", "large", "xlarge", "xxlarge")
}
