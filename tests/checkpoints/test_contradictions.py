"""Files of one checkpoint that contradict each other, in each format that has them."""

import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertTextEmbedder,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenizer,
)
from keras_albert.checkpoints import export_checkpoint
from tests.foreign_models import TINY, change_json
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcd"]
SIZES = TINY | {
    "vocabulary_size": len(PIECES),
    "num_layers": 2,
    "num_groups": 2,
    "embedding_dim": 16,
}
# The file of the vocabulary, and that of the config.
FORMATS = {
    "transformers": ("vocab.txt", "config.json"),
    "sentence-transformers": ("vocab.txt", "config.json"),
    "google": ("vocab.txt", "bert_config.json"),
    "keras-hub": ("assets/tokenizer/vocabulary.txt", None),
}


@pytest.fixture(params=FORMATS)
def checkpoint(request, tmp_path):
    if request.param == "google":
        pytest.importorskip("tensorflow")
    preprocessor = AlbertTextEmbedderPreprocessor(
        AlbertTokenizer(PIECES), max_sequence_length=24
    )
    embedder = AlbertTextEmbedder(AlbertBackbone(**SIZES), preprocessor)
    export_checkpoint(embedder, tmp_path, request.param)
    if (tmp_path / "vocab.txt").exists():
        # Transformers' second form of the same vocabulary.
        (tmp_path / "tokenizer.json").unlink(missing_ok=True)
    return tmp_path, *FORMATS[request.param]


def test_a_vocabulary_of_another_size_is_refused(checkpoint):
    directory, vocabulary, _ = checkpoint
    assert AlbertTextEmbedder.from_preset(directory).embed("a b").shape == (16,)
    (directory / vocabulary).write_text("\n".join([*PIECES, "more"]))
    message = r"has 10 tokens, but its weights embed 9.*Copy the vocabulary there"
    with pytest.raises(ValueError, match=message) as caught:
        AlbertTextEmbedder.from_preset(directory)
    assert str(directory) in str(caught.value)


def test_a_vocabulary_without_a_special_token_is_refused(checkpoint):
    directory, vocabulary, _ = checkpoint
    pieces = [piece.replace("[SEP]", "[END]") for piece in PIECES]
    (directory / vocabulary).write_text("\n".join(pieces))
    with pytest.raises(ValueError, match=r"vocab\w*\.txt.*\[SEP\]"):
        AlbertTextEmbedder.from_preset(directory)


@pytest.mark.parametrize(
    "checkpoint", [name for name in FORMATS if FORMATS[name][1]], indirect=True
)
def test_relative_positions_are_refused(checkpoint):
    directory, _, config = checkpoint
    change_json(directory / config, position_embedding_type="relative_key")
    message = rf"`position_embedding_type` in .*{config} must be 'absolute'.*correct"
    with pytest.raises(ValueError, match=message):
        AlbertTextEmbedder.from_preset(directory)
