"""Presets of this package: complete, checked, and built from their configs.

A preset may contain only the difference from one in this package: `metadata.json` names
the base, and `difference.safetensors` has what is added to its weights: arrays, and two
factors for each matrix that was trained with LoRA. The fine-tuned presets of this
package are stored so, by `examples/release.py`.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_albert.presets.checkpoint import (
    OWN_FORMAT,
    OWN_PACKAGE,
    Checkpoint,
    CheckpointFormat,
    Files,
    check_backbone_size,
    is_own_name,
)
from keras_albert.presets.handles import BUILTIN_PRESETS
from keras_albert.presets.preset_files import (
    CONFIG_FILE,
    DIFFERENCE_FILE,
    METADATA_FILE,
    PREPROCESSOR_FILE,
    TASK_FILE,
    TASK_WEIGHTS_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILES,
    stored_shapes,
    weights_path,
)
from keras_albert.presets.weight_files import (
    Shape,
    check_finite,
    head_weights,
    open_weights,
)
from keras_albert.utils.arguments import warn_of_depth
from keras_albert.utils.keras_internals import all_layers
from keras_albert.utils.reading import reading

BASE_KEY = "base_preset"
FACTORS = (".lora_a", ".lora_b")

# Configs that are stored twice: the key, the outer file and the inner file.
_SAID_TWICE = (
    ("backbone", TASK_FILE, CONFIG_FILE),
    ("preprocessor", TASK_FILE, PREPROCESSOR_FILE),
    ("tokenizer", PREPROCESSOR_FILE, TOKENIZER_FILE),
)


class Preset(Checkpoint):
    """A directory that `save_to_preset` wrote."""

    def config(self, name: str) -> dict[str, Any]:
        """Return the config in a file, after a check that Keras has serialized it."""
        config = self.files.json(name)
        for key, kind in (("registered_name", str), ("config", dict)):
            if not isinstance(config.get(key), kind):
                path = self.directory / name
                raise ValueError(f"{path} has no `{key}`. Save or copy it again.")
        return config

    @cached_property
    def base(self) -> "Preset | None":
        """The opened base, if the preset contains only the difference from one."""
        name: Any = self.files.json(METADATA_FILE).get(BASE_KEY)
        if name is None:
            return None
        packaged = [x.name for x in BUILTIN_PRESETS.values() if x.handle is None]
        if name not in packaged:
            raise ValueError(
                f"`{BASE_KEY}` in {self.directory / METADATA_FILE} must be one of "
                f"{', '.join(packaged)}. Received: {name!r:.80}."
            )
        return Preset(self.format, Files(Path(__file__).with_name(name)))

    def check(self, preprocessor: Any = "", **_: Any) -> None:
        here, has = self.directory, self.files.has
        if not has(CONFIG_FILE):
            raise ValueError(
                f"{self} contains no `{CONFIG_FILE}`, so it is not a preset. Pass the "
                "directory of a preset or of a released checkpoint."
            )
        name = self.config(CONFIG_FILE)["registered_name"]
        if not is_own_name(name):
            raise ValueError(
                f"{here / CONFIG_FILE} describes a {name!r}, which is not an ALBERT "
                "model. Pass another preset, or import the module of the class."
            )
        if has(TASK_WEIGHTS_FILE) and not has(TASK_FILE):
            raise _missing(here / TASK_FILE, here / TASK_WEIGHTS_FILE)
        self.files.json(METADATA_FILE)
        needs_text = preprocessor == ""
        for key, outer, inner in _SAID_TWICE:
            again = self.config(outer)["config"].get(key) if has(outer) else None
            if again is not None and has(inner):
                _check_equal(self.config(inner), again, here / inner, here / outer)
            elif again is not None and needs_text:
                raise _missing(here / inner, here / outer)
        if needs_text and has(TOKENIZER_FILE):
            rules = self.config(TOKENIZER_FILE)["config"].get("text_rules")
            name = VOCABULARY_FILES["split_cjk" in (rules or ())]
            if not has(name) and self.base is None:
                raise _missing(here / name, here / TOKENIZER_FILE)

    def backbone_arguments(self) -> dict[str, Any]:
        return self.config(CONFIG_FILE)["config"]

    def stored_shapes(self) -> list[Shape]:
        inherited = self.base.stored_shapes() if self.base else []
        return stored_shapes(self.files) + inherited

    def task_name(self) -> str | None:
        name = self.files.json(TASK_FILE).get("registered_name")
        return None if name is None else str(name).removeprefix(OWN_PACKAGE)

    @cached_property
    def saved_task(self) -> Any:
        """The class of the saved task, or `None`."""
        if not self.files.has(TASK_FILE):
            return None
        name = self.config(TASK_FILE)["registered_name"]
        saved = keras.saving.get_registered_object(name)
        is_task = isinstance(saved, type) and issubclass(saved, keras_hub.models.Task)
        if not (is_task and is_own_name(name)):
            raise ValueError(
                f"{self.directory / TASK_FILE} describes a {name!r}, which is not a "
                "known ALBERT task. Import the module that defines it."
            )
        return saved

    def task_class(self, task: type) -> type:
        saved = self.saved_task
        return saved if saved is not None and issubclass(saved, task) else task

    def task_arguments(self, task: type) -> dict[str, Any]:
        if self.task_class(task) is not self.saved_task:
            return {}
        config = copy.deepcopy(self.config(TASK_FILE)["config"])
        # It is compiled even if the saved one was not.
        others = {"backbone", "compile"}
        others |= {"preprocessor"} if config.get("preprocessor") is not None else set()
        return {name: config[name] for name in config if name not in others}

    def load_backbone(self, cls: Any, load_weights: bool = True, **kwargs: Any) -> Any:
        config = self.backbone_arguments()
        if not issubclass(_class(self.config(CONFIG_FILE)), cls):
            name = self.config(CONFIG_FILE)["registered_name"]
            raise ValueError(
                f"{self.directory / CONFIG_FILE} describes a {name!r}, which is not a "
                f"known {cls.__name__}. Import the module that defines it."
            )
        source = str(self.directory / CONFIG_FILE)
        check_backbone_size(config, self.stored_shapes(), source)
        warn_of_depth(kwargs.get("num_layers"), config["num_layers"])
        if kwargs.get("dtype") is None:
            # Floats are loaded in the current policy, quantized weights as they are.
            policy = config.get("dtype") or {}
            is_float = policy.get("class_name", "DTypePolicy") == "DTypePolicy"
            kwargs["dtype"] = None if is_float else policy
        backbone = _build(self.config(CONFIG_FILE), kwargs)
        if load_weights:
            self.load_weights(backbone)
        return backbone

    def load_tokenizer(self, cls: Any, **kwargs: Any) -> Any:
        if not self.files.has(TOKENIZER_FILE):
            raise ValueError(
                f"{self} has no `{TOKENIZER_FILE}`. Pass a `preprocessor` with one."
            )
        return self._with_vocabulary(_build(self.config(TOKENIZER_FILE), kwargs))

    def load_preprocessor(self, cls: Any, **kwargs: Any) -> Any:
        if self.files.has(PREPROCESSOR_FILE):
            config = self.config(PREPROCESSOR_FILE)
            if issubclass(_class(config), cls):
                built = _build(config, kwargs)
                if "tokenizer" not in kwargs:
                    self._with_vocabulary(built.tokenizer)
                return built
        return super().load_preprocessor(cls, **kwargs)

    def read_vocabulary(self) -> bytes:
        return self.load_tokenizer(None).proto

    def _with_vocabulary(self, tokenizer: Any) -> Any:
        """Return a tokenizer after loading its vocabulary, from here or the base."""
        if tokenizer is not None:
            asset = self.directory / "assets/tokenizer" / tokenizer.file_assets[0]
            if self.base is not None and not asset.exists():
                asset = self.base.directory / "assets/tokenizer" / asset.name
            tokenizer.load_assets(str(asset.parent))
        return tokenizer

    def load_weights(
        self, model: Any, keep_head: bool = False, keep_backbone: bool = False
    ) -> None:
        if not keep_backbone:
            backbone = getattr(model, "backbone", model)
            if self.base is None:
                backbone.load_weights(str(weights_path(self.directory)))
            else:
                changes = read_difference(self.directory / DIFFERENCE_FILE, backbone)
                self.base.load_weights(backbone)
                add_difference(backbone, changes)
        if not hasattr(model, "backbone") or self.saved_task is None:
            return
        path = self.directory / TASK_WEIGHTS_FILE
        if type(model) is not self.saved_task:
            # The layers of a head that mean the same in another task.
            traits = getattr(self.saved_task, "traits", None)
            names = set(getattr(traits, "shared_head_layers", ()))
            names &= set(model.traits.shared_head_layers)
            if names:
                others = [layer for layer in model.layers if layer.name not in names]
                others += [*all_layers(model.backbone), model.optimizer]
                check_finite(path)
                keras.saving.load_weights(model, path, objects_to_skip=others)
            return
        if keep_head:
            return
        if path.exists():
            model.load_task_weights(path)
        elif any(weight.trainable for weight in head_weights(model)):
            raise ValueError(
                f"{path} is missing: the weights of the head. Copy the preset again, "
                "or pass `num_classes` for a new head."
            )


class PresetFormat(CheckpointFormat):
    """Presets of this package."""

    name, key, opened = "keras_albert", OWN_FORMAT, Preset

    def recognizes(self, files: Files) -> bool:
        return is_own_name(files.json(CONFIG_FILE).get("registered_name"))

    def write(self, model: Any, directory: Path, vocabulary: bytes | None) -> None:
        model.save_to_preset(directory)
        if vocabulary is not None and not hasattr(model, "backbone"):
            name = f"{OWN_PACKAGE}AlbertTokenizer"
            cls: Any = keras.saving.get_registered_object(name)
            cls(vocabulary, text_rules="keep").save_to_preset(directory)

    def names(self, model: Any) -> dict[str, str]:
        return {weight.path: weight.path for weight in model.weights}


FORMATS = (PresetFormat(),)


def _class(config: Mapping[str, Any]) -> Any:
    """Return the class of a config; `object` if it is not registered."""
    return keras.saving.get_registered_object(config["registered_name"]) or object


def _build(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    complete = copy.deepcopy(dict(config))
    complete["config"] |= arguments
    return keras.saving.deserialize_keras_object(complete)


def _missing(path: Path, named_by: Path) -> ValueError:
    return ValueError(
        f"{path} is missing, but {named_by} refers to it. Copy the whole preset again."
    )


def _check_equal(first: Any, second: Any, file: Path, other: Path) -> None:
    for where, one, two in _differences(first, second):
        raise ValueError(
            f"{file} and {other} contradict each other: `{where}` is {one!r:.80} and "
            f"{two!r:.80}. Copy the whole preset again, or change both."
        )


def _differences(
    first: Any, second: Any, where: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences of two configs, except the names of layers."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        # NaN differs from itself.
        if first != second and repr(first) != repr(second):
            yield where, first, second
        return
    for key in sorted({*first, *second} - {"name"}):
        inner = where if key == "config" else f"{where}.{key}".lstrip(".")
        yield from _differences(first.get(key), second.get(key), inner)


def read_difference(path: Path, backbone: Any) -> dict[str, Any]:
    """Return what to add to the weights of a base, by their paths."""
    shapes = {weight.path: tuple(weight.shape) for weight in backbone.weights}
    changes = {}
    with reading(path):
        tensors = open_weights(path)
        stored = {name: x.read().astype("float32") for name, x in tensors.items()}
        for name in {re.sub(r"\.lora_[ab]$", "", each) for each in stored}:
            if name in stored:
                change = stored[name]
            else:
                first, second = (stored[f"{name}{end}"] for end in FACTORS)
                change = first @ second
            if change.shape != shapes.get(name) or not np.isfinite(change).all():
                raise ValueError(f"its {name!r} has a wrong shape, or is not finite")
            changes[name] = change
    return changes


def add_difference(backbone: Any, changes: dict[str, Any]) -> None:
    """Add to the weights of a base that a backbone has loaded."""
    for weight in backbone.weights:
        if weight.path in changes:
            weight.assign(ops.convert_to_numpy(weight) + changes[weight.path])
