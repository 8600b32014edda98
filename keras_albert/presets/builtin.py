"""The names that `from_preset` knows without being told where to look."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BuiltinPreset:
    """A model that `from_preset` finds by name.

    Args:
        name: string. The name.
        handle: string or `None`. Where its files are, as a handle that anyone can
            pass to `from_preset` instead; `None` where no weights are released.
        size: string. Its size in `keras_albert.backbone.architecture`.
        version: int. 1 or 2.
    """

    name: str
    handle: str | None
    size: str
    version: int


_KERAS_HUB_SIZES = {
    "base": "base",
    "large": "large",
    "extra_large": "xlarge",
    "extra_extra_large": "xxlarge",
}

# KerasHub's four names are the v2 weights, as Kaggle Models keeps them; all eight
# released models lie on the Hugging Face Hub in transformers' format.
BUILTIN_PRESETS = {
    preset.name: preset
    for preset in (
        *(
            BuiltinPreset(
                name=f"albert_{long}_en_uncased",
                handle=f"kaggle://keras/albert/keras/albert_{long}_en_uncased",
                size=short,
                version=2,
            )
            for long, short in _KERAS_HUB_SIZES.items()
        ),
        *(
            BuiltinPreset(
                name=f"albert_{size}_v{version}_en_uncased",
                handle=f"hf://albert/albert-{size}-v{version}",
                size=size,
                version=version,
            )
            for version in (1, 2)
            for size in _KERAS_HUB_SIZES.values()
        ),
    )
}
