"""Presets of KerasHub's BERT."""

import keras_hub
import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertMaskedLM,
    AlbertTextEmbedder,
)
from keras_albert.checkpoints import convert_checkpoint, export_checkpoint
from keras_albert.checkpoints.convert import probe_batch
from tests.compiled import to_numpy
from tests.one_backend import on_one_backend
from tests.random_weights import fill_weights

pytestmark = on_one_backend

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcd", "##b", "##c"]
TEXTS = ["a b Bc", "dcb a", "z"]


@pytest.fixture(scope="module")
def theirs():
    """A classifier of KerasHub."""
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(PIECES),
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        max_sequence_length=24,
    )
    tokenizer = keras_hub.tokenizers.BertTokenizer(PIECES, lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=12
    )
    task = keras_hub.models.BertTextClassifier(
        backbone, num_classes=3, preprocessor=preprocessor
    )
    return fill_weights(task, 4)


def test_a_classifier_is_the_same_on_both_sides(theirs, tmp_path):
    theirs.save_to_preset(str(tmp_path / "theirs"))
    ours = AlbertClassifier.from_preset(tmp_path / "theirs")
    assert (ours.backbone.num_groups, ours.backbone.embedding_dim) == (2, 16)
    assert ours.preprocessor.sequence_length == 12
    expected = theirs.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(ours.predict(TEXTS, verbose=0), expected, atol=2e-5)

    export_checkpoint(ours, tmp_path / "again", "keras-hub")
    again = keras_hub.models.BertTextClassifier.from_preset(str(tmp_path / "again"))
    for mine, other in zip(again.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(mine), to_numpy(other))
    found = again.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_masked_lm_is_the_same_on_both_sides(theirs, tmp_path):
    """Its head has the erf form of GELU, and the encoder the tanh form."""
    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(
        theirs.preprocessor.tokenizer, sequence_length=12, mask_selection_length=4
    )
    masked_lm = keras_hub.models.BertMaskedLM(theirs.backbone, preprocessor)
    fill_weights(masked_lm, 5).save_to_preset(str(tmp_path / "theirs"))
    ours = AlbertMaskedLM.from_preset(tmp_path / "theirs")
    assert ours.preprocessor.sequence_length == 12
    inputs = probe_batch(ours)
    expected = to_numpy(masked_lm(inputs))
    np.testing.assert_allclose(to_numpy(ours(inputs)), expected, rtol=0, atol=2e-5)

    ours.save_to_preset(tmp_path / "ours")
    ours = AlbertMaskedLM.from_preset(tmp_path / "ours")
    export_checkpoint(ours, tmp_path / "again", "keras-hub")
    again = keras_hub.models.BertMaskedLM.from_preset(str(tmp_path / "again"))
    for mine, other in zip(again.weights, masked_lm.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(mine), to_numpy(other))
    np.testing.assert_allclose(to_numpy(again(inputs)), expected, atol=1e-6)
    with pytest.raises(ValueError, match="activation='gelu', only with 'gelu_approx"):
        ours.export_to_transformers(tmp_path / "no")


def test_a_backbone_is_read_and_converted(theirs, tmp_path):
    theirs.backbone.save_to_preset(str(tmp_path / "theirs"))
    theirs.preprocessor.tokenizer.save_to_preset(str(tmp_path / "theirs"))
    backbone = AlbertBackbone.from_preset(tmp_path / "theirs")
    inputs = probe_batch(backbone)
    expected = to_numpy(theirs.backbone(inputs))
    for name, value in to_numpy(backbone(inputs)).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=2e-5)
    assert AlbertTextEmbedder.from_preset(tmp_path / "theirs").embed("a").shape == (16,)
    done = convert_checkpoint(tmp_path / "theirs", tmp_path / "hub", "keras-hub")
    assert done.differences.keys() == {"keras_albert", "KerasHub"}
    done = convert_checkpoint(tmp_path / "theirs", tmp_path / "hf", "transformers")
    assert max(done.differences.values()) < 2e-5
