"""The names that `from_preset` knows without being told where to look."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BuiltinPreset:
    """A model that `from_preset` finds by name.

    Args:
        name: string. The name.
        handle: string or `None`. Where its files are, as a handle that anyone can
            pass to `from_preset` instead; `None` for what lies beside this file.
        size: string. Its size in `keras_albert.backbone.architecture`.
        version: int. 1 or 2.
    """

    name: str
    handle: str | None
    size: str
    version: int


# KerasHub's names, as Kaggle Models keeps them: the v2 weights. With a version in
# the handle, what is in the cache is found without asking the server.
_KERAS_HUB = (
    ("base", "base", 5),
    ("large", "large", 3),
    ("extra_large", "xlarge", 3),
    ("extra_extra_large", "xxlarge", 3),
)

BUILTIN_PRESETS = {
    preset.name: preset
    for preset in (
        *(
            BuiltinPreset(
                name=f"albert_{long}_en_uncased",
                handle=f"kaggle://keras/albert/keras/albert_{long}_en_uncased/{number}",
                size=short,
                version=2,
            )
            for long, short, number in _KERAS_HUB
        ),
        # All eight released models, as the Hugging Face Hub keeps them.
        *(
            BuiltinPreset(
                name=f"albert_{size}_v{version}_en_uncased",
                handle=f"hf://albert/albert-{size}-v{version}",
                size=size,
                version=version,
            )
            for version in (1, 2)
            for _, size, _ in _KERAS_HUB
        ),
        # Our own small model: `examples/albert_tiny.py` makes it.
        BuiltinPreset("albert_tiny_en_uncased", handle=None, size="tiny", version=1),
    )
}
