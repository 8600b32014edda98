"""WordPiece vocabularies in the files of transformers, of an ALBERT and of a BERT."""

import json
import shutil

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertTokenizer,
)
from keras_albert.checkpoints import export_checkpoint
from keras_albert.text.tokenizer import sentencepiece_file as sentencepiece_proto
from keras_albert.text.tokenizer.text_rules import TextRules, add_text_rules
from keras_albert.text.tokenizer.word_piece import WordPieceRules
from tests.foreign_models import TINY, change_config, change_json
from tests.one_backend import on_one_backend
from tests.random_weights import fill_weights

pytestmark = on_one_backend

SPECIAL = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = ["[unused0]", "[PAD]", *SPECIAL, *"abcé", *(f"##{c}" for c in "abcé"), "C"]
TEXTS = ["a bé", ("abc", "C é"), "z " * 40]


def _classifier(bert, rules="auto"):
    sizes = TINY | {"num_layers": 2, "vocabulary_size": len(PIECES)}
    if bert:
        sizes |= {"embedding_dim": 16, "num_groups": 2}
    preprocessor = AlbertClassifierPreprocessor(
        AlbertTokenizer(PIECES, text_rules=rules), max_sequence_length=24
    )
    backbone = fill_weights(AlbertBackbone(**sizes), 5)
    return AlbertClassifier(backbone, num_classes=3, preprocessor=preprocessor)


@pytest.mark.parametrize("bert", [False, True])
@pytest.mark.parametrize("rules", ["auto", WordPieceRules(split_cjk=False)])
def test_texts_have_the_same_ids_and_logits_there(tmp_path, bert, rules):
    import torch
    import transformers

    ours = _classifier(bert, rules)
    ours.export_to_transformers(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["pad_token_id"] == 1
    if not bert:
        assert (config["bos_token_id"], config["eos_token_id"]) == (3, 4)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    again = AlbertClassifier.from_preset(tmp_path)
    assert again.preprocessor.tokenizer.proto == ours.preprocessor.tokenizer.proto
    for text in TEXTS:
        rows = text if isinstance(text, tuple) else (text,)
        theirs = tokenizer(*rows, truncation=True, return_tensors="pt")
        found = ours.preprocessor(text)
        length = theirs["input_ids"].shape[1]
        np.testing.assert_array_equal(
            found["token_ids"][:length], theirs["input_ids"][0]
        )
        with torch.no_grad():
            expected = model(**theirs).logits.numpy()
        for task in (ours, again):
            found = task.predict([text], verbose=0)
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("config", {"pad_token_id": 0}, "pad_token_id=0, which is 1 in"),
        ("config", {"vocab_size": 400}, "weights embed 400"),
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path, name, changes, message):
    _classifier(True).export_to_transformers(tmp_path)
    change_json(tmp_path / f"{name}.json", **changes)
    with pytest.raises(ValueError, match=message):
        AlbertClassifier.from_preset(tmp_path)


def test_the_vocabulary_of_another_model_is_refused(tmp_path):
    ours = _classifier(True)
    ours.export_to_transformers(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    pieces = [*PIECES, *(f"[more{n}]" for n in range(9))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    with pytest.raises(ValueError, match=r"has 24 tokens, but its weights embed 15"):
        AlbertClassifier.from_preset(tmp_path)


def test_keras_hub_has_no_such_vocabulary(tmp_path):
    with pytest.raises(ValueError, match="has a SentencePiece vocabulary"):
        export_checkpoint(_classifier(False), tmp_path / "no", "keras-hub")
    assert not (tmp_path / "no").exists()


@pytest.fixture
def with_sentence_piece(tiny_proto, tmp_path):
    """A checkpoint with a `spiece.model` without text rules."""
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1, "vocabulary_size": 130}))
    backbone.export_to_transformers(tmp_path, AlbertTokenizer(tiny_proto))
    model = sentencepiece_proto.ModelProto.FromString(tiny_proto)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.precompiled_charsmap = b""
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    return tmp_path


@pytest.mark.parametrize(
    ("stated", "rules"),
    [
        ({"keep_accents": True}, TextRules(strip_accents=False)),
        ({"do_lower_case": True, "keep_accents": False}, TextRules()),
    ],
)
def test_a_sentence_piece_has_the_stated_rules(stated, rules, with_sentence_piece):
    (with_sentence_piece / "tokenizer_config.json").write_text(json.dumps(stated))
    found = AlbertTokenizer.from_preset(with_sentence_piece)
    plain = (with_sentence_piece / "spiece.model").read_bytes()
    assert found.proto == add_text_rules(plain, rules)


def test_sentence_piece_files_that_contradict_are_refused(with_sentence_piece):
    change_config(with_sentence_piece, pad_token_id=3)
    with pytest.raises(ValueError, match="pad_token_id=3, which is 0 in"):
        AlbertTokenizer.from_preset(with_sentence_piece)
    change_config(with_sentence_piece, pad_token_id=0)
    path = with_sentence_piece / "tokenizer_config.json"
    path.write_text(json.dumps({"keep_accents": "no"}))
    with pytest.raises(ValueError, match=r"`keep_accents` in .*true or false.*'no'"):
        AlbertTokenizer.from_preset(with_sentence_piece)
    path.unlink()
    (with_sentence_piece / "spiece.model").unlink()
    assert AlbertTokenizer.from_preset(with_sentence_piece)("A").size


def test_a_sentence_piece_comes_first(tmp_path, tiny_proto):
    """Another `vocab.txt` belongs to something else."""
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1, "vocabulary_size": 130}))
    backbone.export_to_transformers(tmp_path, AlbertTokenizer(tiny_proto))
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    assert AlbertTokenizer.from_preset(tmp_path).proto == tiny_proto
    shutil.rmtree(tmp_path)
