"""Built-in names of presets."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BuiltinPreset:
    """A model that `from_preset` finds by name.

    Args:
        name: string. The name.
        handle: string or `None`. The location of its files, as a handle that
            `from_preset` also accepts; `None` for a directory beside this file.
        size: string. Its size in `keras_albert.backbone.architecture`.
        version: int. 1 or 2.
    """

    name: str
    handle: str | None
    size: str
    version: int


# KerasHub's presets on Kaggle Models: the v2 weights. With a version in the handle,
# cached files are found without a request to the server.
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
        # All eight released models, on the Hugging Face Hub.
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
        # The bundled small model, made by `examples/albert_tiny.py`.
        BuiltinPreset("albert_tiny_en_uncased", handle=None, size="tiny", version=1),
    )
}
