"""Checkpoints of Model Garden and SavedModels of TF-Hub, read as google-research's."""

from dataclasses import replace
from pathlib import Path

import keras

from keras_albert.backbone import AlbertBackbone
from keras_albert.conversion.google.format import GoogleFormat
from keras_albert.conversion.google.model_garden import (
    garden_objects,
    garden_variables,
)
from keras_albert.conversion.google.names import ALBERT, BERT
from keras_albert.conversion.weight_map import Array, WeightMap
from keras_albert.presets.checkpoint import Files
from keras_albert.text.tokenizer.word_piece import is_word_piece, parse_word_piece
from keras_albert.utils.atomic_files import temporary_directory
from keras_albert.utils.tensorflow_process import run_in_tensorflow


class ModelGardenFormat(GoogleFormat):
    """A `tf.train.Checkpoint` of an encoder, and of a masked LM's head."""

    def recognizes(self, files: Files) -> bool:
        """Return `False`: their names are google-research's when they are read."""
        return False

    def check_layers(self, backbone: AlbertBackbone) -> None:
        """Check that all layers of an ALBERT are one."""
        is_bert = self.weight_map.block is BERT.block
        if not is_bert and backbone.num_groups * backbone.num_inner_repetitions > 1:
            msg = (
                f"All layers of {self.name}'s ALBERT are one. Received a model with "
                f"num_groups={backbone.num_groups} and num_inner_repetitions="
                f"{backbone.num_inner_repetitions}. Export it with layout='google'."
            )
            raise ValueError(msg)

    def write_tensors(
        self, prefix: Path, tensors: dict[str, Array], num_heads: int
    ) -> None:
        """Write the objects of an encoder."""
        garden_objects(garden_variables(tensors, num_heads)).save(str(prefix))


class TFHubFormat(ModelGardenFormat):
    """A SavedModel of such objects, with its config beside it."""

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        """Write a SavedModel; a process with the TensorFlow backend makes the graph."""
        lowercases = ""
        if vocabulary is not None and is_word_piece(vocabulary):
            lowercases = str(parse_word_piece(vocabulary).rules.lowercase)
        with temporary_directory(directory) as source:
            super().write(model, source, vocabulary)
            program = "keras_albert.conversion.google.write_saved_model"
            arguments = (str(source), str(directory), lowercases)
            run_in_tensorflow("SavedModel", program, *arguments)


def _with_their_heads(weight_map: WeightMap) -> WeightMap:
    known = ("AlbertMaskedLM", "AlbertBackbone", "AlbertTextEmbedder")
    heads = tuple(head for head in weight_map.heads if head.task in known)
    return replace(weight_map, heads=heads)


_ALBERT, _BERT = map(_with_their_heads, (ALBERT, BERT))
_FILES = ("albert_config.json", "albert_model.ckpt")
_BERT_FILES = ("bert_config.json", "bert_model.ckpt")
MODEL_GARDEN, TF_HUB = (
    kind(key, name, _ALBERT, *_FILES, kind(f"{key}-bert", name, _BERT, *_BERT_FILES))
    for kind, key, name in (
        (ModelGardenFormat, "model-garden", "TensorFlow Model Garden"),
        (TFHubFormat, "tf-hub", "TF-Hub"),
    )
)
