"""Converting checkpoints between formats, with a comparison of their outputs."""

import importlib.util
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert import tasks
from keras_albert.backbone import AlbertBackbone
from keras_albert.checkpoints.weight_map import backbone_of, variables_by_path
from keras_albert.preprocessors import AlbertTokenizer
from keras_albert.presets.checkpoint import (
    OWN_FORMAT,
    Checkpoint,
    CheckpointFormat,
    Files,
    get_format,
    open_checkpoint,
)
from keras_albert.presets.handles import local_directory
from keras_albert.presets.preset_files import write_checkpoint
from keras_albert.tasks.cloning import merge_adapters
from keras_albert.tasks.presets import check_vocabulary_size
from keras_albert.utils.arguments import MissingArgumentError, check_choice
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.remote import check_new_address, is_remote, output_path

Arrays = dict[str, Any]

# Relative to the largest output, or absolute if that is below 1.
_TOLERANCE = 2e-5

_ROWS, _LENGTH = 3, 12


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Args:
        model: string. The class of the model in this package.
        weights: Tuples of the variable's path, its names in the source and in the
            target (empty if there is none), and its shape.
        differences: dict. For each reader of the new files, the largest absolute
            difference of an output on the probe batch.

    Example:
        >>> from keras_albert.checkpoints import convert_checkpoint
        >>> done = convert_checkpoint(
        ...     "albert_tiny_en_uncased", "theirs", "transformers")
        >>> done.model, done.weights[0][2]
        ('AlbertMaskedLM', 'albert.embeddings.word_embeddings.weight')
    """

    model: str
    weights: tuple[tuple[str, str, str, tuple[int, ...]], ...]
    differences: dict[str, float]


def convert_checkpoint(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: str,
    task: str | None = None,
    with_vocabulary: bool = True,
) -> Conversion:
    """Convert a checkpoint, and check that the result computes the same.

    The new files are loaded again, here and by the other library if it is installed,
    and a small batch is run. If outputs differ, nothing is written.

    Args:
        source: As in `from_preset`.
        target: string or path. A directory that does not exist.
        to: string. "keras-albert", "transformers", "sentence-transformers",
            "keras-hub" or "google".
        task: string or `None`. The class to load it as, for instance
            "AlbertClassifier", or "AlbertBackbone". Defaults to `None`: the class of
            the checkpoint's head.
        with_vocabulary: bool. `False` converts only the weights. Defaults to `True`.

    Returns:
        The mapping of weights, and the differences.

    Raises:
        ValueError: If the source cannot be read, the target format does not support
            the model, or the outputs differ.
        FileExistsError: If the target exists.

    Example:
        >>> from keras_albert.checkpoints import convert_checkpoint
        >>> done = convert_checkpoint(
        ...     "albert_tiny_en_uncased", "theirs", "transformers")
        >>> max(done.differences.values()) < 1e-3
        True
    """
    path = output_path(target)
    if is_remote(path):
        check_new_address(path)
    elif path.exists():
        raise FileExistsError(f"{path} already exists. Choose a new directory.")
    written = get_format(to)
    directory = local_directory(source)
    if directory is None:
        raise ValueError(f"{source} must be downloaded first. Pass a local directory.")
    checkpoint = open_checkpoint(directory)
    cls = find_class(task) if task else class_of(checkpoint)
    model, tokenizer = _load(cls, checkpoint, with_vocabulary)
    written = written.for_model(model)
    if written.key != OWN_FORMAT:
        model = merge_adapters(model)
    with atomic_directory(path) as temporary:
        written.write(model, temporary, getattr(tokenizer, "proto", None))
        differences = _verify(model, written, temporary)
    variables = variables_by_path(model)
    before, after = (each.names(model) for each in (checkpoint.format, written))
    weights = tuple(
        (path, before.get(path, ""), after.get(path, ""), tuple(variable.shape))
        for path, variable in variables.items()
    )
    return Conversion(cls.__name__, weights, differences)


def export_checkpoint(
    model: keras.Model,
    directory: str | os.PathLike[str],
    format: str,  # noqa: A002  (as in `export`)
    tokenizer: AlbertTokenizer | None = None,
) -> Path:
    """Write a checkpoint that another library loads without this package.

    Args:
        model: A backbone or a task.
        directory: string or path. The directory to write.
        format: string. `"transformers"`, as `export_to_transformers` writes it;
            `"sentence-transformers"`, a folder for `SentenceTransformer(directory)`,
            of a text embedder; `"keras-hub"`, a preset of KerasHub; or `"google"`, a
            checkpoint of google-research's ALBERT or BERT, which needs TensorFlow, on
            any backend.
        tokenizer: An `AlbertTokenizer`. Defaults to `None`: the model's, which a
            backbone does not have.

    Returns:
        The directory.

    Raises:
        ValueError: If the library has no model with this head or these settings, or
            weights are quantized or not finite.
        ImportError: If a format needs TensorFlow, which is not installed.
        NotADirectoryError: If `directory` is a file.
        FileExistsError: If it contains files of another checkpoint.

    Example:
        >>> from keras_albert import AlbertTextEmbedder
        >>> from keras_albert.checkpoints import export_checkpoint
        >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
        >>> path = export_checkpoint(embedder, "mine", "sentence-transformers")
        >>> (path / "modules.json").exists()
        True
    """
    return write_checkpoint(model, directory, format, tokenizer)


def _load(cls: Any, checkpoint: Any, with_vocabulary: bool) -> tuple[Any, Any]:
    if cls is AlbertBackbone:
        model = cls.from_preset(checkpoint, dtype="float32")
        if not with_vocabulary:
            return model, None
        tokenizer = AlbertTokenizer.from_preset(checkpoint)
        check_vocabulary_size(model, tokenizer, checkpoint)
        return model, tokenizer
    options = {} if with_vocabulary else {"preprocessor": None}
    model = cls.from_preset(checkpoint, dtype="float32", **options)
    return model, getattr(model.preprocessor, "tokenizer", None)


def probe_batch(model: keras.Model) -> dict[str, Any]:
    """Return a batch for any model: a full row, a pair, and a short row."""
    rng = np.random.default_rng(0)
    backbone = backbone_of(model)
    length = min(_LENGTH, backbone.max_sequence_length)
    ids = rng.integers(0, backbone.vocabulary_size, (_ROWS, length))
    padding_mask = np.arange(length) < np.array([[length], [length - 2], [length // 2]])
    segment_ids = np.arange(length) >= np.array([[length], [3], [3]])
    batch = {
        "token_ids": ids * padding_mask,
        "segment_ids": segment_ids * padding_mask,
        "padding_mask": padding_mask,
        "mask_positions": np.tile(np.arange(1, 4), (_ROWS, 1)),
    }
    inputs: dict[str, Any] = {}
    for name, tensor in model.input.items():
        # In any other input, -1 leaves the choice to the model.
        value = batch.get(name, np.full((_ROWS, 2), -1))
        if len(tensor.shape) == 3:
            value = np.stack([value, np.roll(value, 1, axis=0)], axis=1)
        inputs[name] = value.astype("int32")
    return inputs


def _verify(
    model: keras.Model, target: CheckpointFormat, directory: Path
) -> dict[str, float]:
    inputs = probe_batch(model)
    expected = _outputs(model(inputs))
    found = {"keras_albert": _outputs(_reload(model, target, directory)(inputs))}
    found |= peer_outputs(target.key, model, directory, inputs)
    if "pooler/kernel" not in target.names(model):
        # It has no pooler, and the reloaded model has a new one.
        found["keras_albert"].pop("pooled_output", None)
    differences = {}
    for reader, outputs in found.items():
        largest = 0.0
        for name, output in outputs.items():
            # Values far below all others mean minus infinity.
            is_open = expected[name] > -1e4
            difference = np.where(is_open, np.abs(output - expected[name]), 0.0).max()
            scale = max(1.0, np.abs(np.where(is_open, expected[name], 0.0)).max())
            # Also true for NaN.
            if not difference <= _TOLERANCE * scale:
                raise ValueError(
                    f"{reader} computes a different `{name}` from the new files: the "
                    f"largest difference is {difference:.2e}. Nothing was written."
                )
            largest = max(largest, float(difference))
        differences[reader] = largest
    return differences


def _reload(
    model: keras.Model, target: CheckpointFormat, directory: Path
) -> keras.Model:
    """Load the new files into a model with the same head."""
    is_task = model is not backbone_of(model)
    checkpoint = target.open(Files(directory))
    if target.key == OWN_FORMAT:
        options = {"preprocessor": None} if is_task else {}
        return type(model).from_preset(checkpoint, **options)
    again = checkpoint.load_backbone(AlbertBackbone, load_weights=False)
    if is_task:
        config = model.get_config() | {"backbone": again, "preprocessor": None}
        again = type(model).from_config(config)
    checkpoint.load_weights(again)
    return again


def _outputs(outputs: Any) -> Arrays:
    named = outputs if isinstance(outputs, dict) else {"output": outputs}
    return {
        name: np.asarray(keras.ops.convert_to_numpy(value), "float32")
        for name, value in named.items()
    }


def peer_outputs(
    key: str, model: keras.Model, directory: Path, inputs: Arrays
) -> dict[str, Arrays]:
    """Run a batch by the other library: outputs by our names, under the library's."""
    # Empty if there is no library, it is not installed, or it has no such class.
    if key.startswith("keras-hub"):
        return {"KerasHub": _from_keras_hub(model, directory, inputs)}
    installed = all(map(importlib.util.find_spec, ("transformers", "torch")))
    if key.startswith("transformers") and installed:
        return {"transformers": _from_transformers(model, directory, inputs)}
    return {}


def _from_keras_hub(model: keras.Model, directory: Path, inputs: Arrays) -> Arrays:
    written: Any = open_checkpoint(directory).format
    foreign = written.head_for(model).foreign
    if foreign.endswith("Backbone"):
        theirs = getattr(keras_hub.models, foreign).from_preset(str(directory))
        outputs = theirs(inputs)
        # A task without head weights pools the outputs in a different way.
        return {} if hasattr(model, "backbone") else _outputs(outputs)
    cls = getattr(keras_hub.models, foreign)
    theirs = cls.from_preset(str(directory), preprocessor=None)
    return _outputs({"output": theirs(inputs)})


def _from_transformers(model: keras.Model, directory: Path, inputs: Arrays) -> Arrays:
    import torch  # noqa: PLC0415  (both are only needed here)
    import transformers  # noqa: PLC0415

    written: Any = open_checkpoint(directory).format
    foreign = written.head_for(model).foreign
    bars = transformers.utils.logging
    with ExitStack() as shown:
        # The files are local.
        if bars.is_progress_bar_enabled():
            bars.disable_progress_bar()
            shown.callback(bars.enable_progress_bar)
        theirs = getattr(transformers, foreign).from_pretrained(directory)
    renamed = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    if theirs.config.model_type != "distilbert":
        renamed |= {"token_type_ids": "segment_ids"}
    ids = {name: torch.from_numpy(inputs[own]).long() for name, own in renamed.items()}
    with torch.no_grad():
        outputs = theirs.eval()(**ids)
    found = {name: value.numpy() for name, value in outputs.items()}
    is_sop = "sop_logits" in found
    names = {
        "output": "logits",
        "sequence_output": "last_hidden_state",
        "pooled_output": "pooler_output",
        "masked_lm": "prediction_logits",
        "sentence_order": "sop_logits" if is_sop else "seq_relationship_logits",
        "start_logits": "start_logits",
        "end_logits": "end_logits",
    }
    own = model.output if isinstance(model.output, dict) else {"output": model.output}
    outputs = {name: found[names[name]] for name in own if names.get(name) in found}
    if "mask_positions" in inputs:
        # transformers returns logits at all positions, `model` only at masked ones.
        where = inputs["mask_positions"][..., None]
        outputs = {
            name: np.take_along_axis(value, where, axis=1) if value.ndim == 3 else value
            for name, value in outputs.items()
        }
    activate = getattr(model, "activation", None)
    if activate in (keras.activations.softmax, keras.activations.sigmoid):
        outputs = {
            name: np.asarray(keras.ops.convert_to_numpy(activate(value)))
            for name, value in outputs.items()
        }
    return outputs


def find_class(name: str) -> Any:
    """Return the class of a task, or `AlbertBackbone`, by its name."""
    known: dict[str, Any] = {AlbertBackbone.__name__: AlbertBackbone}
    exported = ((each, getattr(tasks, each)) for each in tasks.__all__)
    known |= {each: value for each, value in exported if isinstance(value, type)}
    check_choice(sorted(known), task=name)
    return known[name]


def class_of(checkpoint: Checkpoint) -> Any:
    """Return the class of a checkpoint's head: a task, or `AlbertBackbone`."""
    return find_class(checkpoint.task_name() or AlbertBackbone.__name__)


def load_task(
    preset: str | os.PathLike[str], task: str | None = None, **kwargs: Any
) -> Any:
    """Load a task from any handle of `from_preset`."""
    directory = local_directory(preset)
    source: Any = preset if directory is None else open_checkpoint(directory)
    cls: Any = AlbertBackbone
    if task is not None:
        cls = find_class(task)
    elif directory is not None:
        cls = class_of(source)
    if cls is AlbertBackbone:
        raise ValueError(
            f"{preset} does not say what task it was trained for. Fine-tune it first, "
            "or choose the class with --task, for instance AlbertTextEmbedder."
        )
    try:
        return cls.from_preset(source, **kwargs)
    except MissingArgumentError as error:
        raise ValueError(
            f"{preset} has no head of an {cls.__name__}. Train one first: "
            "`keras-albert finetune TASK --preset ...`."
        ) from error
