"""A program that writes the SavedModel of a checkpoint of Model Garden, as TF-Hub's.

KERAS_BACKEND=tensorflow python -m keras_albert.checkpoints.google.write_saved_model \
    FROM TO LOWERCASES

Source: `export_tfhub_lib.py` of tf-models-official.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_albert.backbone import AlbertBackbone
from keras_albert.checkpoints.convert import class_of
from keras_albert.checkpoints.google.format import GoogleCheckpoint
from keras_albert.checkpoints.google.names import garden_objects, garden_variables
from keras_albert.checkpoints.weight_map import backbone_of, variables_by_path
from keras_albert.presets.checkpoint import open_checkpoint

_INPUTS = {
    "input_word_ids": "token_ids",
    "input_mask": "padding_mask",
    "input_type_ids": "segment_ids",
}
_POSITIONS = "masked_lm_positions"


def write_saved_model(source: Path, target: Path, lowercases: bool | None) -> None:
    """Write the SavedModel of a checkpoint, and its config."""
    opened = open_checkpoint(source)
    if not isinstance(opened, GoogleCheckpoint):
        raise TypeError(f"{source} is not a checkpoint of Model Garden")
    cls, stored = class_of(opened), opened.format
    is_backbone = cls is AlbertBackbone
    model = cls.from_preset(source, **({} if is_backbone else {"preprocessor": None}))
    backbone, names = backbone_of(model), stored.names(model)
    variables = garden_variables(stored.dump(model), backbone.num_heads)
    weights = [
        (weight, variables[names[path]])
        for path, weight in variables_by_path(model).items()
    ]

    def run(inputs: dict[str, Any]) -> dict[str, Any]:
        values = [
            (weight, tf.reshape(value, weight.shape)) for weight, value in weights
        ]
        with keras.StatelessScope(values):
            found = backbone.all_outputs(
                {ours: inputs[name] for name, ours in _INPUTS.items()}
            )
            outputs = {
                "default": found["pooled_output"],
                "pooled_output": found["pooled_output"],
                "sequence_output": found["sequence_output"],
                "encoder_outputs": found["hidden_states"][1:],
            }
            if _POSITIONS in inputs:
                outputs["mlm_logits"] = model.masked_lm_head(
                    found["sequence_output"], inputs[_POSITIONS]
                )
        return outputs

    def serve(input_word_ids: Any, input_mask: Any, input_type_ids: Any) -> Any:
        inputs = (input_word_ids, input_mask, input_type_ids)
        outputs = run(dict(zip(_INPUTS, inputs, strict=True)))
        # A signature has tensors only.
        layers = enumerate(outputs.pop("encoder_outputs"))
        return outputs | {f"encoder_outputs_{number}": each for number, each in layers}

    def specs(*names: str) -> dict[str, Any]:
        return {name: tf.TensorSpec((None, None), tf.int32, name) for name in names}

    root = garden_objects(variables)
    root.variables = root.trainable_variables = list(variables.values())
    root.regularization_losses = []
    root.__call__ = tf.function(run, [specs(*_INPUTS)], autograph=False)
    if not is_backbone:
        root.mlm = tf.function(run, [specs(*_INPUTS, _POSITIONS)], autograph=False)
    if lowercases is not None:
        root.do_lower_case = tf.Variable(lowercases, trainable=False)
    if (vocabulary := opened.find_vocabulary()) is not None:
        kind = "vocab_file" if vocabulary.suffix == ".txt" else "sp_model_file"
        setattr(root, kind, tf.saved_model.Asset(str(vocabulary)))
    signature = tf.function(serve, [*specs(*_INPUTS).values()], autograph=False)
    tf.saved_model.save(root, str(target), {"serving_default": signature})
    for config in source.glob("*_config.json"):
        shutil.copy(config, target)


if __name__ == "__main__":
    start, end, lower = sys.argv[1:]
    write_saved_model(Path(start), Path(end), lower == "True" if lower else None)
