"""Outputs of another library for files that were written for it."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.presets.checkpoint_formats import find_format

Arrays = dict[str, Any]


def peer_outputs(
    key: str, model: keras.Model, directory: Path, inputs: Arrays
) -> dict[str, Arrays]:
    """Load a directory with the other library, and run a batch."""
    if key.startswith("keras-hub"):
        return {"KerasHub": _from_keras_hub(model, directory, inputs)}
    installed = all(map(importlib.util.find_spec, ("transformers", "torch")))
    if key.startswith("transformers") and installed:
        return {"transformers": _from_transformers(model, directory, inputs)}
    return {}


def _from_keras_hub(model: keras.Model, directory: Path, inputs: Arrays) -> Arrays:
    written: Any = find_format(directory)
    foreign = written.head_for(model).foreign
    if foreign.endswith("Backbone"):
        theirs = getattr(keras_hub.models, foreign).from_preset(str(directory))
        outputs = theirs(inputs)
        # A task without head weights pools the outputs in a different way.
        return {} if hasattr(model, "backbone") else _as_numpy(outputs)
    cls = getattr(keras_hub.models, foreign)
    theirs = cls.from_preset(str(directory), preprocessor=None)
    return _as_numpy({"output": theirs(inputs)})


def _as_numpy(outputs: Arrays) -> Arrays:
    return {
        name: np.asarray(keras.ops.convert_to_numpy(value))
        for name, value in outputs.items()
    }


@contextmanager
def _without_progress_bars(settings: Any) -> Iterator[None]:
    """Hide the progress bars of transformers, as the files are local."""
    were_shown = settings.is_progress_bar_enabled()
    settings.disable_progress_bar()
    try:
        yield
    finally:
        if were_shown:
            settings.enable_progress_bar()


def _from_transformers(model: keras.Model, directory: Path, inputs: Arrays) -> Arrays:
    import torch  # noqa: PLC0415  (both are only needed here)
    import transformers  # noqa: PLC0415

    written: Any = find_format(directory)
    foreign = written.head_for(model).foreign
    with _without_progress_bars(transformers.utils.logging):
        theirs, loading = getattr(transformers, foreign).from_pretrained(
            directory, output_loading_info=True
        )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if loading[kind]:
            msg = f"transformers has {kind} in {directory}: {sorted(loading[kind])}"
            raise ValueError(msg)
    renamed = {"input_ids": "token_ids", "attention_mask": "padding_mask"}
    if theirs.config.model_type != "distilbert":
        renamed |= {"token_type_ids": "segment_ids"}
    with torch.no_grad():
        outputs = theirs.eval()(
            **{
                name: torch.from_numpy(inputs[own]).long()
                for name, own in renamed.items()
            }
        )
    found = {name: value.numpy() for name, value in outputs.items()}
    names = {
        "output": "logits",
        "sequence_output": "last_hidden_state",
        "pooled_output": "pooler_output",
        "masked_lm": "prediction_logits",
        "sentence_order": (
            "sop_logits" if "sop_logits" in found else "seq_relationship_logits"
        ),
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
    applied: dict[Any, Any] = {
        keras.activations.softmax: lambda logits: logits.softmax(-1),
        keras.activations.sigmoid: torch.sigmoid,
    }
    activate = applied.get(getattr(model, "activation", None))
    if activate is not None:
        outputs = {
            name: np.asarray(activate(torch.from_numpy(value)))
            for name, value in outputs.items()
        }
    return outputs
